"""What more than one group of checks needs to know, each looked at when it is first asked for and then kept.

Looks only. Every look is bounded: systemctl, the daemon and the files themselves; `rounds` bounds what is not.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hearth import config, registry
from hearth.control_client import running_daemon, service_state
from hearth.control_client.connection import TCP, ControlConnection
from hearth.doctor import systemd_manager
from hearth.errors import TurnedAway, Unreachable
from hearth.host import listening, system
from hearth.paths import Places

if TYPE_CHECKING:
    from hearth.config.layers import Examination

T = TypeVar("T")
# The kernel shows at most this much of an environment; a longer one is cut there.
_ENVIRONMENT_LIMIT_BYTES = 4 * 1024 * 1024


class ServiceEnvironment(NamedTuple):
    """The environment that servers are started from: whose it is, in words, and whether it is certain to be that."""

    values: Mapping[str, str]
    whose: str
    known: bool


class DaemonReply(NamedTuple):
    """What a daemon that lives says of itself, or why it says nothing."""

    status: Mapping[str, Any]
    silence: str = ""
    # Why it takes no connection more, where it says no more than that.
    refusal: str = ""


class CheckContext:
    """One daemon, with everything around it."""

    def __init__(self, places: Places, environ: Mapping[str, str]) -> None:
        self.places = places
        self.environ = environ
        self._seen: dict[str, Any] = {}

    def _once(self, name: str, look: Callable[[], T]) -> T:
        # Without a lock: a look that hangs must not hold up the next group's.
        if name not in self._seen:
            self._seen[name] = look()
        seen: T = self._seen[name]
        return seen

    def examined(self) -> "Examination":
        """Return the config, with what is wrong in it."""
        return self._once("config", lambda: config.examine(self.places, self.environ))

    def servers(self) -> list[config.ServerSpec]:
        """Return the servers that are configured and not switched off."""
        return [spec for spec in self.examined().config.servers.values() if not spec.disabled]

    def entry(self) -> registry.Entry | None:
        """Return the registry's entry, whether or not its daemon lives."""
        return self._once("entry", lambda: registry.read(self.places))

    def living(self) -> registry.Entry | None:
        """Return the registry's entry, if its daemon lives."""
        found = self.entry()
        if found and registry.is_alive(found):
            return found
        if found:
            registry.sweep(self.places)
        return None

    def word(self) -> DaemonReply:
        """Return what the daemon says of itself; nothing where none lives, or where its socket is gone."""
        return self._once("word", self._ask)

    def _ask(self) -> DaemonReply:
        living = self.living()
        if living is None:
            return DaemonReply({})
        endpoint = running_daemon.endpoint_of(living, self.places)
        if not endpoint.startswith(TCP) and not listening.is_there(endpoint):
            return DaemonReply({})
        try:
            with ControlConnection(endpoint, living.pid, living.token) as control:
                return DaemonReply(control.status())
        except TurnedAway as error:
            return DaemonReply({}, refusal=str(error))
        except Unreachable as error:
            # It may have gone while it was asked; then there is nothing to say.
            return DaemonReply({}, str(error.__cause__ or error)) if registry.is_alive(living) else DaemonReply({})

    def is_locked_out(self) -> bool:
        """Whether the login's folder is somebody else's, and closed: what is below it fails for that one reason."""
        named = self.environ.get("XDG_RUNTIME_DIR", "")
        if not named.startswith("/") or not self.places.folder.startswith(named):
            return False
        return owner(named) not in (None, me()) and not os.access(named, os.W_OK | os.X_OK)

    def manager(self) -> systemd_manager.ManagerState:
        """Return the user's systemd and its word on the units; empty on other systems."""
        return self._once("manager", lambda: systemd_manager.look(self.places))

    def surroundings(self) -> ServiceEnvironment:
        """Return what the service is started with: by its unit, or as the daemon that runs was started."""
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
    """Whose a file is, by number; None where there is none in reach."""
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def me() -> int:
    """Return this user's number; Windows has none, and owners are not looked at there."""
    return system.user_id()


def environment_of(pid: int) -> dict[str, str]:
    """Return what a process of this user was started with; empty where that is not told."""
    if not system.is_linux():
        return {}
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            data = file.read(_ENVIRONMENT_LIMIT_BYTES)
    except OSError:
        return {}
    pairs = (os.fsdecode(item).partition("=") for item in data.split(b"\0") if b"=" in item)
    return {name: value for name, _, value in pairs}
