"""Doctor's look at the daemon: its registry, its process, its socket, and whether it answers.

Connects only to a daemon whose process lives; any other connection could light one.
"""

import os
import stat
from collections.abc import Mapping
from typing import Any

import hearth
from hearth import registry
from hearth.cli.control import Control
from hearth.cli.findings import Finding
from hearth.errors import Unreachable
from hearth.paths import Places


def check_registry(places: Places) -> list[Finding]:
    """The registry against the process that it names, and that one's word."""
    known = registry.read(places)
    if known is None:
        return [Finding("daemon", "ok", "not running")]
    status: Mapping[str, Any] = {}
    if registry.is_alive(known):
        answer = _ask(places, known)
        if isinstance(answer, Finding):
            return [answer]
        status = answer
    # Looked at again: it may have gone while it was asked.
    if registry.is_alive(known):
        return [_describe(known, status)]
    message = f"{places.registry} names pid {known.pid}, which is gone: it was killed"
    return [Finding("daemon", "note", message, "Nothing to do: the next start writes it anew.")]


def _describe(known: registry.Entry, status: Mapping[str, Any]) -> Finding:
    message = f"running as pid {known.pid}, version {known.version}"
    if status.get("containment"):
        message += f"; what a server leaves running is ended by {status['containment']}"
    if known.version != hearth.__version__:
        return Finding("daemon", "note", message, f"`hearth restart` brings it to {hearth.__version__}.")
    return Finding("daemon", "ok", message)


def _ask(places: Places, known: registry.Entry) -> Finding | Mapping[str, Any]:
    """Its status, as far as it tells one, or what is wrong with it."""
    if not os.path.lexists(places.socket):
        # The look at the socket tells.
        return {}
    try:
        with Control(places.socket, known.pid) as control:
            status = control.status()
    except Unreachable as error:
        if not registry.is_alive(known):
            return {}
        fix = f"kill -9 {known.pid} ends it; bridges survive that and light a new one. `hearth logs` may say why."
        reason = error.__cause__ or error
        return Finding("daemon", "broken", f"pid {known.pid} runs and does not answer: {reason}", fix)
    if status.get("degraded"):
        fix = "Mend that: the daemon tries again by itself."
        return Finding("daemon", "broken", f"pid {known.pid} cannot serve: {status['degraded']}", fix)
    return status


def check_socket(places: Places) -> list[Finding]:
    """The socket's file."""
    known = registry.read(places)
    alive = known if known and registry.is_alive(known) else None
    try:
        found = os.lstat(places.socket)
    except (FileNotFoundError, NotADirectoryError):
        return [_absence(places, alive)]
    except OSError as error:
        fix = "Make the folder yours, with mode 0700."
        return [Finding("socket", "broken", f"{places.socket}: {error.strerror}", fix)]
    if not stat.S_ISSOCK(found.st_mode):
        fix = f"Move it away: mv {places.socket} {places.socket}.old"
        return [Finding("socket", "broken", f"{places.socket} is not a socket", fix)]
    # The kernel knows a daemon's own socket by the name under which it was bound, before it was moved into place.
    if not alive and _is_listened_to(places.socket) is False:
        fix = "Nothing to do: the next start replaces it."
        return [Finding("socket", "note", f"{places.socket} is left over: nobody listens", fix)]
    return [Finding("socket", "ok", places.socket)]


def _absence(places: Places, alive: registry.Entry | None) -> Finding:
    if alive is None:
        return Finding(
            "socket", "ok", f"{places.socket} is not there: the first bridge, or the service manager, makes it"
        )
    message = f"{places.socket} is gone, so nobody reaches the daemon that runs as pid {alive.pid}"
    fix = (
        f"kill {alive.pid} ends it, and the next bridge starts a new one;"
        " where systemd holds the socket: systemctl --user restart mcp.socket; where launchd does: hearth install"
    )
    return Finding("socket", "broken", message, fix)


def _is_listened_to(path: str) -> bool | None:
    """Whether a process listens there, asked of the kernel, not by connecting; None where it is silent."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.rstrip("\n").split(None, 7) for line in file][1:]
    except OSError:
        return None
    # Columns: Num RefCount Protocol Flags Type St Inode Path; flag 0x10000 is SO_ACCEPTCON.
    return any(len(row) == 8 and row[7] == path and int(row[3], 16) & 0x10000 for row in rows)
