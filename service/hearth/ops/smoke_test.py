"""Trial of servers in the way of a client: start a bridge, initialize it and list its tools.

Entries of clients are replaced only after a trial: an entry whose server does not answer through Hearth is left alone.

New servers have no cached catalog yet, so the list makes the daemon start them. Each trial has a timeout. A server that
fails gets a sentence, and prevents no other trial.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from hearth.clients.discovery import ClientServer
from hearth.control_client import running_daemon
from hearth.errors import HearthError
from hearth.host import system
from hearth.ops.connect_clients import TablePlan
from hearth.ops.tool_caller import ToolCaller
from hearth.paths import Places

# `start_timeout` is 60 s by default, for downloads of npx and uvx at the first start; the daemon's start and the list
# come on top.
TRIAL_SECONDS = 90.0
# Interval between two checks of a server that is still starting.
_POLL_SECONDS = 0.5
# Enough at once that slow servers do not add up, and few enough that a small machine can start them.
_AT_ONCE = 4
# Variables that MCP clients pass on to a server, and those that name places.
_HANDED_ON = frozenset({"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG"})
_HANDED_ON_PREFIXES = ("LC_", "XDG_")

Progress = Callable[[str], None]


class Trial(NamedTuple):
    """Result of one trial: the number of tools, or the problem."""

    server: str
    tools: int | None
    problem: str | None = None


class LeftAlone(NamedTuple):
    """Entry of a client that was not replaced, because its server failed the trial."""

    found: ClientServer
    reason: str
    server: str


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the few variables that a client passes on; on Windows all, as programs do not start without them."""
    if system.is_windows():
        return dict(environ)
    return {
        name: value for name, value in environ.items() if name in _HANDED_ON or name.startswith(_HANDED_ON_PREFIXES)
    }


def try_all(places: Places, commands: Mapping[str, Sequence[str]], tell: Progress) -> list[Trial]:
    """Try each server by the command that a client has for it."""
    waiting = dict.fromkeys(commands)

    def one(server: str) -> Trial:
        tell(_said(waiting))
        found = try_one(places, server, commands[server])
        waiting.pop(server)
        tell(_said(waiting))
        return found

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(one, commands))


def _said(waiting: Mapping[str, Any]) -> str:
    return f"trying {', '.join(waiting)}" if waiting else "done"


def try_one(places: Places, server: str, command: Sequence[str]) -> Trial:
    """Try one server. A HearthError becomes the problem of the trial, and is not raised."""
    end = time.monotonic() + TRIAL_SECONDS
    try:
        with ToolCaller(places, server, lambda *_: None, lambda _: None, command, environment(os.environ)) as caller:
            while True:
                tools = caller.tools(max(1.0, end - time.monotonic()))
                state = {} if tools else _state(places, server)
                if state.get("error"):
                    return Trial(server, None, str(state["error"]))
                if tools or state.get("state") != "starting":
                    return Trial(server, len(tools))
                if time.monotonic() > end:
                    return Trial(server, None, f"it was not ready after {TRIAL_SECONDS:g} s")
                time.sleep(_POLL_SECONDS)
    except HearthError as exc:
        return Trial(server, None, str(exc))


def _state(places: Places, server: str) -> dict[str, Any]:
    upstreams = running_daemon.document(places).get("upstreams") or []
    return next((each for each in upstreams if each.get("name") == server), {})


# --- entries that depend on a trial


def newly_replaced(plans: Iterable[TablePlan], found: Iterable[ClientServer]) -> list[tuple[ClientServer, str]]:
    """Return the entries that a bridge is about to replace, each with its server; without entries that are bridges."""
    entries = {(each.table, each.name): each for each in found if each.bridge_to is None and not each.disabled}
    pairs = [((plan.table, name), server) for plan in plans for name, server in plan.replace.items()]
    return [(entries[key], server) for key, server in pairs if key in entries]


def without_failed(
    plans: Iterable[TablePlan], found: Iterable[ClientServer], trials: Iterable[Trial]
) -> tuple[list[TablePlan], list[LeftAlone]]:
    """Return the plans without the entries whose server failed its trial, and those entries with the reason."""
    plans = list(plans)
    failed = {each.server: each.problem for each in trials if each.problem}
    left = [
        LeftAlone(entry, f"no answer through Hearth: {failed[server]}", server)
        for entry, server in newly_replaced(plans, found)
        if server in failed
    ]
    keys = {(each.found.table, each.found.name) for each in left}
    kept = [
        plan._replace(replace={name: to for name, to in plan.replace.items() if (plan.table, name) not in keys})
        for plan in plans
    ]
    return kept, left
