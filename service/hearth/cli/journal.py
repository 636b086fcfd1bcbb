"""Where the log of a daemon is: in the journal when systemd starts it, else in its file."""

import shutil

from hearth.cli import liveness, unit
from hearth.cli.control import Control
from hearth.errors import Unreachable
from hearth.paths import Places


def command(places: Places, follow: bool, lines: int) -> list[str] | None:
    """The journalctl that shows it, or None when it is in the file."""
    units = unit.units_of(places)
    if units is None or not shutil.which("journalctl") or not _systemd_starts_it(places):
        return None
    asked = ["journalctl", *units.scope, "--unit", units.service, "--lines", str(lines)]
    return [*asked, "--follow"] if follow else asked


def _systemd_starts_it(places: Places) -> bool:
    lit = liveness.find(places)
    if lit:
        try:
            with Control(lit.endpoint, lit.pid) as control:
                return control.status().get("activation") == "systemd"
        except Unreachable:
            # Its log is wanted most when it does not answer.
            service = unit.look(places, "service")
            return bool(service and service.pid == lit.pid)
    held = unit.look(places, "socket")
    return bool(held and held.active in {"active", "failed"})
