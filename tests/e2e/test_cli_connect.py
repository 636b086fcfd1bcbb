"""`hearth connect`: what it prints or writes is what a client runs, with a client's poor environment."""

import json
import os
import subprocess
import sys

import pytest

from e2e.cli_home import Bridge, Home, read, write


def test_the_printed_command_leads_to_the_one_daemon_with_a_client_s_environment(home: Home) -> None:
    """The client passes no XDG_RUNTIME_DIR, and its bridge meets the daemon that the command line sees."""
    home.configure_demo()
    entry = home.json("connect", "--print")["mcpServers"]["hearth"]
    # The venv's own link: resolved, it would be an interpreter that does not know the venv.
    assert os.path.dirname(entry["command"]) == os.path.dirname(sys.executable)
    assert entry["args"][:2] == ["-I", "-S"]
    assert entry["args"][-2:] == ["--socket", home.socket]
    shell = home.environment
    home.environment = {"HOME": home.home, "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "TERM": "dumb", "USER": "me"}
    bridge = Bridge(home, command=[entry["command"], *entry["args"]])
    home.environment = shell
    try:
        opened = bridge.open()["result"]
        (answer,) = bridge.ask("tools/call", name="demo__add", arguments={"a": 2, "b": 3})["result"]["content"]
        assert answer["text"] == "5"
        assert home.json("status", "--json")["daemonId"] == opened["_meta"]["hearth/daemonId"]
        assert home.run("stop", "--yes").returncode == 0
    finally:
        bridge.end()


def test_a_named_server_is_a_drop_in_for_its_own_entry(home: Home) -> None:
    home.configure_demo()
    entry = home.json("connect", "--print", "--server", "demo")["mcpServers"]["demo"]
    with Bridge(home, command=[entry["command"], *entry["args"]]) as bridge:
        names = {tool["name"] for tool in bridge.ask("tools/list")["result"]["tools"]}
        assert {"add", "count", "slow", "whoami"} == names


def test_a_server_that_is_not_configured_is_noted_beside_the_entry(home: Home) -> None:
    home.configure_demo()
    done = home.run("connect", "--print", "--server", "demo", "--server", "dmeo")
    assert done.returncode == 0
    assert json.loads(done.stdout)["mcpServers"].keys() == {"demo", "dmeo"}
    assert "'dmeo'" in done.stderr
    assert "'demo'" not in done.stderr


def test_the_profile_stands_in_the_arguments(home: Home) -> None:
    entry = home.json("connect", "--print", "--profile", "work", "--name", "mine")["mcpServers"]["mine"]
    assert entry["args"][-4:-2] == ["--profile", "work"]


CONFIG = '[mcpServers.demo]\ncommand = "demo"\nenv = { TOKEN = "s3cret-s3cret" }\n'
CURSOR = '{\n\t// mine\n\t"mcpServers": {"demo": {"command": "demo", "env": {"TOKEN": "s3cret-s3cret"}}},\n}\n'


@pytest.fixture
def cursor(home: Home) -> str:
    """Cursor's file, with one server."""
    return write(os.path.join(home.home, ".cursor", "mcp.json"), CURSOR)


def test_a_client_s_entry_gives_way_to_one_that_works_and_comes_back(home: Home, cursor: str) -> None:
    home.write_config(CONFIG)
    home.ok("connect", "cursor", "--yes", "--no-try")
    entry = json.loads(read(cursor).replace("// mine", "").replace("},\n}", "}\n}"))["mcpServers"]["demo"]
    home.configure_demo()
    with Bridge(home, command=[entry["command"], *entry["args"]]) as bridge:
        names = {tool["name"] for tool in bridge.ask("tools/list")["result"]["tools"]}
        assert {"add", "count", "slow", "whoami"} == names
    done = home.run("disconnect", "--all")
    assert (done.returncode, done.stderr) == (0, "")
    assert read(cursor) == CURSOR


def test_an_entry_whose_server_does_not_answer_through_hearth_is_left_alone(home: Home, cursor: str) -> None:
    home.write_config(CONFIG)
    document = home.json("connect", "cursor", "--yes", "--json")
    assert [(each["name"], "'demo' was not found" in each["reason"]) for each in document["left"]] == [("demo", True)]
    assert read(cursor) == CURSOR
    done = home.run("connect", "cursor", "--yes")
    assert "Cursor: demo stays as it is: no answer through Hearth: " in done.stderr
    assert read(cursor) == CURSOR


@pytest.mark.parametrize("disabled", ["", "disabled = true\n"])
def test_a_server_is_tried_before_the_entry_of_a_client_gives_way(home: Home, cursor: str, disabled: str) -> None:
    home.write_config(read(home.configure_demo()) + disabled)
    server = {"command": sys.executable, "args": ["-I", "-m", "hearth.demo.server"]}
    write(cursor, json.dumps({"mcpServers": {"demo": server}}))
    home.ok("connect", "cursor", "--yes")
    assert (json.loads(read(cursor))["mcpServers"]["demo"] == server) == bool(disabled)


def test_a_launcher_whose_interpreter_is_gone_is_found_and_repaired_by_doctor(home: Home) -> None:
    home.configure_demo()
    os.mkdir(os.path.join(home.home, ".cursor"))
    path = os.path.join(home.home, ".cursor", "mcp.json")
    home.ok("connect", "cursor", "--yes")
    entry = json.loads(read(path))["mcpServers"]["hearth"]
    assert entry["command"] == os.path.join(home.home, ".local", "state", "hearth", "hearth-bridge")
    script = read(entry["command"])
    assert script.startswith(f"#!{sys.executable} -IS\n")
    write(entry["command"], script.replace(sys.executable, "/gone/bin/python", 1))
    (found,) = [each for each in home.findings() if each["id"] == "clients.bridge"]
    assert "/gone/bin/python" in found["message"]
    home.run("doctor", "--fix", "--yes")
    # The entry is as it was; the file that it names is right again.
    assert json.loads(read(path))["mcpServers"]["hearth"] == entry
    assert read(entry["command"]) == script
    bridge = Bridge(home, command=[entry["command"], *entry["args"]])
    try:
        assert bridge.open()["result"]["serverInfo"]
    finally:
        bridge.end()


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 5)])
def test_a_person_is_shown_the_change_in_colour_and_asked(home: Home, cursor: str, answer: str, code: int) -> None:
    seen = home.at_terminal(code, "connect", "cursor", answers={"Change it?": f"{answer}\n"})
    assert "\x1b[32m+" in seen
    assert "s3cret" not in seen
    assert (read(cursor) == CURSOR) == (answer == "n")


def test_typed_with_options_before_the_verb_the_bridge_is_still_reached(home: Home) -> None:
    home.configure_demo()
    done = subprocess.run(
        [sys.executable, "-m", "hearth", "--profile", "mcp", "bridge"],
        env=home.environment,
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert json.loads(done.stdout)["id"] == 1


def test_a_mode_is_handed_to_the_bridge(home: Home) -> None:
    entry = home.json("connect", "--print", "--mode", "search")["mcpServers"]["hearth"]
    assert entry["args"][-2:] == ["--mode", "search"]
    assert "--mode" not in home.json("connect", "--print")["mcpServers"]["hearth"]["args"]
    assert home.run("connect", "--print", "--mode", "odd").returncode == 2
