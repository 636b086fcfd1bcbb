"""Whether servers can be had the way a client has them: a bridge is started, greeted and asked for its tools.

Entries of clients are replaced only behind a trial: an entry whose server does not answer through Hearth is left alone.

Of servers that are new nothing is kept yet, so that the list makes the daemon start them. Bounded; a server that fails
has a sentence, and keeps no other from being tried.
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

# `start_timeout` is 60 s by default, for what npx and uvx download at the first start; a daemon and a list come on top.
TRIAL_SECONDS = 90.0
# Between two looks at a server that is still starting.
_POLL_SECONDS = 0.5
# So many at once that slow ones do not add up, and so few that a small machine can start them.
_AT_ONCE = 4
# What MCP clients hand on to a server, and the places that may lie elsewhere.
_HANDED_ON = frozenset({"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG"})
_HANDED_ON_PREFIXES = ("LC_", "XDG_")

Progress = Callable[[str], None]


class Trial(NamedTuple):
    """What came of one: how many tools it has, or why it has none."""

    server: str
    tools: int | None
    problem: str | None = None


class LeftAlone(NamedTuple):
    """An entry of a client that was not replaced, as its server failed the trial."""

    found: ClientServer
    reason: str
    server: str


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """As little as a client hands on; on Windows everything, without which programs do not start there."""
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
    """Try one server. Raises nothing that a person can be told."""
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


# --- entries that wait for it


def newly_replaced(plans: Iterable[TablePlan], found: Iterable[ClientServer]) -> list[tuple[ClientServer, str]]:
    """Return the entries that are about to give way to a bridge, each with its server; bridges are none of them."""
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
