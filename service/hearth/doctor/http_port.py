"""Doctor's checks of the HTTP port: whether a process holds it, who may reach it, and whether it has a token."""

from collections.abc import Sequence
from typing import NamedTuple

from hearth.control_client import systemd_unit
from hearth.doctor.context import CheckContext
from hearth.doctor.systemd_manager import Properties
from hearth.errors import FileAccessError
from hearth.findings import Finding
from hearth.host import sockets
from hearth.output import status_lines
from hearth.secrets import http_token

_STATE = "port.state"


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


def look(context: CheckContext) -> PortFacts:
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


def judge(facts: PortFacts) -> list[Finding]:
    """Return the findings on the port."""
    findings = [finding for finding in (_unit(facts), _loss(facts), _reach(facts), _token(facts)) if finding]
    return findings or [Finding(_STATE, "ok", _summary(facts))]


def _unit(facts: PortFacts) -> Finding | None:
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


def _summary(facts: PortFacts) -> str:
    if facts.served:
        return f"HTTP on {', '.join(facts.served)}"
    return f"{facts.name} listens on {facts.address}" if facts.listens else "none: HTTP is on the daemon's socket only"
