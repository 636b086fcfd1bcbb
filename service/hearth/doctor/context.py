"""Facts that several groups of checks need, each gathered at its first use and then cached.

Changes nothing. Every access has a bound: systemctl, the daemon and the files themselves; `checks` bounds the rest.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from hearth import config, paths, registry
from hearth.control_client import running_daemon, service_state, systemd_unit
from hearth.control_client.connection import ControlConnection
from hearth.errors import TurnedAway, Unreachable
from hearth.findings import FixName, FixRequest
from hearth.host import listening, system
from hearth.host.folders import read_text
from hearth.paths import Places

if TYPE_CHECKING:
    from hearth.config.layers import Examination

T = TypeVar("T")
# The kernel shows at most this much of an environment, and cuts a longer one.
_ENVIRONMENT_LIMIT_BYTES = 4 * 1024 * 1024
# systemctl answers in 20 ms; a manager that is starting or reloading takes longer.
ASK_SECONDS = 5.0
_PROPERTIES = (
    *("Id", "LoadState", "ActiveState", "Result", "MainPID", "FragmentPath", "DropInPaths", "UnitFileState"),
    *("NeedDaemonReload", "Environment", "EnvironmentFiles", "ExecStart", "Listen", "FileDescriptorName"),
    *("Type", "NotifyAccess", "KillMode", "Delegate", "LimitNOFILESoft", "NoNewPrivileges"),
    *("MemoryDenyWriteExecute", "SocketMode"),
)

Properties = Mapping[str, str]
_NOTHING: Properties = MappingProxyType({})


class ManagerState(NamedTuple):
    """State of the service manager: `state` is absent, silent or answers; the rest is empty unless it answers."""

    state: Literal["absent", "silent", "answers"]
    socket: Properties = _NOTHING
    service: Properties = _NOTHING
    # The unit that holds a port for HTTP, where the daemon may have one.
    http: Properties = _NOTHING
    variables: Mapping[str, str] = _NOTHING
    said: str = ""
    # The command that reaches this manager.
    systemctl: str = "systemctl --user"

    @property
    def is_mine(self) -> bool:
        """Whether the manager is the user's own, and may be asked to change units.

        The system's manager belongs to the administrator.
        """
        return self.systemctl != "systemctl"

    def request(self, fix: FixName, target: str = "") -> FixRequest | None:
        """Return the request for a fix of units; None if the manager may not be asked to change them."""
        return FixRequest(fix, target) if self.is_mine else None


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
        return owner(named) not in (None, system.user_id()) and not os.access(named, os.W_OK | os.X_OK)

    def manager(self) -> ManagerState:
        """Return the state of the user's systemd and of the units; empty on other systems."""
        return self._once("manager", lambda: look_at_manager(self.places))

    def surroundings(self) -> ServiceEnvironment:
        """Return the environment of the service: by its unit, or of the running daemon."""
        return self._once("surroundings", self._surroundings)

    def _surroundings(self) -> ServiceEnvironment:
        seen = self.manager()
        if seen.socket.get("LoadState") == "loaded":
            return ServiceEnvironment(service_environment(seen), "the service", True)
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


# --- the user's systemd


def look_at_manager(places: Places) -> ManagerState:
    """Ask the daemon's systemd, if there is one.

    Runs systemctl twice, each time with a timeout; a manager that does not answer is not asked again.
    """
    found = systemd_unit.units_of(places)
    if not system.is_linux() or not (places.system_wide or systemd_unit.user_manager_runs()):
        return ManagerState("absent")
    scope = found.scope if found else ("--user",)
    names = (found.socket, found.service, *found.more[:1]) if found else ()
    said = _ask(scope, "show", f"--property={','.join(_PROPERTIES)}", "--", *names)
    variables = _ask(scope, "show-environment", "--output=json") if said.returncode == 0 else said
    if said.returncode or variables.returncode:
        return ManagerState("silent", said=(said.stderr or variables.stderr).strip())
    # One paragraph for each unit, with a property in each line.
    blocks = [assignments(block.splitlines()) for block in said.stdout.split("\n\n")] if names else []
    socket, service, http = (*blocks, {}, {}, {})[:3]
    typed = " ".join(("systemctl", *scope))
    return ManagerState("answers", socket, service, http, parse_environment(variables.stdout), systemctl=typed)


def _ask(scope: Sequence[str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["systemctl", *scope, "--no-ask-password", *arguments]
    environ = {**os.environ, "XDG_RUNTIME_DIR": paths.runtime_dir(), "LC_ALL": "C.UTF-8"}
    try:
        return subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=ASK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {ASK_SECONDS:g} s")
    except OSError as error:
        return subprocess.CompletedProcess(command, 1, "", f"systemctl: {error.strerror}")


def parse_environment(text: str) -> dict[str, str]:
    """Parse the output of `systemctl show-environment --output=json`."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {name: str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def service_environment(seen: ManagerState) -> dict[str, str]:
    """Return the environment of the service: the manager's variables, then the unit's, then those of its files."""
    found = dict(seen.variables)
    found |= assignments(_words(seen.service.get("Environment", "")))
    if path := systemd_unit.path_in(seen.service.get("Environment", "")):
        found["PATH"] = path
    for row in seen.service.get("EnvironmentFiles", "").split(")"):
        path = row.partition(" (")[0].strip()
        found |= assignments(_file_words(path)) if path else {}
    return found


def assignments(words: list[str]) -> dict[str, str]:
    """Return the variables in words of the form NAME=VALUE."""
    pairs = (word.partition("=") for word in words if "=" in word)
    return {name: value for name, _, value in pairs}


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _file_words(path: str) -> list[str]:
    written = (line.strip() for line in read_text(path).splitlines())
    return [word for line in written if line and line[0] not in "#;" for word in _words(line)[:1]]


def service_program(seen: ManagerState) -> str:
    """Return the program of ExecStart=, as `systemctl show` has it: `{ path=/usr/bin/x ; argv[]=… }`.

    Empty if systemctl shows none.
    """
    _, found, rest = seen.service.get("ExecStart", "").partition("path=")
    return rest.partition(" ; ")[0] if found else ""
