"""Runner of doctor's checks: every group in its order, each with a timeout, whatever hangs in it."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hearth.control_client import service_state
from hearth.doctor import clients, daemon, environment, folders, http_port, installation, secrets, servers, socket_file
from hearth.doctor.context import CheckContext
from hearth.findings import Finding, without_consequences
from hearth.paths import Places

# Above every bound inside a group (systemctl 10 s, a keyring 18 s): for operations without a bound, such as access to
# a network file system that hangs.
GROUP_SECONDS = 25.0


class CheckGroup(NamedTuple):
    """Group of checks of the same subject."""

    name: str
    findings: Callable[[CheckContext], list[Finding]]


def _group(name: str, look: Callable[[CheckContext], Any], judge: Callable[[Any], list[Finding]]) -> CheckGroup:
    return CheckGroup(name, lambda context: judge(look(context)))


if sys.platform == "linux":
    from hearth.doctor import units

    _UNITS = _group("units", units.look, units.judge)
else:
    _UNITS = CheckGroup("units", lambda context: service_state.check(context.places))

GROUPS = (
    _group("installation", installation.look, installation.judge),
    _group("environment", environment.look, environment.judge),
    _group("config", servers.look_at_config, servers.judge_config),
    _group("servers", servers.look, servers.judge),
    _group("secrets", secrets.look, secrets.judge),
    _group("network", environment.look_at_proxies, environment.judge_proxies),
    _group("folders", folders.look, folders.judge),
    _UNITS,
    CheckGroup(
        "socket", lambda context: [] if context.is_locked_out() else socket_file.judge(socket_file.look(context))
    ),
    _group("port", http_port.look, http_port.judge),
    _group("daemon", daemon.look, daemon.judge),
    _group("clients", clients.look, clients.judge),
)


def examine(places: Places, tell: Callable[[str], None] = lambda name: None) -> list[Finding]:
    """Return all findings, in the order of display; `tell` is called with the name of each group before it runs."""
    return without_consequences(list(_findings(CheckContext(places, os.environ), tell)))


def _findings(context: CheckContext, tell: Callable[[str], None]) -> Iterator[Finding]:
    for group in GROUPS:
        tell(group.name)
        yield from within(group, context, GROUP_SECONDS)


def within(group: CheckGroup, context: CheckContext, seconds: float) -> list[Finding]:
    """Return the findings of a group, or one finding that it did not end in time."""
    found: list[list[Finding]] = []
    failed: list[BaseException] = []

    def go() -> None:
        try:
            found.append(group.findings(context))
        except Exception as error:
            failed.append(error)

    # A daemon thread: a thread that hangs in the kernel must not keep the process from exiting.
    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    return found[0] if found else [_unfinished(group.name, seconds)]


def _unfinished(name: str, seconds: float) -> Finding:
    message = f"the look at {name} did not end within {seconds:g} s: a disk, a home on the network or a program hangs"
    fix = "`df` and `mount` show a file system that stands still; `hearth doctor` looks again."
    return Finding("doctor.unfinished", "broken", message, fix, name)
