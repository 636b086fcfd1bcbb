"""State of the user's systemd: whether it answers, the properties of the units, the environment of the service.

Runs systemctl twice, each time with a timeout; a manager that does not answer is not asked again. The rest is pure.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from hearth import paths
from hearth.control_client import systemd_unit
from hearth.host import system

# systemctl answers in 20 ms; a manager that is starting or reloading takes longer.
ASK_SECONDS = 5.0
_FILE_LIMIT_BYTES = 1 << 20
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


def look(places: paths.Places) -> ManagerState:
    """Ask the daemon's systemd, if there is one."""
    found = systemd_unit.units_of(places)
    if not system.is_linux() or not (places.system_wide or systemd_unit.user_manager_runs()):
        return ManagerState("absent")
    scope = found.scope if found else ("--user",)
    names = (found.socket, found.service, *found.more[:1]) if found else ()
    said = _ask(scope, "show", f"--property={','.join(_PROPERTIES)}", "--", *names)
    variables = _ask(scope, "show-environment", "--output=json") if said.returncode == 0 else said
    if said.returncode or variables.returncode:
        return ManagerState("silent", said=(said.stderr or variables.stderr).strip())
    blocks = [properties(block) for block in said.stdout.split("\n\n")] if names else []
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


def properties(block: str) -> dict[str, str]:
    """Return the properties in one unit's paragraph of `systemctl show`."""
    rows = (line.partition("=") for line in block.splitlines() if "=" in line)
    return {name: value for name, _, value in rows}


def parse_environment(text: str) -> dict[str, str]:
    """Parse the output of `systemctl show-environment --output=json`."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {name: str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def environment(seen: ManagerState) -> dict[str, str]:
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
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(_FILE_LIMIT_BYTES).splitlines()
    except OSError:
        return []
    written = (line.strip() for line in lines)
    return [word for line in written if line and line[0] not in "#;" for word in _words(line)[:1]]


def program(seen: ManagerState) -> str:
    """Return the program of ExecStart=, as `systemctl show` has it: `{ path=/usr/bin/x ; argv[]=… }`.

    Empty if systemctl shows none.
    """
    _, found, rest = seen.service.get("ExecStart", "").partition("path=")
    return rest.partition(" ; ")[0] if found else ""
