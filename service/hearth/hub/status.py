"""What is going on, in one line: "3 sessions, 5 servers (2 running, 1 failing: github), 1 call". Pure."""

from collections.abc import Mapping

from hearth.upstreams.awaited_login import NEEDS_LOGIN
from hearth.upstreams.supervision import FAILING

# With more names it would be no line any longer; `hearth status` has them all.
NAMES_SHOWN = 3


def line(sessions: int, states: Mapping[str, str], running: int, calls: int) -> str:
    """`states` are those of the servers, by name; `running` is how many of them have a process or a conversation."""
    parts = [f"{running} running"] if running else []
    for wanted, words in ((FAILING, "failing"), ({NEEDS_LOGIN}, "waiting for a login")):
        names = [name for name, state in states.items() if state in wanted]
        if names:
            parts.append(f"{len(names)} {words}: {_few(names)}")
    detail = f" ({', '.join(parts)})" if parts else ""
    return f"{_count(sessions, 'session')}, {_count(len(states), 'server')}{detail}, {_count(calls, 'call')}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _few(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
