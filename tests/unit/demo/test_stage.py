"""What the demo prepares before it starts anything."""

import tomllib

import pytest

from hearth.demo.stage import IDLE_TIMEOUT_SECONDS, config_text, known_servers


@pytest.mark.parametrize("path", ["/usr/bin/python", '/a "b"\\c/py', "/home/jürgen/火/python", "/tab\there/py"])
def test_the_config_is_toml_whatever_the_interpreter_is_called(path: str) -> None:
    read = tomllib.loads(config_text({"demo": [path, "-m", "x y"]}))
    assert read["mcpServers"]["demo"] == {"command": path, "args": ["-m", "x y"], "isolation": "shared"}
    assert read["idle_timeout"] == IDLE_TIMEOUT_SECONDS


def test_the_demo_server_is_always_among_the_servers() -> None:
    assert known_servers()["demo"][1:] == ["-I", "-m", "hearth.demo.server"]
