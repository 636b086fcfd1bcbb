"""Whether systemd holds the socket: then the bridge never starts a daemon of its own, it only asks for the unit.

`judge` decides on what systemctl said and is pure; the rest runs systemctl. Knows nothing of connecting.
"""

import os
import sys

from hearth import paths
from hearth.errors import StartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# systemctl answers in 20 ms; a manager that is starting or reloading takes longer.
SHOW_SECONDS = 5.0
# Starting a socket unit binds a socket; its service is not waited for.
START_SECONDS = 10.0
_PROPERTIES = "--property=LoadState,ActiveState,Result"


class Units:
    """The socket unit of one daemon and the service behind it. `scope` is what reaches their systemd."""

    __slots__ = ("scope", "service", "socket")

    def __init__(self, name: str, scope: str = " --user") -> None:
        self.socket = f"{name}.socket"
        self.service = f"{name}.service"
        self.scope = scope


def units_of(places: paths.Places) -> Units | None:
    """The units' names; a daemon of a config or a socket given by its path has none."""
    if places.config or places.named:
        return None
    if places.system_wide and sys.platform != "win32":
        return Units(f"mcp-user@{os.getuid()}", scope="")
    if places.profile == paths.DEFAULT_PROFILE:
        return Units("mcp")
    # As it is typed: every character of a profile may stand in a unit's name, and the units read it by %i.
    return Units(f"mcp@{places.profile}")


def environment(environ: "Mapping[str, str]") -> dict[str, str] | None:
    """The environment in which systemctl finds this user's manager, which MCP clients drop; None if none runs."""
    runtime = paths.runtime_dir()
    if sys.platform != "linux" or not os.path.exists(os.path.join(runtime, "systemd", "private")):
        return None
    found = {**environ, "XDG_RUNTIME_DIR": runtime, "LC_ALL": "C"}
    bus = os.path.join(runtime, "bus")
    if os.path.exists(bus):
        found["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={bus}"
    return found


def parse_show(text: str) -> list[dict[str, str]]:
    """What `systemctl show` prints: one paragraph of KEY=VALUE for each unit."""
    blocks = text.split("\n\n")
    return [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in blocks]


ABSENT, START, WAIT = "absent", "start", "wait"


def judge(units: Units, socket: dict[str, str], service: dict[str, str]) -> str:
    """ABSENT: start a daemon yourself. START: the unit is installed and off. WAIT. Raises StartError if it failed."""
    if socket.get("LoadState") != "loaded":
        return ABSENT
    state = socket.get("ActiveState")
    failed = units.socket if state == "failed" else units.service if service.get("ActiveState") == "failed" else None
    if failed and state != "active":
        result = (socket if failed == units.socket else service).get("Result", "unknown")
        raise StartError(
            f"the unit {failed} has failed ({result}). `journalctl{units.scope} -u {units.service}` says why; then type"
            f" `systemctl{units.scope} reset-failed {units.socket} {units.service};"
            f" systemctl{units.scope} start {units.socket}`"
        )
    return START if state == "inactive" else WAIT


def wake(places: paths.Places, environ: "Mapping[str, str]") -> str | None:
    """See to it that the socket unit is on. None: there is none. Otherwise what to tell if nobody listens still.

    Raises StartError when the unit has failed or does not start.
    """
    if sys.platform == "win32":
        return None
    # Loaded by `starter` already.
    from hearth.bridge import spawn_posix

    units = units_of(places)
    manager = {**environ, "LC_ALL": "C"} if places.system_wide else environment(environ)
    if units is None or manager is None:
        return None
    systemctl = ["systemctl", *units.scope.split()]
    show = [*systemctl, "show", _PROPERTIES, units.socket, units.service]
    code, text = spawn_posix.run(show, manager, SHOW_SECONDS)
    states = parse_show(text)
    if code != 0 or len(states) != 2:
        # No systemctl, or a manager that does not answer: whoever depends on it could not have started it either.
        return None
    verdict = judge(units, states[0], states[1])
    if verdict == ABSENT:
        return None
    if verdict == START:
        # Only the administrator may start one of the system's; systemctl says so, and must not ask for a password.
        quietly = ["--no-ask-password"] if places.system_wide else []
        code, text = spawn_posix.run([*systemctl, *quietly, "start", units.socket], manager, START_SECONDS)
        if code != 0:
            raise StartError(f"`systemctl{units.scope} start {units.socket}` did not work: {text}")
    return f"{units.socket} is on, but nobody listens there; try `systemctl{units.scope} restart {units.socket}`"
