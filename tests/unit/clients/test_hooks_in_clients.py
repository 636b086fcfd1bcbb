"""Hooks in clients' files: what is added, that every other byte stays, and the way back."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hearth.bridge import hook as hook_program
from hearth.clients import bridge_entries, codex_trust, hooks
from hearth.clients.bridge_entries import TableOutcome
from hearth.clients.hooks import EVENTS, HOOKED, HookCommand
from hearth.clients.table import Machine, Table
from hearth.errors import ConfigError
from hearth.paths import Places
from hearth.policy import hook_formats

COMMAND = HookCommand(["/s/hearth-bridge"], ["/v/python", "/s/hearth-bridge"], "linux")
WAIT = 50.0
# Files as their owners write them: layouts, comments, other hooks.
FILES = {
    "none": None,
    "empty": "",
    "object": "{}",
    "lines": "{\n}\n",
    "other": '{\n  "model": "x"\n}\n',
    "tabs": '{\n\t"model": "x",\n\t"hooks": {}\n}',
    "null": '{"hooks": null}',
    "no groups": '{"hooks": {"PreToolUse": [], "BeforeTool": [ ]}}\n',
    "crlf": '{\r\n  "hooks": {\r\n    "Stop": [\r\n      {"hooks": []}\r\n    ]\r\n  }\r\n}\r\n',
    "own": json.dumps({"hooks": {name: [{"hooks": [{"type": "command", "command": "true"}]}] for name in ("Stop",)}}),
    "lists": '{\n  "hooks": {\n    "PreToolUse": [\n      {\n        "matcher": "Bash",\n        "hooks": [ ]\n'
    '      }\n    ],\n    "AfterAgent": [{"hooks": []}]\n  },\n  "z": 1\n}\n',
    "comments": '{\n  // mine\n  "hooks": {\n    "PreToolUse": [\n      {"hooks": []} // last\n    ] /* x */\n  }\n}',
    "trailing": '{\n  "hooks": {\n    "PreToolUse": [\n      {"hooks": []},\n    ],\n  },\n}\n',
}


def table(folder: Path, client: str) -> Table:
    return Table(client, str(folder / "settings.json"), ("hooks",), "user", None)


def connect(where: Table, wait: float = WAIT, token_file: str | None = None) -> TableOutcome:
    return hooks.connect(where, Places(), wait, token_file)


def tree(where: Table) -> Any:
    from hearth.config.document import parse

    return parse(where.path, Path(where.path).read_bytes()).tree


@pytest.fixture(params=HOOKED)
def client(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


# --- groups


@pytest.mark.parametrize("name", hook_formats.CLIENTS)
def test_every_event_is_one_that_the_hook_knows_under_the_same_name(name: str) -> None:
    for each in EVENTS[name]:
        assert hook_formats.EVENTS[name][each.event] == each.name
        assert each.decides == (each.name in hook_formats.DECIDING)
        assert each.is_answered == (each.name in hook_formats.DECIDING | hook_formats.STOPPING)
    installed = {each.name for each in EVENTS[name]}
    assert {event for event in hook_formats.EVENTS[name].values() if event in hook_formats.DECIDING} <= installed
    assert not installed & {"BeforeModel", "AfterModel", "BeforeToolSelection"}


@pytest.mark.parametrize("name", hook_formats.CLIENTS)
def test_each_limit_leaves_time_to_say_why(name: str) -> None:
    for event, group in hooks.groups(name, COMMAND, WAIT).items():
        [entry] = group["hooks"]
        words = entry["command"].partition("exec /s/hearth-bridge hook ")[2].split()
        options = hook_program.parse(words)
        limit = hooks.seconds_of(name, group)
        kind = next(each for each in EVENTS[name] if each.name == event)
        assert (options.event, options.client) == (kind.event, name)
        assert WAIT < options.wait < limit if kind.is_answered else limit <= 10
        assert (entry.get("onFailure") == "block") == (name == "claude" and kind.decides)
        assert (group.get("matcher") == "*") == kind.has_tools


def test_a_fraction_of_a_second_is_rounded_up() -> None:
    group = hooks.groups("codex", COMMAND, 20.5)["PreToolUse"]
    assert group["hooks"][0]["timeout"] == 31


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_missing_program_is_silence_to_the_shell(tmp_path: Path, shell: str) -> None:
    python, script = tmp_path / "py thon", tmp_path / "it's"
    command = HookCommand([str(script)], [str(python), str(script)], "linux")
    text = hooks.shell_command("codex", [str(script), "hook"], command)
    assert subprocess.run([shell, "-c", text], check=False).returncode == 0
    python.touch()
    assert subprocess.run([shell, "-c", text], check=False).returncode == 0
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o755)
    assert subprocess.run([shell, "-c", text], check=False).returncode == 7


def test_on_windows_each_client_has_the_form_of_its_shell() -> None:
    command = HookCommand(["C:\\p\\python.exe", "-I"], ["C:\\p\\python.exe"], "win32")
    words = ["C:\\p\\python.exe", "-I", "hook", "stop"]
    assert hooks.shell_command("codex", words, command) == (
        'if exist "C:\\p\\python.exe" "C:\\p\\python.exe" -I hook stop'
    )
    assert hooks.shell_command("gemini", words, command) == (
        "if ((Test-Path 'C:\\p\\python.exe')) { & 'C:\\p\\python.exe' '-I' 'hook' 'stop' }"
    )
    assert hooks.shell_command("claude", words, command).startswith("test ! -f 'C:\\p\\python.exe' || exec ")


def test_the_files_are_where_the_clients_look_for_them() -> None:
    machine = Machine("linux", "/h", {})
    found = {client: hooks.table_of(client, machine).path for client in HOOKED}
    assert found == {
        "claude-code": "/h/.claude/settings.json",
        "codex": "/h/.codex/hooks.json",
        "gemini": "/h/.gemini/settings.json",
    }
    moved = {"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x", "GEMINI_CLI_HOME": "/g"}
    found = {client: hooks.table_of(client, Machine("linux", "/h", moved)).path for client in HOOKED}
    assert list(found.values()) == ["/c/settings.json", "/x/hooks.json", "/g/.gemini/settings.json"]


# --- files


@pytest.mark.parametrize("name", FILES)
def test_hooks_are_added_and_disconnecting_brings_every_byte_back(tmp_path: Path, client: str, name: str) -> None:
    where, text = table(tmp_path, client), FILES[name]
    file = Path(where.path)
    if text is not None:
        file.write_bytes(text.encode())
    before = tree(where) if text else {}
    outcome = connect(where)
    assert len(outcome.changes) == len(EVENTS[HOOKED[client]])
    now = tree(where)
    for event, groups in now["hooks"].items():
        own = ((before.get("hooks") or {}).get(event)) or []
        assert groups[: len(own)] == own
    assert {key: value for key, value in now.items() if key != "hooks"} == {
        key: value for key, value in before.items() if key != "hooks"
    }
    assert set(hooks.installed(where)) == {each.name for each in EVENTS[HOOKED[client]]}
    assert connect(where).changes == []
    bridge_entries.disconnect(where)
    assert (file.read_bytes() if file.exists() else None) == (None if text is None else text.encode())


@pytest.mark.parametrize("name", ["lists", "crlf", "trailing"])
def test_the_text_of_other_hooks_stays_while_hearths_are_beside_them(tmp_path: Path, name: str) -> None:
    where = table(tmp_path, "claude-code")
    Path(where.path).write_bytes(FILES[name].encode())
    connect(where)
    text = Path(where.path).read_bytes().decode()
    for line in FILES[name].splitlines():
        assert line.strip(" ,]") in text


def test_hooks_are_renewed_when_their_time_or_token_changes(tmp_path: Path, client: str) -> None:
    where = table(tmp_path, client)
    Path(where.path).write_text('{"hooks": {"Stop": [{"hooks": []}]}}')
    connect(where)
    changed = connect(where, wait=90.0, token_file="/t/dev.token").changes
    assert len(changed) == len(EVENTS[HOOKED[client]])
    found = hooks.installed(where)
    assert all(len(groups) == 1 and "--token-file /t/dev.token" in json.dumps(groups) for groups in found.values())
    bridge_entries.disconnect(where)
    assert Path(where.path).read_text() == '{"hooks": {"Stop": [{"hooks": []}]}}'


def test_a_file_that_its_client_has_saved_since_loses_hearths_hooks_only(tmp_path: Path, client: str) -> None:
    where = table(tmp_path, client)
    event = EVENTS[HOOKED[client]][0].name
    Path(where.path).write_text(json.dumps({"hooks": {event: [{"hooks": ["one"]}]}}))
    connect(where)
    saved = tree(where)
    saved["theme"] = "dark"
    saved["hooks"][event].append({"hooks": ["two"]})
    Path(where.path).write_text(json.dumps(saved, indent=4))
    outcome = bridge_entries.disconnect(where)
    assert outcome.notes == []
    assert tree(where) == {"hooks": {event: [{"hooks": ["one"]}, {"hooks": ["two"]}]}, "theme": "dark"}


def test_hooks_that_somebody_removed_are_not_missed(tmp_path: Path) -> None:
    where = table(tmp_path, "gemini")
    Path(where.path).write_text('{"a": 1}')
    connect(where)
    Path(where.path).write_text('{"a": 2}')
    bridge_entries.disconnect(where)
    assert tree(where) == {"a": 2}


@pytest.mark.parametrize("order", [("servers", "hooks"), ("hooks", "servers")])
def test_entries_and_hooks_in_one_file_come_and_go_in_any_order(tmp_path: Path, order: tuple[str, str]) -> None:
    """Gemini CLI has both in its settings."""
    text = '{\n  "mcpServers": {},\n  "ui": {"theme": "x"}\n}\n'
    both = {"hooks": table(tmp_path, "gemini"), "servers": table(tmp_path, "gemini")._replace(keys=("mcpServers",))}
    file = Path(both["hooks"].path)
    file.write_text(text)
    bridge_entries.connect(both["servers"], {}, True, Places())
    connect(both["hooks"])
    assert set(bridge_entries.connected()) == set(both.values())
    for name in order:
        bridge_entries.disconnect(both[name])
    assert file.read_text() == text


@pytest.mark.parametrize("text", ["[]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', '{"hooks": "x"}', "{"])
def test_a_file_that_makes_no_sense_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    where = table(tmp_path, "claude-code")
    Path(where.path).write_text(text)
    with pytest.raises(ConfigError):
        connect(where)
    assert Path(where.path).read_text() == text


def test_codex_is_told_of_its_trust_when_something_changes(tmp_path: Path) -> None:
    where = table(tmp_path, "codex")
    assert "/hooks" in connect(where).notes[0]
    assert connect(where).notes == []


# --- Codex's trust


def test_the_hash_is_the_one_that_codex_computes() -> None:
    """As codex 0.169 lists it for this very hook (`hooks/list` of its app server)."""
    group = {"matcher": "*", "hooks": [{"type": "command", "command": "true", "timeout": 60}]}
    found = codex_trust.hashes("/h/.codex/hooks.json", {"PreToolUse": [{"hooks": []}, group]})
    assert found == {("PreToolUse", 1): ("/h/.codex/hooks.json:pre_tool_use:1:0", PRE_TOOL_USE_HASH)}


PRE_TOOL_USE_HASH = "sha256:b9afa53d46f8ff2f5b4f39cfd1f96eda8f3dfdd4b1dd14d01f39f655e76c2225"


def test_a_matcher_of_stop_and_a_long_end_do_not_count() -> None:
    def value(name: str, group: dict[str, Any]) -> str:
        return codex_trust.hashes("/f", {name: [group]})[name, 0][1]

    entry = {"type": "command", "command": "true"}
    assert value("Stop", {"matcher": "x", "hooks": [entry]}) == value("Stop", {"hooks": [entry]})
    long, short = ({"hooks": [{**entry, "timeout": seconds}]} for seconds in (9, 3))
    assert value("SessionEnd", long) == value("SessionEnd", short)
    assert value("PreToolUse", {"hooks": [entry]}) == value("PreToolUse", {"hooks": [{**entry, "timeout": 600}]})
    assert value("PreToolUse", {"hooks": [entry]}) != value("PreToolUse", {"hooks": [{**entry, "command": "false"}]})


def test_a_hook_that_is_switched_off_is_not_trusted() -> None:
    state = {"a": {"trusted_hash": "x"}, "b": {"trusted_hash": "x", "enabled": False}, "c": 1}
    assert codex_trust.trusted({"hooks": {"state": state}}) == {"a": "x", "b": ""}
    assert codex_trust.trusted({"hooks": []}) == codex_trust.trusted({}) == {}
