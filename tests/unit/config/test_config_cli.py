"""`hearth config show|check|path`, as typed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> tuple[int, str, str]:
        code = main(["config", *words])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


@pytest.fixture
def config(home: Path) -> Path:
    path = home / ".config/hearth/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('idle_timeout = 5\n\n[mcpServers.a]\ncommand = "x"\nenv = { T = "s3cret" }\n')
    return path


def test_path_prints_the_file_whether_or_not_it_exists(run: Run, home: Path) -> None:
    assert run("path") == (0, f"{home}/.config/hearth/config.toml\n", "")
    assert run("path", "--profile", "work") == (0, f"{home}/.config/hearth/profiles/work/config.toml\n", "")
    assert run("path", "--config", "/etc/x.json") == (0, "/etc/x.json\n", "")


def test_the_variable_names_the_file(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = config.parent / "other.json"
    other.write_text('{"mcpServers": {}}')
    monkeypatch.setenv("HEARTH_CONFIG", str(other))
    assert run("path") == (0, f"{other}\n", "")


def test_show_says_where_each_value_comes_from(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARTH_LOG_LEVEL", "debug")
    code, out, _ = run("show")
    rows = [line.split() for line in out.splitlines()]
    assert code == 0
    assert ["idle_timeout", "5.0", f"{config}:1"] in rows
    assert ["log_level", '"debug"', "HEARTH_LOG_LEVEL"] in rows
    assert ["drain_timeout", "10.0", "default"] in rows
    assert ["mcpServers.a", f"({config}:3)"] in rows
    assert "s3cret" not in out


def test_show_as_json_is_the_same(run: Run, config: Path) -> None:
    code, out, _ = run("show", "--json")
    shown = json.loads(out)
    assert code == 0
    assert shown["settings"]["idle_timeout"] == {"value": 5.0, "origin": f"{config}:1"}
    assert shown["servers"]["a"]["env"] == {"T": "***"}


def test_show_of_a_wrong_config_is_its_problems_and_code_2(run: Run, config: Path) -> None:
    config.write_text("idle_timout = 5\n")
    code, out, err = run("show")
    assert (code, out) == (2, "")
    assert f"{config}:1: key 'idle_timout' is not known; did you mean 'idle_timeout'?" in err


def test_check_of_a_right_config_is_code_0(run: Run, config: Path) -> None:
    assert run("check") == (0, f"{config} is right: 1 MCP server.\n", "")


def test_check_without_a_config_says_that_the_defaults_hold(run: Run, home: Path) -> None:
    code, out, _ = run("check")
    assert (code, out) == (0, f"{home}/.config/hearth/config.toml does not exist, so the defaults hold.\n")


def test_check_prints_every_problem_and_warning_and_is_code_2(run: Run, config: Path) -> None:
    config.write_text('a = 1\nidle_timeout = "x"\n[mcpServers."b c"]\ncommand = "${ABSENT_IN_THIS_SHELL}"\n')
    code, out, _ = run("check")
    lines = out.splitlines()
    assert code == 2
    assert [line.split(":")[0] for line in lines] == ["problem", "problem", "warning", "warning"]
    assert "ABSENT_IN_THIS_SHELL is not set" in lines[3]
    code, out, _ = run("check", "--json")
    assert code == 2
    assert (len(json.loads(out)["problems"]), len(json.loads(out)["warnings"])) == (2, 2)


def test_check_does_not_mind_references_of_a_disabled_server(run: Run, config: Path) -> None:
    config.write_text('[mcpServers.a]\ncommand = "${ABSENT_IN_THIS_SHELL}"\ndisabled = true\n')
    assert run("check")[1] == f"{config} is right: 1 MCP server.\n"


def test_check_of_a_file_that_was_named_and_does_not_exist_is_code_2(run: Run, home: Path) -> None:
    code, out, _ = run("check", "--config", str(home / "absent.toml"))
    assert (code, out) == (2, f"problem: {home}/absent.toml: does not exist\n")


def test_what_a_file_says_cannot_write_to_the_terminal(run: Run, config: Path) -> None:
    config.write_text('[mcpServers."a\\u001b[31m"]\ncommand = "x\\u001b[31m"\n')
    assert "\x1b" not in run("check")[1] + run("show")[1]


@pytest.mark.parametrize("verb", ["show", "check", "path"])
def test_every_verb_teaches_by_example(run: Run, verb: str) -> None:
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert "Examples:" in out
