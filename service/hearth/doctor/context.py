"""Facts that several groups of checks need, each gathered at its first use and then cached.

Changes nothing. Every access has a bound: systemctl, the daemon and the files themselves; `runner` bounds the rest.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hearth import config, registry
from hearth.control_client import running_daemon, service_state
from hearth.control_client.connection import ControlConnection
from hearth.doctor import systemd_manager
from hearth.errors import TurnedAway, Unreachable
from hearth.host import listening, system
from hearth.paths import Places

if TYPE_CHECKING:
    from hearth.config.layers import Examination

T = TypeVar("T")
# The kernel shows at most this much of an environment, and cuts a longer one.
_ENVIRONMENT_LIMIT_BYTES = 4 * 1024 * 1024


class ServiceEnvironment(NamedTuple):
    """Environment from which servers are started: whose it is, in words, and whether that is certain."""

    values: Mapping[str, str]
    whose: str
    known: bool


class DaemonReply(NamedTuple):
    """Reply of a living daemon: its status, or the reason why there is none."""

    status: Mapping[str, Any]
    silence: str = ""
    # The reason why the daemon accepts no more connections, if that is all it says.
    refusal: str = ""


class CheckContext:
    """Context of the checks: one daemon and its environment."""

    def __init__(self, places: Places, environ: Mapping[str, str]) -> None:
        self.places = places
        self.environ = environ
        self._seen: dict[str, Any] = {}

    def _once(self, name: str, look: Callable[[], T]) -> T:
        # Without a lock: an access that hangs must not delay the next group.
        if name not in self._seen:
            self._seen[name] = look()
        seen: T = self._seen[name]
        return seen

    def examined(self) -> "Examination":
        """Return the config, with its problems."""
        return self._once("config", lambda: config.examine(self.places, self.environ))

    def servers(self) -> list[config.ServerSpec]:
        """Return the servers that are configured and enabled."""
        return [spec for spec in self.examined().config.servers.values() if not spec.disabled]

    def entry(self) -> registry.RegistryEntry | None:
        """Return the registry's entry, whether or not its daemon is alive."""
        return self._once("entry", lambda: registry.read(self.places))

    def living(self) -> registry.RegistryEntry | None:
        """Return the registry's entry, if its daemon is alive."""
        found = self.entry()
        if found and registry.is_alive(found):
            return found
        if found:
            registry.sweep(self.places)
        return None

    def word(self) -> DaemonReply:
        """Return the daemon's status; an empty one if no daemon is alive, or if its socket is gone."""
        return self._once("word", self._ask)

    def _ask(self) -> DaemonReply:
        living = self.living()
        if living is None:
            return DaemonReply({})
        endpoint = running_daemon.endpoint_of(living, self.places)
        if not endpoint.startswith(listening.TCP) and not listening.is_there(endpoint):
            return DaemonReply({})
        try:
            with ControlConnection(endpoint, living.pid, living.token) as control:
                return DaemonReply(control.status())
        except TurnedAway as error:
            return DaemonReply({}, refusal=str(error))
        except Unreachable as error:
            # The daemon may have stopped meanwhile; then there is nothing to report.
            return DaemonReply({}, str(error.__cause__ or error)) if registry.is_alive(living) else DaemonReply({})

    def is_locked_out(self) -> bool:
        """Tell whether the login's runtime folder belongs to another user, and is closed.

        Everything below it then fails for that one reason.
        """
        named = self.environ.get("XDG_RUNTIME_DIR", "")
        if not named.startswith("/") or not self.places.folder.startswith(named):
            return False
        return owner(named) not in (None, me()) and not os.access(named, os.W_OK | os.X_OK)

    def manager(self) -> systemd_manager.ManagerState:
        """Return the state of the user's systemd and of the units; empty on other systems."""
        return self._once("manager", lambda: systemd_manager.look(self.places))

    def surroundings(self) -> ServiceEnvironment:
        """Return the environment of the service: by its unit, or of the running daemon."""
        return self._once("surroundings", self._surroundings)

    def _surroundings(self) -> ServiceEnvironment:
        seen = self.manager()
        if seen.socket.get("LoadState") == "loaded":
            return ServiceEnvironment(systemd_manager.environment(seen), "the service", True)
        if not system.is_linux() and (path := service_state.search_path(self.places)):
            return ServiceEnvironment({**self.environ, "PATH": path}, "the service", False)
        living = self.living()
        if living and (values := environment_of(living.pid)):
            return ServiceEnvironment(values, f"the daemon (pid {living.pid})", True)
        return ServiceEnvironment(self.environ, "this shell", False)


def owner(path: str) -> int | None:
    """Return the user id of a file's owner; None if the file cannot be reached."""
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def me() -> int:
    """Return this user's id; Windows has none, and owners are not checked there."""
    return system.user_id()


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment with which a process of this user was started; empty if unknown."""
    if not system.is_linux():
        return {}
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            data = file.read(_ENVIRONMENT_LIMIT_BYTES)
    except OSError:
        return {}
    pairs = (os.fsdecode(item).partition("=") for item in data.split(b"\0") if b"=" in item)
    return {name: value for name, _, value in pairs}
