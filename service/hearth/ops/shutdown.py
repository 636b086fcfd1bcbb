"""Shutdown of a daemon: request it, wait for it, and say what starts the next one. Neither prompts nor prints."""

import time
from typing import Any

from hearth.control_client import service_state
from hearth.control_client.connection import ControlConnection, last_resort
from hearth.control_client.running_daemon import RunningDaemon
from hearth.errors import Refused, Unreachable
from hearth.host import processes
from hearth.paths import Places


def end_when_quiet(control: ControlConnection) -> str:
    """Make the daemon restart when no call is in flight; return its message. Raises Refused and Unreachable.

    No session is asked for approval, because attached clients notice nothing.
    """
    ok, message = control.shutdown(restart=True, when_quiet=True)
    if not ok:
        raise Refused(message or "the daemon refused to go")
    return message


def end(control: ControlConnection, daemon: RunningDaemon, restart: bool, seconds: float) -> str:
    """Stop the daemon and wait until its process has exited; return its message.

    Raises Refused when the daemon refuses, Unreachable when it still runs after the timeout.
    """
    ok, message = control.shutdown(restart)
    if not ok:
        raise Refused(message or "the daemon refused to go")
    deadline = time.monotonic() + seconds
    ended = control.wait_for_end(seconds)
    gone = ended and processes.wait_gone(daemon.pid, daemon.start_time, max(0.0, deadline - time.monotonic()))
    if not gone:
        raise Unreachable(
            f"pid {daemon.pid} is still there after {seconds:g} s; it may be finishing calls: look again with"
            f" `hearth status`; {last_resort(daemon.pid)}"
        )
    return message


def own_ports(document: dict[str, Any]) -> list[str]:
    """Return the ports that close for good with the daemon of this status document: no service manager holds them."""
    if document.get("activation") != "self":
        return []
    lost = [each.get("address") for each in document.get("httpLost") or ()]
    return [str(each) for each in (*(document.get("http") or ()), *lost)]


def start_hint(places: Places, ports: list[str] | None = None) -> str:
    """Return a sentence on what would start a daemon in these places, and that it will not have these ports."""
    hint = service_state.start_hint(service_state.look(places, "socket"))
    if not ports:
        return hint
    return f"{hint} What was served on {', '.join(ports)} comes back with `hearth serve --transport http` only."
