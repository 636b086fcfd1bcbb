"""`hearth setup` as typed, from files as clients have them to a daemon that serves them, and back."""

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cli_home import Bridge, Home, write

TOKEN = "ghp_" + "s3cr3t" * 6
OTHER = "hunter2-s3cr3t"
DEMO = ["-I", "-m", "hearth.demo.server"]
CLAUDE = f"""\
{{
    "numStartups": 3,
    "mcpServers": {{
\t"demo": {{"type": "stdio", "command": "{sys.executable}",
            "args": {json.dumps(DEMO)}, "env": {{"GITHUB_TOKEN": "{TOKEN}", "SHOP_KEY": "${{SHOP_KEY}}"}}}},
        "gone": {{"command": "no-such-program-anywhere", "args": []}}
    }},
    "projects": {{}}
}}"""
WORKING = CLAUDE.replace('"no-such-program-anywhere", "args": []', f'"{sys.executable}", "args": {json.dumps(DEMO)}')
CODEX = f"""\
# mine
model = "o1"

[mcp_servers.demo]   # the same
command = "{sys.executable}"
args = {json.dumps(DEMO)}
env_vars = ["SHOP_KEY"]
env = {{ GITHUB_TOKEN = "{TOKEN}" }}
tool_timeout_sec = 30
"""


class Machine(Home):
    """A home with clients in it, whose files are remembered as they were."""

    def __init__(self) -> None:
        super().__init__()
        self.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
        self.environment["SHOP_KEY"] = OTHER
        self.originals: dict[str, bytes] = {}

    def put(self, name: str, text: str, mode: int = 0o644) -> str:
        """Write a client's file."""
        path = write(os.path.join(self.home, name), text)
        os.chmod(path, mode)
        self.originals[path] = read(path)
        return path

    def files(self) -> dict[str, bytes]:
        """Every file of the home, by its path."""
        return {str(path): path.read_bytes() for path in Path(self.home).rglob("*") if path.is_file()}

    def configs(self) -> dict[str, bytes]:
        """The files that are people's: clients' and Hearth's own."""
        state = os.path.join(self.home, ".local")
        return {path: data for path, data in self.files().items() if not path.startswith(state)}


def read(path: str) -> bytes:
    return Path(path).read_bytes()


@pytest.fixture
def machine() -> Iterator[Machine]:
    found = Machine()
    try:
        yield found
    finally:
        found.clear()


@pytest.fixture
def clients(machine: Machine) -> Machine:
    """Claude Code and Codex with servers, Gemini CLI without any."""
    machine.put(".claude.json", CLAUDE, 0o600)
    machine.put(".codex/config.toml", CODEX.replace("\n", "\r\n"))
    os.makedirs(os.path.join(machine.home, ".gemini"))
    return machine


def bridge_of(machine: Machine, client: str, name: str) -> list[str]:
    """The words by which a client now starts a server."""
    if client == "codex":
        import tomllib

        found: Any = tomllib.loads(read(os.path.join(machine.home, ".codex/config.toml")).decode())["mcp_servers"]
    else:
        path = {"claude": ".claude.json", "gemini": ".gemini/settings.json"}[client]
        found = json.loads(read(os.path.join(machine.home, path)))["mcpServers"]
    return [found[name]["command"], *found[name]["args"]]


def tools(machine: Machine, command: list[str]) -> list[str]:
    with Bridge(machine, command=command) as bridge:
        return [tool["name"] for tool in bridge.ask("tools/list")["result"]["tools"]]


def test_one_command_and_every_client_uses_one_server_and_another_brings_every_byte_back(clients: Machine) -> None:
    said = clients.ok("setup", "--yes", "--no-service")
    assert "demo, gone through Hearth" in said
    assert "demo  4 tools" in said
    # `gone` is no program: its entry was left, and its server is named with the reason.
    assert "2 entries moved to Hearth, 1 left as it was:" in said
    assert "gone (Claude Code): no answer through Hearth: server 'gone' could not be started" in said
    entries = json.loads(read(os.path.join(clients.home, ".claude.json")))["mcpServers"]
    assert entries["gone"] == {"command": "no-such-program-anywhere", "args": []}
    # Each client asks for it under the name that it had, and tools keep theirs.
    own = tools(clients, [sys.executable, *DEMO])
    assert tools(clients, bridge_of(clients, "claude", "demo")) == own
    assert tools(clients, bridge_of(clients, "codex", "demo")) == own
    assert tools(clients, bridge_of(clients, "gemini", "hearth")) == [f"demo__{name}" for name in own]
    (demo,) = (each for each in clients.json("status", "--json")["upstreams"] if each["name"] == "demo")
    assert len(demo["pids"]) == 1
    assert clients.run("disconnect", "--all").returncode == 0
    for path, data in clients.originals.items():
        assert read(path) == data
    assert not os.path.exists(os.path.join(clients.home, ".gemini", "settings.json"))


def test_a_second_setup_changes_nothing(clients: Machine) -> None:
    clients.put(".claude.json", WORKING)
    first = clients.run("setup", "--yes", "--no-service")
    assert first.returncode == 0, first.stderr
    before = clients.configs()
    # Nothing is to be asked, so no --yes is needed.
    again = clients.run("setup", "--no-service")
    assert again.returncode == 0, again.stderr
    assert "Nothing is left to do." in again.stdout
    assert clients.configs() == before


def test_a_server_that_does_not_work_is_named_with_what_to_do_and_is_no_failure(clients: Machine) -> None:
    document = clients.json("setup", "--yes", "--no-service", "--json")
    trials = {each["server"]: each for each in document["trials"]}
    assert trials["demo"]["tools"] == 4
    assert "no-such-program-anywhere" in trials["gone"]["problem"]
    assert document["done"] is True
    assert document["problems"] == []
    assert [each["name"] for each in document["moved"]] == ["demo", "demo"]
    assert [each["name"] for each in document["left"]] == ["gone"]
    again = clients.run("setup", "--yes", "--no-service")
    assert "no-such-program-anywhere" in again.stdout
    assert "Install it" in again.stdout


def test_an_entry_that_was_left_is_moved_once_its_server_answers(clients: Machine) -> None:
    path = os.path.join(clients.home, ".claude.json")
    clients.json("setup", "--yes", "--no-service", "--json")
    assert clients.run("remove", "gone").returncode == 0
    clients.put(".claude.json", WORKING.replace('"-I", ', '"-I", "-B", '))
    document = clients.json("setup", "--yes", "--no-service", "--json")
    assert "gone" in [each["name"] for each in document["moved"]]
    assert document["left"] == []
    assert json.loads(read(path))["mcpServers"]["gone"]["args"][-1] == "gone"


def test_a_program_that_only_this_shell_finds_is_started_by_its_full_path(machine: Machine) -> None:
    app = os.path.join(machine.home, "app")
    program = os.path.join(app, "node_modules", ".bin", "weather")
    write(program, f'#!/bin/sh\nexec {sys.executable} -I -m hearth.demo.server "$@"\n')
    os.chmod(program, 0o755)
    # A daemon that runs already, with another PATH than the shell in which the person types.
    machine.configure_demo()
    machine.run("call", "demo", "add", "a=1", "b=2")
    path = machine.put(".claude.json", json.dumps({"mcpServers": {"weather": {"command": "weather"}}}))
    machine.environment["PATH"] = f"node_modules/.bin:{machine.environment['PATH']}"
    done = machine.run_in(app, "setup", "--yes", "--no-service", "--client", "claude-code")
    assert done.returncode == 0, done.stderr
    assert "1 entry moved to Hearth, 0 left as they were." in done.stdout
    assert machine.json("config", "show", "--json")["servers"]["weather"]["command"] == program
    entry = json.loads(read(path))["mcpServers"]["weather"]
    assert len(tools(machine, [entry["command"], *entry["args"]])) == 4


def test_secrets_are_where_they_belong_and_nowhere_else(clients: Machine) -> None:
    done = clients.run("setup", "--yes", "--no-service")
    document = clients.run("setup", "--yes", "--no-service", "--json")
    assert done.returncode == document.returncode == 0
    assert "s3cr3t" not in done.stdout + done.stderr + document.stdout + document.stderr
    found = {path: data for path, data in clients.files().items() if b"s3cr3t" in data}
    state = os.path.join(clients.home, ".local", "state", "hearth")
    vault = os.path.join(state, "vault", "secrets.values.json")
    # The former bytes of clients' files, for the way back.
    kept = {path for path in found if path.startswith(os.path.join(state, "clients"))}
    assert set(found) - kept == {vault}
    assert {stat.S_IMODE(os.stat(path).st_mode) for path in found} == {0o600}
    config = read(os.path.join(clients.home, ".config", "hearth", "config.toml")).decode()
    assert 'GITHUB_TOKEN = "${keyring:github-token}"' in config
    assert 'SHOP_KEY = "${keyring:shop-key}"' in config


def test_a_client_that_cannot_be_connected_is_said_and_the_next_setup_finishes_it(clients: Machine) -> None:
    # Which of two equal keys is meant, nobody can say.
    path = os.path.join(clients.home, ".claude.json")
    twice = WORKING.replace('"gone"', '"gone": {"command": "x"}, "gone"')
    clients.put(".claude.json", twice)
    said = clients.fails(1, "setup", "--yes", "--no-service")
    assert ".claude.json" in said
    assert "again does what is left" in said
    assert read(path) == twice.encode()
    assert b"--server" in read(os.path.join(clients.home, ".codex", "config.toml"))
    clients.put(".claude.json", WORKING)
    clients.ok("setup", "--yes", "--no-service")
    assert b"--server" in read(path)


def test_a_broken_file_keeps_no_other_client_back(clients: Machine) -> None:
    path = clients.put(".gemini/settings.json", '{"mcpServers": ')
    assert "settings.json" in clients.fails(1, "setup", "--yes", "--no-service")
    assert read(path) == clients.originals[path]
    assert b"--server" in read(os.path.join(clients.home, ".claude.json"))


def test_what_cannot_be_read_is_no_mistake_in_the_command_even_if_there_is_nothing_else(clients: Machine) -> None:
    clients.put(".codeium/windsurf/mcp_config.json", '{"mcpServers": ')
    assert "mcp_config.json" in clients.fails(1, "setup", "--yes", "--no-service", "--client", "windsurf")


def test_with_a_broken_file_it_does_not_say_that_nothing_is_left(clients: Machine) -> None:
    clients.run("setup", "--yes", "--no-service", "--client", "codex")
    clients.put(".gemini/settings.json", '{"mcpServers": ')
    done = clients.run("setup", "--yes", "--no-service", "--client", "codex", "--client", "gemini")
    assert done.returncode == 1
    assert "Nothing is left to do." not in done.stdout
    assert "Nothing else is left to do." in done.stdout


def test_hearths_own_config_with_a_mistake_stops_it_before_anything_is_done(clients: Machine) -> None:
    clients.write_config("idle_timeot = 3\n")
    before = clients.files()
    assert "idle_timeot" in clients.fails(2, "setup", "--yes", "--no-service")
    assert clients.files() == before


def test_without_a_terminal_it_shows_the_plan_and_says_what_to_type(clients: Machine) -> None:
    before = clients.configs()
    done = clients.run("setup", "--no-service")
    assert done.returncode == 5
    assert "Clients: Claude Code, Codex, Gemini CLI" in done.stdout
    assert "say --yes" in done.stderr
    assert f"{sys.executable} -I -m hearth.demo.server" in clients.ok("setup", "--dry-run")
    assert clients.json("setup", "--dry-run", "--json")["done"] is False
    assert clients.configs() == before


def test_it_is_asked_for_once_at_a_terminal(clients: Machine) -> None:
    before = clients.configs()
    seen = clients.at_terminal(5, "setup", "--no-service", answers={"Do it? [Y/n]: ": "n\n"})
    assert "nothing was done" in seen and "interrupted" not in seen
    assert clients.configs() == before
    seen = clients.at_terminal(0, "setup", "--no-service", answers={"Do it? [Y/n]: ": "\n"})
    assert seen.count("?") == 1
    assert "Undo: `hearth disconnect --all`" in seen
    assert "Secrets are kept in " in seen
    assert "the secrets that are left over" in seen


def test_one_entry_for_all_servers_is_added_on_request(clients: Machine) -> None:
    clients.ok("setup", "--yes", "--no-service", "--one", "--client", "codex")
    assert len(tools(clients, bridge_of(clients, "codex", "hearth"))) == 4
    assert bridge_of(clients, "codex", "demo") == [sys.executable, *DEMO]
    assert read(os.path.join(clients.home, ".claude.json")) == CLAUDE.encode()


def test_another_profile_is_set_up_beside_the_first(clients: Machine) -> None:
    clients.ok("setup", "--yes", "--no-service", "--profile", "work", "--client", "codex")
    assert "--profile" in bridge_of(clients, "codex", "demo")
    assert os.path.exists(os.path.join(clients.home, ".config", "hearth", "profiles", "work", "config.toml"))


def test_a_clients_file_that_is_hearths_own_config_is_left_alone(clients: Machine) -> None:
    path = os.path.join(clients.home, ".claude.json")
    document = clients.json("setup", "--yes", "--config", path, "--json")
    assert [each["path"] for each in document["files"]] != []
    assert path not in [each["path"] for each in document["files"]]
    assert read(path).startswith(CLAUDE[:60].encode())
    assert b"hearth/bridge" not in read(path)


def test_with_no_client_it_says_which_were_looked_for(machine: Machine) -> None:
    assert "looked for Claude Code, Claude Desktop, Codex" in machine.ok("setup", PATH="/nowhere")


def test_clients_without_any_server_are_left_alone_until_there_is_one(machine: Machine) -> None:
    os.makedirs(os.path.join(machine.home, ".gemini"))
    assert "`hearth add NAME -- COMMAND` adds one" in machine.ok("setup", "--yes", "--no-service", PATH="/nowhere")
    assert machine.files() == {}
    machine.configure_demo()
    machine.ok("setup", "--yes", "--no-service", PATH="/nowhere")
    assert len(tools(machine, bridge_of(machine, "gemini", "hearth"))) == 4
