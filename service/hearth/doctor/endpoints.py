"""Doctor's checks of the daemon's endpoints: the socket file and the HTTP port.

The socket: whether it is one, its owner, and whether a process listens on it. Never connects: the kernel's table shows
the listeners. The port: whether a process holds it, who may reach it, and whether it has a token.
"""

import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from hearth import paths
from hearth.control_client import running_daemon, systemd_unit
from hearth.control_client.connection import last_resort
from hearth.doctor.context import CheckContext, Properties
from hearth.errors import FileAccessError
from hearth.findings import Finding, FixRequest
from hearth.host import listening, sockets, system
from hearth.output import status_lines
from hearth.secrets import http_token

_FILE = "socket.file"


class SocketFacts(NamedTuple):
    """Facts about the socket. `pid` is the living daemon's, `service_pid` that of systemd's service; 0: none."""

    path: str
    # The intended path, if it is too long for the kernel; else empty.
    too_long: str
    found: os.stat_result | None
    error: str
    # None if the kernel does not show listeners.
    listened_to: bool | None
    pid: int
    service_pid: int
    # ActiveState of an installed socket unit; empty if none is installed.
    unit: str
    unit_name: str
    systemctl: str
    me: int
    # On Windows: whether a pipe of that name exists, which is no file. None elsewhere.
    pipe: bool | None = None
    # Mode bits that `socket_mode` allows.
    allowed: int = 0


def look_at_socket(context: CheckContext) -> SocketFacts:
    """Return the file, the kernel's table of listeners and the units that would create the socket."""
    places, living, seen = context.places, context.living(), context.manager()
    path = running_daemon.endpoint_of(living, places) if living else places.socket
    pipe = listening.is_there(path) if system.is_windows() else None
    found, error = _lstat(path) if pipe is None and not path.startswith(listening.TCP) else (None, "")
    name = f"{places.key}.sock"
    fits = os.path.basename(places.socket) == name or places.named
    installed = seen.socket.get("LoadState") == "loaded"
    return SocketFacts(
        path=path,
        too_long="" if places.system_wide or fits else os.path.join(paths.runtime_dir(), "mcp", name),
        found=found,
        error=error,
        listened_to=is_listened_to(path),
        pid=living.pid if living else 0,
        service_pid=int(seen.service.get("MainPID") or 0),
        unit=seen.socket.get("ActiveState", "") if installed else "",
        unit_name=seen.socket.get("Id", ""),
        systemctl=seen.systemctl,
        me=system.user_id(),
        pipe=pipe,
        allowed=int(context.examined().config.socket_mode, 8),
    )


def _lstat(path: str) -> tuple[os.stat_result | None, str]:
    try:
        return os.lstat(path), ""
    except (FileNotFoundError, NotADirectoryError):
        return None, ""
    except OSError as exc:
        return None, exc.strerror or str(exc)


def judge_socket(facts: SocketFacts) -> list[Finding]:
    """Return the findings on the socket."""
    if facts.pipe is not None:
        return [_pipe(facts, facts.pipe)]
    if facts.path.startswith(listening.TCP):
        return [Finding(_FILE, "ok", f"{facts.path}: the daemon listens on TCP, for who has the token of its entry")]
    findings = [finding for finding in (_length(facts), _beside(facts)) if finding]
    return [*findings, _file(facts)]


def _pipe(facts: SocketFacts, is_there: bool) -> Finding:
    if is_there and not facts.pid:
        message = f"{facts.path} was made by a program that is not known as Hearth's daemon"
        return Finding("socket.owner", "broken", message, "Find out which, and end it: bridges trust only your own.")
    if facts.pid and not is_there:
        message = f"{facts.path} is gone, so nobody reaches the daemon that runs as pid {facts.pid}"
        return Finding(
            "socket.gone", "broken", message, f"{last_resort(facts.pid)}, and the next call lights a new one."
        )
    return Finding(_FILE, "ok", facts.path if is_there else f"{facts.path} is not there: the first bridge makes it")


def _file(facts: SocketFacts) -> Finding:
    path = facts.path
    if facts.error:
        return Finding(_FILE, "broken", f"{path}: {facts.error}", "Make its folder yours, with mode 0700.")
    if facts.found is None:
        return _absence(facts)
    mode = facts.found.st_mode
    if not stat.S_ISSOCK(mode):
        return Finding("socket.kind", "broken", f"{path} is not a socket", f"Move it away: mv {path} {path}.old")
    if facts.found.st_uid != facts.me:
        message = f"{path} belongs to user {facts.found.st_uid}, not to you"
        return Finding("socket.owner", "broken", message, f"Have it removed: sudo rm {path}")
    # The kernel lists a daemon's own socket under the name to which it was bound, before it was moved into place.
    if not facts.pid and facts.listened_to is False:
        return _dead(facts)
    if stat.S_IMODE(mode) & 0o077 & ~facts.allowed:
        message = f"{path} is open to others (mode {stat.S_IMODE(mode):04o})"
        return Finding("socket.open", "broken", message, f"chmod 600 {path}", request=FixRequest("close", path))
    return Finding(_FILE, "ok", path)


def _dead(facts: SocketFacts) -> Finding:
    message = f"{facts.path} is left over: nobody listens"
    if facts.unit == "active":
        # systemd believes that it listens, on a socket whose file was replaced.
        fix = f"{facts.systemctl} restart {facts.unit_name}"
        return Finding("socket.dead", "broken", message, fix)
    return Finding(
        "socket.dead", "note", message, "The next start replaces it.", request=FixRequest("sweep", facts.path)
    )


def _absence(facts: SocketFacts) -> Finding:
    if facts.pid:
        message = f"{facts.path} is gone, so nobody reaches the daemon that runs as pid {facts.pid}"
        fix = (
            f"kill {facts.pid} ends it, and the next bridge starts a new one;"
            " where systemd holds the socket: systemctl --user restart mcp.socket; where launchd does: hearth install"
        )
        return Finding("socket.gone", "broken", message, fix)
    if facts.unit == "active":
        message = f"{facts.unit_name} is on, but {facts.path} is gone, so nobody can connect"
        return Finding("socket.gone", "broken", message, f"{facts.systemctl} restart {facts.unit_name}")
    return Finding(_FILE, "ok", f"{facts.path} is not there: the first bridge, or the service manager, makes it")


def _length(facts: SocketFacts) -> Finding | None:
    """Check the length of the path: for one that the kernel would refuse, a short path is used, unknown to a unit."""
    if not facts.too_long or system.is_windows():
        return None
    message = (
        f"{facts.too_long} is longer than the {paths.SOCKET_PATH_LIMIT_BYTES} bytes that a socket's path may have;"
        f" {facts.path} is used in its place"
    )
    fix = "Point XDG_RUNTIME_DIR to a folder with a shorter name."
    return Finding("socket.path", "broken" if facts.unit else "note", message, fix)


def _beside(facts: SocketFacts) -> Finding | None:
    """Look for a daemon that was not started by the unit that is installed for it."""
    if not facts.unit or not facts.pid or facts.pid == facts.service_pid:
        return None
    message = f"pid {facts.pid} was not started by systemd, although {facts.unit_name} is installed ({facts.unit})"
    if facts.unit == "active":
        return Finding("socket.beside", "note", message, "It hands over at the next connection, or: hearth stop")
    fix = f"{facts.systemctl} start {facts.unit_name}: it takes the socket over, and bridges follow"
    request = FixRequest("start", facts.unit_name) if facts.systemctl != "systemctl" else None
    return Finding("socket.beside", "note", message, fix, request=request)


def is_listened_to(path: str) -> bool | None:
    """Tell whether a process listens there, by the kernel's table, without connecting; None if there is no table."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.rstrip("\n").split(None, 7) for line in file][1:]
    except OSError:
        return None
    # Columns: Num RefCount Protocol Flags Type St Inode Path; flag 0x10000 is SO_ACCEPTCON.
    return any(len(row) == 8 and row[7] == path and int(row[3], 16) & 0x10000 for row in rows)


# --- the HTTP port


class PortFacts(NamedTuple):
    """Facts about the port. `served` are the addresses that the daemon reports, `lost` those that it served before."""

    name: str
    unit: Properties
    systemctl: str
    served: Sequence[str]
    has_token: bool
    # Why the token cannot be used.
    problem: str
    lost: Sequence[str] = ()

    @property
    def listens(self) -> bool:
        """Whether systemd holds a port."""
        return self.unit.get("ActiveState") == "active"

    @property
    def address(self) -> str:
        """The port's address, as the unit has it."""
        return self.unit.get("Listen", "").partition(" ")[0]


def look_at_port(context: CheckContext) -> PortFacts:
    """Return the unit, the daemon's status and the token."""
    seen, units = context.manager(), systemd_unit.units_of(context.places)
    has_token, problem = False, ""
    try:
        has_token = http_token.read() is not None
    except FileAccessError as exc:
        problem = str(exc)
    name = units.more[0] if units and units.more else ""
    status = context.word().status
    lost = status_lines.lost_ports(status)
    return PortFacts(name, seen.http, seen.systemctl, status.get("http") or (), has_token, problem, lost)


def judge_port(facts: PortFacts) -> list[Finding]:
    """Return the findings on the port."""
    findings = [finding for finding in (_port_unit(facts), _loss(facts), _reach(facts), _token(facts)) if finding]
    return findings or [Finding("port.state", "ok", _port_summary(facts))]


def _port_unit(facts: PortFacts) -> Finding | None:
    state = facts.unit.get("ActiveState")
    if state == "failed":
        result = facts.unit.get("Result", "")
        message = f"{facts.name} has failed ({result}), so nothing listens on {facts.address}"
        fix = (
            f"`ss -ltnp` says whether another program has that port; `{facts.systemctl} edit {facts.name}` names"
            f" another. Then: {facts.systemctl} restart {facts.name}"
        )
        return Finding("port.failed", "broken", message, fix, facts.name)
    if state == "inactive" and facts.unit.get("UnitFileState") == "enabled":
        message = f"{facts.name} is enabled, and not started, so nothing listens on {facts.address}"
        # systemd starts no socket whose service runs already.
        fix = f"hearth stop; {facts.systemctl} start {facts.name}"
        return Finding("port.stopped", "note", message, fix, facts.name)
    return None


def _loss(facts: PortFacts) -> Finding | None:
    if not facts.lost:
        return None
    again = f"{facts.systemctl} restart {facts.name}" if facts.listens else "hearth serve --transport http"
    message = f"HTTP is not served any more on {', '.join(facts.lost)}"
    return Finding("port.lost", "broken", message, f"hearth stop; {again}")


def _reach(facts: PortFacts) -> Finding | None:
    host = facts.address.rpartition(":")[0].strip("[]")
    if not facts.listens or sockets.is_loopback(host):
        return None
    message = f"{facts.name} listens on {facts.address}: other machines may reach it, and the token travels unencrypted"
    fix = f"Put something with TLS in front, or: {facts.systemctl} edit {facts.name}"
    return Finding("port.remote", "note", message, fix, facts.name)


def _token(facts: PortFacts) -> Finding | None:
    if not (facts.listens or facts.served):
        return None
    if facts.problem:
        return Finding("port.token", "broken", facts.problem, "hearth token rotate")
    if not facts.has_token:
        message = "there is no token yet, so every request over TCP is refused"
        return Finding("port.token", "note", message, "hearth token show")
    return None


def _port_summary(facts: PortFacts) -> str:
    if facts.served:
        return f"HTTP on {', '.join(facts.served)}"
    return f"{facts.name} listens on {facts.address}" if facts.listens else "none: HTTP is on the daemon's socket only"
