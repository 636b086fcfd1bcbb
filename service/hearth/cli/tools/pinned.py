"""`hearth tools diff` and `hearth tools approve`: tools whose definitions have changed."""

import difflib
import json
import re
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from hearth import config
from hearth.cli import daemon_choice
from hearth.cli.daemon_choice import with_places
from hearth.cli.messages import complain, completed, confirm, json_option, print_json, styled, tell
from hearth.config import ServerSpec
from hearth.control_client import running_daemon
from hearth.errors import FileAccessError, Refused
from hearth.host.folders import refusal
from hearth.mcp.pinning import CHANGED, NEW, VANISHED, Change
from hearth.output import table
from hearth.output.status_lines import count
from hearth.paths import Places
from hearth.upstreams.pin_store import PinStore

# Characters with the category of letters or marks that are invisible or look like a blank.
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u034f") | {
    chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), *range(0x180B, 0x1810))
}
# Controls, formats (joiners, directions, tags), surrogates, private and unassigned ones; all blanks but the space.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Keys shown first, in this order, because a model reads them first; the others follow by name.
_FIRST = ("name", "title", "description")
_LINE_END = re.compile(r"\\\\|\\n")


@click.command(short_help="Show tools that are described otherwise than before.")
@click.argument("server", required=False, shell_complete=daemon_choice.complete_server)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, with full definitions.")
@with_places
def diff(places: Places, server: str | None, as_json: bool) -> int:
    """Show the tools whose definitions differ from those that were first seen or last approved: changed ones line
    by line, new ones whole, and the names of those that are gone. Agents read these texts, and a server may
    change them at any time.

    Characters that do not show, or that turn the direction of text, are written as <U+202E> and the like.
    Wakes nothing: it shows what servers offered when they last ran.

    \b
    Examples:
      hearth tools diff
      hearth tools diff github
      hearth tools diff --json | jq -r '.[].tool'
    """
    pins = PinStore(places.pins)
    specs = chosen(places, pins, server)
    changes = {name: pins.changes(name) for name in specs}
    problems = [unreadable(name, problem) for name in specs if (problem := pins.problem(name))]
    if as_json:
        found = [change_documents(name, changes[name], spec.pin) for name, spec in specs.items()]
        print_json([each for one in found for each in one])
    else:
        _show(specs, changes, bool(problems))
    complain(*problems)
    return FileAccessError.exit_code if problems else 0


def unreadable(server: str, problem: str) -> str:
    """Return the message for a server whose file cannot be read."""
    return (
        f"{server}: what is known of its tools cannot be read: {visible(problem)}; "
        "move the file away to have them trusted anew"
    )


def _show(specs: dict[str, ServerSpec], changes: dict[str, list[Change]], is_partial: bool) -> None:
    for name, spec in specs.items():
        for line in change_lines(name, changes[name], spec.pin):
            click.echo(styled(line))
    changed = [name for name in specs if changes[name]]
    for name in changed:
        summary = change_summary(changes[name])
        click.echo(table.clean(f"{name}: {summary}. `hearth tools approve {name}` accepts them."))
    if not changed and not is_partial:
        click.echo("Every tool is as it was first seen or last approved.")


def chosen(places: Places, pins: PinStore, server: str | None) -> dict[str, ServerSpec]:
    """Return the chosen servers, as configured; a named server may have been removed from the config since.

    Raises click.UsageError for an unknown server.
    """
    configured = dict(config.examine(places).config.served)
    if server is None:
        return configured
    seen = pins.servers()
    if server not in configured and server not in seen:
        daemon_choice.check_server_names([server], dict.fromkeys([*configured, *seen]), places.config_file())
    return {server: configured.get(server, ServerSpec(name=server))}


# --- changes of a tool


def visible(text: str) -> str:
    """Return the text with hidden characters written as `<U+XXXX>`."""
    return "".join(f"<U+{ord(each):04X}>" if _is_hidden(each) else each for each in text)


def _is_hidden(character: str) -> bool:
    return character != " " and (character in _BLANK or unicodedata.category(character) in _HIDDEN)


def definition_lines(text: str) -> list[str]:
    """Split a canonical definition into lines: one for each key and for each line of its texts."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return [visible(text)]
    if isinstance(tree, dict):
        tree = {**{key: tree[key] for key in _FIRST if key in tree}, **tree}
    lines = json.dumps(tree, indent=2, ensure_ascii=False).split("\n")
    return [visible(part) for line in lines for part in _broken(line)]


def _broken(line: str) -> list[str]:
    """Split a line of JSON after each escaped line end in its text."""
    indent = " " * (len(line) - len(line.lstrip(" ")) + 4)
    return _LINE_END.sub(lambda match: f"\\n\n{indent}" if match[0] == r"\n" else match[0], line).split("\n")


def change_lines(server: str, changes: Iterable[Change], is_pinned: bool) -> list[str]:
    """Return the lines of `hearth tools diff` for one server."""
    found = []
    for change in changes:
        found += [_headline(server, change, is_pinned), *_definition_diff(change), ""]
    return found


def _headline(server: str, change: Change, is_pinned: bool) -> str:
    words = {
        CHANGED: "is not as it was first seen or last approved",
        NEW: "is new",
        VANISHED: "is no longer offered",
    }[change.kind]
    withheld = "; it is withheld" if is_pinned and change.offered else ""
    return f"{visible(server)}: {visible(change.tool)} {words}{withheld}"


def _definition_diff(change: Change) -> list[str]:
    if change.kind == VANISHED:
        return []
    before = definition_lines(change.known[-1]) if change.known else []
    found = []
    for text in change.offered:
        found += list(
            difflib.unified_diff(
                before, definition_lines(text), "known" if before else "nothing", "offered", lineterm=""
            )
        )
    return found


def change_summary(changes: Iterable[Change]) -> str:
    """Return the number of changes of each kind."""
    kinds = [change.kind for change in changes]
    parts = [f"{kinds.count(kind)} {kind}" for kind in (CHANGED, NEW, VANISHED) if kind in kinds]
    return f"{count(len(kinds), 'tool')}: {', '.join(parts)}"


def change_documents(server: str, changes: Iterable[Change], is_pinned: bool) -> list[dict[str, Any]]:
    """Return the changes as JSON documents, with definitions as they are: hidden characters are not replaced."""
    return [
        {
            "server": server,
            "tool": change.tool,
            "change": change.kind,
            "withheld": is_pinned and bool(change.offered),
            "known": [_tree(text) for text in change.known],
            "offered": [_tree(text) for text in change.offered],
        }
        for change in changes
    ]


def _tree(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _complete_tool(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    places = daemon_choice.places_of(ctx)
    server = ctx.params.get("server")
    changes = PinStore(places.pins).changes(server) if places and server else []
    return completed((change.tool for change in changes), incomplete)


@click.command(short_help="Accept tools as they are described now.")
@click.argument("server", shell_complete=daemon_choice.complete_server)
@click.argument("tools", nargs=-1, metavar="[TOOL]...", shell_complete=_complete_tool)
@click.option("--yes", "-y", is_flag=True, help="Do not show them, and do not ask.")
@json_option("Print what was approved as JSON; asks nothing, so say --yes.")
@with_places
def approve(places: Places, server: str, tools: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Accept the definitions of a server's tools that have changed, or of the TOOLs that are named. Shows them
    first, and asks; exactly what was shown is accepted. Of a server with `pin = true` they were withheld until
    then: a running daemon offers them at once.

    \b
    Examples:
      hearth tools approve github
      hearth tools approve github create_issue
      hearth tools approve github --yes
      hearth tools approve github --yes --json | jq -r '.approved[].tool'
    """
    pins = PinStore(places.pins)
    ((name, spec),) = chosen(places, pins, server).items()
    problem = pins.problem(name)
    if problem:
        raise FileAccessError(unreadable(name, problem))
    changes = _wanted(pins.changes(name), tools, name)
    if not changes:
        said = f"Every tool of {table.clean(name)} is as it was first seen or last approved."
        tell(as_json, {"server": name, "approved": []}, said)
        return
    if not yes:
        _ask(name, changes, spec.pin, as_json)
    running_daemon.check_change(places, "`hearth tools approve`")
    try:
        pins.approve(name, changes)
    except OSError as exc:
        raise refusal("write to", pins.folder, exc) from exc
    daemon = running_daemon.find(places)
    if daemon:
        with daemon.control() as control:
            control.approved()
    approved = [{"tool": change.tool, "change": change.kind} for change in changes]
    said = table.clean(f"Approved of {name}, {change_summary(changes)}.")
    tell(as_json, {"server": name, "approved": approved}, said)


def _wanted(changes: list[Change], tools: tuple[str, ...], server: str) -> list[Change]:
    known = {change.tool for change in changes}
    for tool in tools:
        if tool not in known:
            there = f"; these have: {', '.join(sorted(map(visible, known)))}" if known else ""
            raise click.UsageError(f"Tool {tool!r} of {server} has not changed, or there is none{there}.")
    return [change for change in changes if not tools or change.tool in tools]


def _ask(server: str, changes: list[Change], is_pinned: bool, as_json: bool) -> None:
    if as_json:
        raise Refused("nothing was approved, and --json asks nothing: look at `hearth tools diff`, then say --yes")
    for line in change_lines(server, changes, is_pinned):
        click.echo(styled(line), err=True)
    if not sys.stdin.isatty():
        raise Refused("nothing was approved: there is no terminal to ask at; look at it, then say --yes")
    if not confirm(f"Approve {change_summary(changes)}?"):
        raise Refused("nothing was approved")
