"""Hooks in clients' settings that call `hearth hook`: the files, the events and the groups that are added to them.

    client        file                      events that are added
    Claude Code   ~/.claude/settings.json   PreToolUse, PermissionRequest, Stop and eight more
    Codex         ~/.codex/hooks.json       the same without Notification; Codex runs them once the user trusts them
    Gemini CLI    ~/.gemini/settings.json   BeforeTool, AfterAgent and six more

Each event has a list of groups in the file. One group of ours is added at its end, and every other byte stays; the
record and the way back are those of `connector`. The command tests that its program exists before it runs: a Python
without its script exits with code 2, which a client takes for a deny of every tool.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hearth.clients import bridge_entries, discovery, launcher
from hearth.clients.backups import Trace
from hearth.clients.bridge_entries import EditStep, EntryChange, TableOutcome
from hearth.clients.table import USER, Machine, Table
from hearth.config import editor
from hearth.config.document import parse
from hearth.errors import ConfigError
from hearth.host import system
from hearth.host.lasting_paths import lasting
from hearth.paths import Places

# Clients with hooks, by their name for `hearth hook --client`.
HOOKED = {"claude-code": "claude", "codex": "codex", "gemini": "gemini"}
KEYS = ("hooks",)
# Between the daemon's limit for a decision (hook_wait), the hook's own and the client's, each must have time to say
# why it denies.
GRACE_SECONDS = 5.0
# Events that are only noted; the client should not wait longer for a daemon that hangs.
NOTICE_SECONDS = 10
# The most that Codex allows for SessionEnd.
_END_SECONDS = 3
_OURS = re.compile(r"(?:hearth-bridge|hearth[\\/]bridge[\\/]main\.pyc?)['\"]? hook ([a-z-]+) --client ([a-z]+)")
TRUST_STEP = "its hooks run only after you trust them: start `codex`, type /hooks and trust those of Hearth"


class HookEvent(NamedTuple):
    """Event to add: the client's name and Hearth's, whether its group matches tools, and whether it may be noted."""

    name: str
    event: str
    has_tools: bool = False
    decides: bool = False
    # A decision or a stop check: the client waits for the daemon's answer.
    is_answered: bool = False


_TOOLS = {
    "pre": HookEvent("PreToolUse", "pre-tool-use", True, True, True),
    "request": HookEvent("PermissionRequest", "permission-request", True, True, True),
    "post": HookEvent("PostToolUse", "post-tool-use", True),
}
_COMMON = (
    *_TOOLS.values(),
    HookEvent("UserPromptSubmit", "user-prompt-submit"),
    HookEvent("Stop", "stop", is_answered=True),
    HookEvent("SubagentStart", "subagent-start"),
    HookEvent("SubagentStop", "subagent-stop", is_answered=True),
    HookEvent("PreCompact", "pre-compact"),
    HookEvent("SessionStart", "session-start"),
    HookEvent("SessionEnd", "session-end"),
)
EVENTS: dict[str, tuple[HookEvent, ...]] = {
    "claude": (*_COMMON, HookEvent("Notification", "notification")),
    "codex": _COMMON,
    "gemini": (
        HookEvent("BeforeTool", "before-tool", True, True, True),
        HookEvent("AfterTool", "after-tool", True),
        HookEvent("BeforeAgent", "before-agent"),
        HookEvent("AfterAgent", "after-agent", is_answered=True),
        HookEvent("PreCompress", "pre-compress"),
        HookEvent("Notification", "notification"),
        HookEvent("SessionStart", "session-start"),
        HookEvent("SessionEnd", "session-end"),
    ),
}


class HookCommand(NamedTuple):
    """Program of a hook: its first words, and the files that must exist for it to run."""

    words: Sequence[str]
    needed: Sequence[str]
    platform: str


# --- pure


def table_of(client: str, machine: Machine) -> Table:
    """Return the table of a client's hooks; its file need not exist."""
    if client == "claude-code":
        path = machine.join(machine.named("CLAUDE_CONFIG_DIR") or machine.at_home(".claude"), "settings.json")
    elif client == "codex":
        path = machine.join(machine.named("CODEX_HOME") or machine.at_home(".codex"), "hooks.json")
    else:
        path = machine.join(machine.named("GEMINI_CLI_HOME") or machine.home, ".gemini", "settings.json")
    return Table(client, path, KEYS, USER, None)


def groups(client: str, command: HookCommand, hook_wait: float, extra: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return the group for each event of a client; `extra` are options of `hearth hook`."""
    return {each.name: _group(client, each, command, hook_wait, extra) for each in EVENTS[client]}


def _group(
    client: str, event: HookEvent, command: HookCommand, hook_wait: float, extra: Sequence[str]
) -> dict[str, Any]:
    seconds = hook_wait + 2 * GRACE_SECONDS if event.is_answered else NOTICE_SECONDS
    if client == "codex" and event.name == "SessionEnd":
        seconds = _END_SECONDS
    wait = ["--wait", f"{hook_wait + GRACE_SECONDS:g}"] if event.is_answered else []
    words = [*command.words, "hook", event.event, "--client", client, *wait, *extra]
    hook: dict[str, Any] = {"type": "command", "command": shell_command(client, words, command)}
    if client == "gemini":
        hook = {"name": "hearth", **hook}
    # Whole seconds, rounded up; Gemini CLI counts milliseconds.
    hook["timeout"] = -int(-seconds // 1) * (1000 if client == "gemini" else 1)
    if client == "claude" and event.decides:
        # Otherwise Claude Code runs the tool when the hook cannot be started, or is killed.
        hook["onFailure"] = "block"
    return {**({"matcher": "*"} if event.has_tools else {}), "hooks": [hook]}


def shell_command(client: str, words: Sequence[str], command: HookCommand) -> str:
    """Return the text that the client's shell runs: nothing at all where a needed file is missing."""
    if command.platform != "win32" or client == "claude":
        # Claude Code uses Git's bash on Windows. Without `;`, so that fish understands it, too.
        tests = " || ".join(f"test ! -f {shlex.quote(path)}" for path in command.needed)
        return f"{tests} || exec {shlex.join(words)}"
    if client == "gemini":
        quoted = ["'" + word.replace("'", "''") + "'" for word in (*command.needed, *words)]
        tests = " -and ".join(f"(Test-Path {path})" for path in quoted[: len(command.needed)])
        return f"if ({tests}) {{ & {' '.join(quoted[len(command.needed) :])} }}"
    tests = " ".join(f'if exist "{path}"' for path in command.needed)
    return f"{tests} " + " ".join(f'"{word}"' if " " in word or "\\" in word else word for word in words)


def event_of(group: object) -> str | None:
    """Return the event for which a group calls `hearth hook`; None for any other group."""
    found = _OURS.search(next(_commands(group), ""))
    return found[1] if found else None


def _commands(group: object) -> Iterator[str]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    for hook in hooks if isinstance(hooks, list) else ():
        if isinstance(hook, dict) and isinstance(hook.get("command"), str):
            yield hook["command"]


def missing_files(group: object) -> list[str]:
    """Return the files that a group's command tests for and that do not exist."""
    found = []
    for text in _commands(group):
        tested = re.findall(r"(?:test ! -f|if exist|Test-Path) ('[^']*'|\"[^\"]*\"|[^\s)]+)", text)
        found += [path for path in (each.strip("'\"") for each in tested) if not os.path.exists(path)]
    return found


def seconds_of(client: str, group: Mapping[str, Any]) -> float:
    """Return the client's time limit for a group, in seconds; 0 if there is none."""
    hooks = group.get("hooks")
    found = hooks[0].get("timeout") if isinstance(hooks, list) and hooks and isinstance(hooks[0], dict) else None
    return found / (1000 if client == "gemini" else 1) if isinstance(found, int | float) else 0


# --- this machine


def tables(clients: Sequence[str], machine: Machine | None = None) -> list[Table]:
    """Return the tables of those clients that have hooks."""
    machine = machine or discovery.this_machine()
    return [table_of(client, machine) for client in clients if client in HOOKED]


def command_here(write: bool) -> HookCommand:
    """Return the program of hooks on this machine. With `write`, write the launcher first."""
    python = lasting(sys.executable)
    path = launcher.prepared(write)
    if path is None:
        script = launcher.bridge_file()
        return HookCommand([python, "-I", "-S", script], [python, script], system.PLATFORM)
    return HookCommand([path], [python, path], system.PLATFORM)


def connect(
    table: Table, places: Places, hook_wait: float, token_file: str | None = None, dry_run: bool = False
) -> TableOutcome:
    """Add Hearth's hooks to a client's file, or renew them. Raises ConfigError, Refused, FileAccessError.

    `bridge_entries.disconnect` undoes it.
    """
    extra = [*places.bridge_arguments(), *(["--token-file", token_file] if token_file else [])]
    wanted = groups(HOOKED[table.client], command_here(write=not dry_run), hook_wait, extra)
    return bridge_entries.changed(table, dry_run, lambda data, trace: _connected(table, wanted, data, trace))


def installed(table: Table) -> dict[str, list[dict[str, Any]]]:
    """Return the groups in a client's file that call `hearth hook`, by the client's name of the event.

    Raises ConfigError for a file that cannot be read.
    """
    document = discovery.opened(table.path)
    found = {} if document is None else _lists(table, document.tree)
    ours = {name: [group for group in found[name] if event_of(group)] for name in found}
    return {name: mine for name, mine in ours.items() if mine}


def _lists(table: Table, tree: object) -> dict[str, list[Any]]:
    """Return the lists of groups in a file. Raises ConfigError where there is something else."""
    found = editor.value_at(tree, table.keys)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError([f"{table.path}: {'.'.join(table.keys)!r} is not an object; mend it, then connect again"])
    return {name: value for name, value in found.items() if isinstance(value, list)}


def _connected(table: Table, wanted: Mapping[str, dict[str, Any]], data: bytes | None, trace: Trace | None) -> EditStep:
    document = parse(table.path, data or b"")
    known = _lists(table, document.tree)
    others = editor.value_at(document.tree, table.keys) or {}
    ours = {splice.name: splice for splice in bridge_entries.splices_of(trace, table)}
    values: dict[str, list[Any]] = {}
    for name, group in wanted.items():
        if others.get(name) is not None and name not in known:
            raise ConfigError([f"{table.path}: 'hooks.{name}' is not a list; mend it, then connect again"])
        former = ours[name].entry if name in ours else []
        kept = [each for each in known.get(name, ()) if each not in former]
        if group not in kept and known.get(name) != [*kept, group]:
            values[name] = [*kept, group]
    notes = [f"{TRUST_STEP}."] if table.client == "codex" and values else []
    if not values:
        return EditStep(TableOutcome(table, [], notes), data, trace)
    there = [name for name in values if name in known]
    texts = editor.written(table.path, data or b"", table.keys, there)
    new = _with_lists(table, data or b"", values, {name: texts[name] for name in there if name not in ours})
    now = editor.written(table.path, new, table.keys, values)
    changes = [EntryChange(name, texts.get(name), now[name], known.get(name), value) for name, value in values.items()]
    splices = [
        ours[name]._replace(entry=[value[-1]])
        if name in ours
        else bridge_entries.splice_for(table, name, [value[-1]], document, texts.get(name), data)
        for name, value in values.items()
    ]
    outcome = TableOutcome(table, changes, notes, is_made=data is None)
    made, is_lossy = bridge_entries.traced(table, data, new, trace, splices)
    return bridge_entries.keeping(EditStep(outcome, new, made), trace, is_lossy)


def _with_lists(table: Table, data: bytes, values: Mapping[str, list[Any]], texts: Mapping[str, str]) -> bytes:
    """Return the file with these lists. A list that is there gets its new last element, and its text stays."""
    for name, text in texts.items():
        try:
            longer = with_element(text, values[name][-1])
            data = editor.rewritten(table.path, data, table.keys, {name: longer}, {name: values[name]})
        except ConfigError:
            # The end of the list has comments, say: then the list is written again as a whole.
            data = editor.put(table.path, data, table.keys, {name: values[name]})
    rest = {name: value for name, value in values.items() if name not in texts}
    return editor.put(table.path, data, table.keys, rest) if rest else data


def with_element(text: str, element: object) -> str:
    """Return the text of a JSON list with one more element at its end, in the list's own layout. Pure."""
    import json

    head = text.rstrip().removesuffix("]")
    body = head.rstrip()
    space = head[len(body) :]
    comma = "" if body.endswith(("[", ",")) else ","
    written = json.dumps(element, ensure_ascii=False)
    if "\n" not in space:
        return f"{body}{comma}{' ' if comma else ''}{written}{space}]"
    line_end = "\r\n" if "\r\n" in space else "\n"
    return f"{body}{comma}{line_end}{space.rpartition(line_end)[2]}  {written}{space}]"
