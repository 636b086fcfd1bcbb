"""Lines about agents: the table, one agent in full, and entries of a timeline. Pure: documents in, lines out.

Titles, messages, tool calls and errors are texts of agents, and are cleaned for the terminal here.
"""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from hearth.output import table
from hearth.output.table import Column, duration, text_of

Document = Mapping[str, Any]

# A longer title would push out the columns behind it.
TITLE_CELLS = 40
# Of a tool's arguments and of a permission: enough to decide most, on two lines of a terminal.
DETAIL_CHARACTERS = 160
# Statuses in which a turn runs, or is about to.
BUSY = frozenset({"initializing", "running"})
_PLAN_MARKS = {"completed": "x", "in_progress": "~"}


def seconds_of(value: object) -> float | None:
    """Return a time in seconds since 1970, from such a number or from ISO 8601; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except ValueError:
        return None


# --- the table


def agent_table(agents: Sequence[Document], now: float, width: int, home: str) -> list[str]:
    """Return a row for each agent, and below them what waits for a person."""
    if not agents:
        return ["There is no agent. `hearth agent run PROMPT` starts one."]
    rows = [{**each, "cwd": short_path(text_of(each.get("cwd")), home), "age": _age(each, now)} for each in agents]
    waiting = waiting_lines(agents)
    return [*table.listed(COLUMNS, rows, width), *([""] if waiting else []), *waiting]


def _age(each: Document, now: float) -> str:
    created = seconds_of(each.get("createdAt"))
    return table.NOTHING if created is None else duration(max(0.0, now - created))


def cut(text: str, cells: int) -> str:
    """Return the beginning of an untrusted text, on one line."""
    return table.fit(table.clean(text), cells).rstrip()


COLUMNS = (
    Column("ID", 0, "id"),
    Column("TITLE", 0, lambda each: cut(text_of(each.get("title")), TITLE_CELLS)),
    Column("PROVIDER", 4, "provider"),
    Column("ROLE", 3, "role", optional=True),
    Column("STATUS", 1, "status"),
    Column("MODE", 5, "currentModeId", optional=True),
    Column("PARENT", 7, "parentAgentId", optional=True),
    Column("CWD", 2, "cwd", flexible=True),
    Column("AGE", 6, "age"),
)


def short_path(path: str, home: str) -> str:
    """Return a path with `~` for the home folder."""
    if path == home:
        return "~"
    return "~" + path.removeprefix(home) if home and path.startswith(home + os.sep) else path


def waiting_lines(agents: Sequence[Document]) -> list[str]:
    """Return a line for each permission that waits for a decision, with what to type."""
    found = [(each, asked) for each in agents for asked in each.get("pendingPermissions") or ()]
    if not found:
        return []
    count = "1 permission waits" if len(found) == 1 else f"{len(found)} permissions wait"
    lines = [f"{count} for a decision:"]
    for each, asked in found:
        lines.append(f"  {table.clean(text_of(asked.get('id')))}  {text_of(each.get('id'))}: {permission_text(asked)}")
    return [*lines, click.style(permission_hint(found[0][1]), dim=True)]


def permission_text(asked: Document) -> str:
    """Return what an agent asks to do, on one line: the tool, its title and its arguments."""
    request = asked.get("request")
    body: Document = request if isinstance(request, Mapping) else asked
    words = [str(body[key]) for key in ("name", "title", "description") if body.get(key)]
    if body.get("input"):
        words.append(_arguments(body["input"]))
    # A title often repeats the name of the tool.
    kept = [word for number, word in enumerate(words) if word not in words[:number]]
    return table.clean(" ".join(kept) or "something")


def permission_hint(asked: Document) -> str:
    """Return the commands that decide a permission."""
    id = table.clean(text_of(asked.get("id")))
    return f"hearth approve {id}, or hearth deny {id}"


def _arguments(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# --- one agent


def agent_lines(snapshot: Document, now: float, home: str) -> list[str]:
    """Return what is known of one agent, a line for each fact."""
    facts = [
        ("id", snapshot.get("id")),
        ("title", snapshot.get("title")),
        ("status", _status(snapshot)),
        ("provider", _provider(snapshot)),
        ("role", snapshot.get("role")),
        ("mode", _mode(snapshot)),
        ("folder", short_path(text_of(snapshot.get("cwd")), home)),
        ("worktree", _worktree(snapshot.get("worktree"))),
        ("parent", snapshot.get("parentAgentId")),
        ("labels", ", ".join(f"{key}={value}" for key, value in (snapshot.get("labels") or {}).items())),
        ("created", _ago(snapshot.get("createdAt"), now)),
        ("last prompt", _ago(snapshot.get("lastUserMessageAt"), now)),
        ("usage", _usage(snapshot.get("lastUsage"))),
        ("error", snapshot.get("lastError")),
    ]
    shown = [(name, table.clean(str(value))) for name, value in facts if value not in (None, "", table.NOTHING)]
    size = max(len(name) for name, _ in shown)
    lines = [f"{name:<{size}}  {value}" for name, value in shown]
    waiting = waiting_lines([snapshot])
    return [*lines, *([""] if waiting else []), *waiting]


def _status(snapshot: Document) -> str:
    status = text_of(snapshot.get("status"))
    reason = snapshot.get("closedReason")
    return f"{status} ({reason})" if reason else status


def _provider(snapshot: Document) -> str:
    model = snapshot.get("model")
    return f"{text_of(snapshot.get('provider'))}{f' ({model})' if model else ''}"


def _mode(snapshot: Document) -> str:
    others = [mode.get("id") for mode in snapshot.get("availableModes") or () if isinstance(mode, Mapping)]
    current = text_of(snapshot.get("currentModeId"))
    rest = [str(each) for each in others if each != snapshot.get("currentModeId")]
    return f"{current} (also: {', '.join(rest)})" if rest else current


def _worktree(found: object) -> str:
    if not isinstance(found, Mapping):
        return ""
    return f"{text_of(found.get('path'))}, branch {text_of(found.get('branch'))} from {text_of(found.get('base'))}"


def _ago(value: object, now: float) -> str:
    at = seconds_of(value)
    return "" if at is None else f"{duration(max(0.0, now - at))} ago"


def _usage(found: object) -> str:
    if not isinstance(found, Mapping):
        return ""
    return ", ".join(f"{key} {value:g}" for key, value in found.items() if isinstance(value, int | float))


# --- entries of a timeline


def entry_text(entry: Document) -> str:
    """Return one entry of a timeline as text of several lines; empty for an entry that only a program reads."""
    match entry.get("kind"):
        case "message":
            return _lines(entry.get("text"))
        case "user":
            return click.style("> ", fg="cyan") + _lines(entry.get("text")).replace("\n", "\n  ")
        case "thought":
            return click.style(_lines(entry.get("text")), dim=True)
        case "tool":
            return tool_line(entry)
        case "plan":
            return "\n".join(_plan(entry))
        case "error":
            return click.style("error: ", fg="red") + _lines(entry.get("text") or entry.get("message"))
        case "mode":
            return click.style(f"[mode {table.clean(text_of(entry.get('mode')))}]", dim=True)
        case "compacted":
            return click.style("[the agent has shortened its context]", dim=True)
        case "system":
            return click.style(_lines(entry.get("text")), dim=True)
    return ""


def tool_line(entry: Document) -> str:
    """Return one call of an agent's tool on one line. Only a failure is said: others are seen by what follows."""
    has_failed = entry.get("status") == "failed"
    name = " ".join(text_of(entry.get("title") or entry.get("name")).split())
    line = cut(f"{name}{' (failed)' if has_failed else ''}", DETAIL_CHARACTERS)
    return click.style(f"[{line}]", fg="red" if has_failed else None, dim=not has_failed)


def _plan(entry: Document) -> list[str]:
    found = [each for each in entry.get("entries") or () if isinstance(each, Mapping)]
    return [f"- [{_PLAN_MARKS.get(str(each.get('status')), ' ')}] {table.clean(text_of(each.get('content')))}"
            for each in found]  # fmt: skip


def _lines(text: object) -> str:
    return table.harmless(str(text or ""))
