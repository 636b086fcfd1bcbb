"""Search for a running daemon, without starting one, and its shutdown. Neither prompts nor prints.

Order: the registry and its process; then, where a service manager runs, its state of the service (a degraded daemon
may have been unable to write the registry). Only then is it safe to connect: a connection to a socket that a service
manager holds would start the daemon.
"""

import os
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from hearth import __version__, paths, registry
from hearth.control_client import service_state
from hearth.control_client.connection import ControlConnection, last_resort
from hearth.errors import Unreachable
from hearth.host import listening, processes, system
from hearth.host.process_table import with_memory
from hearth.paths import Places


class RunningDaemon(NamedTuple):
    """Running daemon: its endpoint and its process."""

    endpoint: str
    pid: int
    start_time: int
    # The token that the daemon requires over TCP; empty otherwise.
    token: str = ""

    def control(self) -> ControlConnection:
        """Open a control connection. Raises Unreachable and TurnedAway."""
        return ControlConnection(self.endpoint, self.pid, self.token)

    def end(self, control: ControlConnection, restart: bool, seconds: float) -> None:
        """Stop the daemon and wait until its process has exited.

        Raises Refused when the daemon refuses, Unreachable when it still runs after the timeout.
        """
        control.shutdown(restart)
        deadline = time.monotonic() + seconds
        ended = control.wait_for_end(seconds)
        if not (ended and processes.wait_gone(self.pid, self.start_time, max(0.0, deadline - time.monotonic()))):
            raise Unreachable(
                f"pid {self.pid} is still there after {seconds:g} s; it may be finishing calls: look again with"
                f" `hearth status`; {last_resort(self.pid)}"
            )


def find(places: Places) -> RunningDaemon | None:
    """Return the daemon of these places, if it runs.

    Otherwise return a daemon of the same profile that runs with another runtime folder, if there is one.
    """
    return _find_here(places) or _find_elsewhere(places)


def _find_elsewhere(places: Places) -> RunningDaemon | None:
    if system.is_windows() or places.named:
        return None
    for named in registry.profile_sockets(places.key):
        daemon = _find_here(Places(places.profile, places.config, named=named))
        if daemon is not None and listening.answers(daemon.endpoint):
            return daemon
    return None


def _find_here(places: Places) -> RunningDaemon | None:
    entry = registry.read(places)
    if entry and registry.is_alive(entry):
        return RunningDaemon(endpoint_of(entry, places), entry.pid, entry.start_time, entry.token)
    if entry:
        registry.sweep(places)
    service = service_state.look(places, "service")
    if service and service.active in {"active", "activating", "reloading"} and service.pid:
        start_time = processes.start_time(service.pid)
        return RunningDaemon(places.socket, service.pid, start_time or processes.UNKNOWN_START_TIME)
    return None


def endpoint_of(entry: registry.RegistryEntry, places: Places) -> str:
    """Return the endpoint of a daemon: that of its entry, or the usual one if nothing is there."""
    is_there = entry.endpoint.startswith(listening.TCP) or listening.is_there(entry.endpoint)
    return entry.endpoint if is_there else places.socket


def check_person(places: Places, what: str) -> None:
    """Raise Refused if this process runs below an agent of the running daemon: `what` is for a person."""
    daemon = find(places)
    if daemon is not None:
        with daemon.control() as control:
            control.command("person", what=what)


def check_change(places: Places, what: str) -> None:
    """Raise Refused where there is a policy, and this process runs below an agent or an MCP server of the daemon.

    A daemon that does not answer is no obstacle: its config may be what keeps it from serving.
    """
    if os.path.lexists(places.policy_file()):
        try:
            check_person(places, what)
        except Unreachable:
            pass


def document(places: Places) -> dict[str, Any]:
    """Return the status document, the daemon's own if it runs. Raises Unreachable if that daemon does not answer."""
    daemon = find(places)
    if daemon is None:
        return absent(places)
    with daemon.control() as control:
        return with_memory(control.status())


def absent(places: Places) -> dict[str, Any]:
    """Return the status document for no running daemon; `lights` says what would start it."""
    return {
        "running": False,
        "pid": None,
        "endpoint": places.socket,
        "version": __version__,
        "executable": None,
        "uptimeSeconds": None,
        "owner": None,
        "daemonId": None,
        "profile": places.key,
        "configPath": places.config_file(),
        "configHash": None,
        "configError": None,
        "activation": None,
        "containment": None,
        "degraded": None,
        "sessions": [],
        "upstreams": [],
        "lights": start_hint(places),
    }


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


# --- every daemon of this user and installation


def own_daemons() -> Iterator[tuple[str, RunningDaemon]]:
    """Yield each running daemon with its key: its profile, or the hash of its config's path."""
    # The default daemon may be one of the system's systemd, whatever the folders show.
    keys = {paths.DEFAULT_PROFILE, *_keys(os.path.join(paths.runtime_dir(), "mcp")), *registry.profiles()}
    for key in sorted(keys):
        try:
            # The hash of a config's path leads to the same folder and socket as the path.
            daemon = find(paths.Places(key))
        except ValueError:
            continue
        if daemon is not None and _is_ours(daemon):
            yield key, daemon


def _keys(folder: str) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return []


def _is_ours(daemon: RunningDaemon) -> bool:
    try:
        with daemon.control() as control:
            return control.status().get("executable") == sys.executable
    except Unreachable:
        # The daemon has just stopped, or hangs: a retry would not help.
        return False
