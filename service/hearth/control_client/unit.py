"""Unit of a service manager, and the findings that launchd's agent and the task of Windows share.

Pure. systemd's units are checked in `doctor.units`.
"""

from collections.abc import Callable
from typing import NamedTuple

from hearth.findings import Finding, FixRequest

AGAIN = "hearth install"
# Hint for a daemon that no service manager starts.
BY_BRIDGE = "The first bridge starts it: `hearth connect` leads your clients to it."


class Unit(NamedTuple):
    """One unit as the manager sees it. `active` is its ActiveState; an unknown unit is not `installed`."""

    name: str
    installed: bool
    active: str
    result: str
    pid: int
    path: str

    @property
    def systemctl(self) -> str:
        """The command that reaches the systemd of this unit."""
        return "systemctl" if self.name.startswith("mcp-user@") else "systemctl --user"


def check_unit(
    held: Unit | None, nothing: str, missing: Callable[[Unit], str | None], state: Callable[[Unit], Finding]
) -> Finding:
    """Return why a unit would not start the daemon, or its state.

    `nothing` is the message for a daemon without a unit; `missing` returns the interpreter that the unit names, if it
    does not exist.
    """
    if held is None:
        return Finding("units.manager", "ok", f"{nothing}: the first bridge starts it")
    if not held.installed:
        message = f"{held.name} is not installed: the first bridge starts the daemon"
        return Finding("units.missing", "note", message, AGAIN, held.name)
    if interpreter := missing(held):
        message = f"{held.name} starts {interpreter}, which is not there"
        return Finding("units.interpreter", "broken", message, AGAIN, held.name, FixRequest("install"))
    return state(held)
