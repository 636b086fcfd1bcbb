"""Service and logon task of Windows: the requests for Hearth's own, and clients of the managers that start them.

Requests are pure. The Task Scheduler is asked through `schtasks.exe`; the service control manager through pywin32, and
for a trigger, which pywin32 does not support, by ctypes.
"""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from hearth.errors import HearthError
from hearth.host import system
from hearth.host.windows import task

NAME = task.SERVICE_NAME
DISPLAY_NAME = "Hearth, the MCP daemon"
DESCRIPTION = (
    "Shares one set of MCP servers among the agents and editors of the user it runs as. Written by `hearth install`;"
    " `hearth uninstall` removes it."
)
SCRIPT = "hearth_service.py"
# SERVICE_USER_OWN_PROCESS: a template. At each logon, Windows 10 and later make a service from it for that user, which
# runs as that user and in that user's session.
PER_USER = 0x50

# winsvc.h: the service starts when a client opens a named pipe.
TRIGGER_NETWORK_ENDPOINT = 6
TRIGGER_ACTION_START = 1
TRIGGER_DATA_STRING = 2
NAMED_PIPE_EVENT = uuid.UUID("1F81D131-3FAC-4537-9E0C-7E7B0C2F4B55")
_PIPES = "\\\\.\\pipe\\"

STOPPED, START_PENDING, STOP_PENDING, RUNNING = 1, 2, 3, 4
# Longer than a daemon takes to drain and to stop its servers.
STOP_LIMIT_SECONDS = 60.0
_POLL_SECONDS = 0.1
# schtasks.exe answers in a tenth of a second; a scheduler that is busy with a logon takes longer.
SCHTASKS_SECONDS = 30


class Service(NamedTuple):
    """Service as it should be registered."""

    command: str
    name: str = NAME
    # No two services of a machine may have the same display name.
    display_name: str = DISPLAY_NAME
    kind: int = PER_USER


class Trigger(NamedTuple):
    """Event that starts a service, with one item of data."""

    kind: int
    action: int
    subtype: bytes
    data_kind: int
    data: bytes


class Status(NamedTuple):
    """State of a service. `code` is its exit code, one of Windows; if that is 1066, `own_code` is the service's own."""

    state: int
    code: int
    own_code: int
    checkpoint: int
    pid: int


def command_line(python: str, script: str, interpreter: str, packages: str) -> str:
    """Return the command line that the service manager runs.

    `python` is no launcher of a virtual environment, which would start a second process that the manager does not know;
    so `interpreter` and `packages` name those of that environment.
    """
    return subprocess.list2cmdline([python, "-I", script, "--python", interpreter, "--packages", packages])


def is_ours(command: str) -> bool:
    """Tell whether Hearth may change and remove a service with this command line."""
    return SCRIPT in command


def on_pipe(endpoint: str) -> Trigger:
    """Return a trigger that starts the service when a client opens this pipe. Raises ValueError for a remote pipe."""
    if not endpoint.lower().startswith(_PIPES):
        raise ValueError(f"{endpoint!r} is not the name of a pipe")
    data = (endpoint[len(_PIPES) :] + "\0").encode("utf-16-le")
    return Trigger(TRIGGER_NETWORK_ENDPOINT, TRIGGER_ACTION_START, NAMED_PIPE_EVENT.bytes_le, TRIGGER_DATA_STRING, data)


def event_source(name: str) -> str:
    """Return the registry key, below HKLM, in which the event log looks up the texts for entries of that name."""
    return f"{task.SERVICES_KEY}\\EventLog\\Application\\{name}"


# --- logon task


def windowless(python: str) -> str:
    """Return the interpreter beside the given one that opens no console window; the given one if it is missing."""
    head, tail = os.path.split(python)
    stem, extension = os.path.splitext(tail)
    if not stem.lower().startswith("python") or stem.lower().startswith("pythonw"):
        return python
    found = os.path.join(head, f"{stem[:6]}w{stem[6:]}{extension}")
    return found if os.path.exists(found) else python


def render_task(template: str, python: str, home: str, sid: str) -> str:
    """Return the XML for this interpreter and this user, in ASCII. Raises HearthError for text that XML cannot hold."""
    # Here, because it loads dataclasses, which the service itself does without.
    from hearth.host.install.service_files import fill

    values = {"PYTHON": python, "HOME": home, "SID": sid}
    return fill(template, values, "the Task Scheduler").encode("ascii", "xmlcharrefreplace").decode("ascii")


def command_to_create(name: str, path: str) -> list[str]:
    """Return the command that registers the task. /f replaces a former one without asking."""
    return ["schtasks", "/create", "/tn", name, "/xml", path, "/f"]


def command_to_delete(name: str) -> list[str]:
    """Return the command that deletes the task."""
    return ["schtasks", "/delete", "/tn", name, "/f"]


class Schtasks:
    """Task Scheduler. `problem` says why it cannot be used, or is None."""

    def __init__(self) -> None:
        self.problem = None if os.path.exists(task.scheduler()) else f"{task.scheduler()} is not there"

    def knows(self, name: str) -> bool:
        """Tell whether there is such a task that this user may see."""
        return self._run("/query", "/tn", name).returncode == 0

    def create(self, name: str, path: str) -> None:
        """Register the task in the file, in place of a former one. Raises HearthError with schtasks's message."""
        self._do(*command_to_create(name, path)[1:])

    def delete(self, name: str) -> None:
        """Delete the task; a running daemon continues. Raises HearthError with schtasks's message."""
        self._do(*command_to_delete(name)[1:])

    def _do(self, *arguments: str) -> None:
        done = self._run(*arguments)
        if done.returncode != 0:
            raise HearthError(f"`schtasks {' '.join(arguments)}` failed: {system.said(done)}")

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return system.ask([task.scheduler(), *arguments], SCHTASKS_SECONDS)


# --- service control manager

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    import win32service

    _ACCESS_DENIED, _INVALID_PARAMETER = 5, 87
    _ALREADY_RUNNING, _NOT_FOUND, _NOT_ACTIVE = 1056, 1060, 1062
    _DELETE, _CONFIG_TRIGGERS = 0x0001_0000, 8

    class _Item(ctypes.Structure):
        _fields_ = (("type", wintypes.DWORD), ("size", wintypes.DWORD), ("data", ctypes.c_char_p))

    class _Trigger(ctypes.Structure):
        _fields_ = (
            ("type", wintypes.DWORD),
            ("action", wintypes.DWORD),
            ("subtype", ctypes.c_char_p),
            ("count", wintypes.DWORD),
            ("items", ctypes.POINTER(_Item)),
        )

    class _Triggers(ctypes.Structure):
        _fields_ = (
            ("count", wintypes.DWORD),
            ("triggers", ctypes.POINTER(_Trigger)),
            ("reserved", ctypes.c_void_p),
        )

    _configure = ctypes.WinDLL("advapi32", use_last_error=True).ChangeServiceConfig2W
    _configure.argtypes = (wintypes.HANDLE, wintypes.DWORD, ctypes.c_void_p)

    @contextmanager
    def _asking(what: str, harmless: int = 0) -> Iterator[None]:
        """Run a block that asks the manager; one of its errors may be harmless. Raises HearthError for the others."""
        try:
            yield
        except win32service.error as exc:
            if exc.winerror != harmless:
                raise _refusal(what, exc.winerror, exc.strerror) from exc

    def _refusal(what: str, code: int, words: str) -> HearthError:
        if code == _ACCESS_DENIED:
            return HearthError(
                f"Windows refuses access to {what}: services are an administrator's. Open a terminal with `Run as"
                " administrator` and type the same there; `hearth install` without --service needs no administrator"
            )
        return HearthError(f"Windows refuses {what}: {words.strip()} (error {code})")

    # Handles of the manager and of services close themselves when they are dropped.

    def _manager(access: int = win32service.SC_MANAGER_CONNECT) -> Any:
        with _asking("the service manager"):
            return win32service.OpenSCManager(None, None, access)

    def _service(name: str, access: int, harmless: int = _NOT_FOUND) -> Any:
        """Open a service; return None if there is none of that name, unless that is not harmless."""
        manager = _manager()
        with _asking(f"the service {name}", harmless):
            return win32service.OpenService(manager, name, access)
        return None

    def command_of(name: str) -> str | None:
        """Return the command line of a service; None if there is none of that name. Raises HearthError."""
        service = _service(name, win32service.SERVICE_QUERY_CONFIG)
        if service is None:
            return None
        with _asking(f"the service {name}"):
            return str(win32service.QueryServiceConfig(service)[3])

    def create(wanted: Service) -> None:
        """Make the service, or change the one of that name. Raises HearthError."""
        manager = _manager(win32service.SC_MANAGER_CONNECT | win32service.SC_MANAGER_CREATE_SERVICE)
        access = win32service.SERVICE_CHANGE_CONFIG
        service = _service(wanted.name, access)
        # A failure is logged in the event log, and the system starts all the same (ERROR_NORMAL).
        start, error = win32service.SERVICE_DEMAND_START, win32service.SERVICE_ERROR_NORMAL
        asked = (wanted.kind, start, error, wanted.command, None, False, None, None, None)
        with _asking(f"the service {wanted.name}"):
            if service is not None:
                win32service.ChangeServiceConfig(service, *asked, wanted.display_name)
            else:
                service = _create(manager, wanted.name, wanted.display_name, access, *asked)
        with _asking("the description of the service"):
            win32service.ChangeServiceConfig2(service, win32service.SERVICE_CONFIG_DESCRIPTION, DESCRIPTION)

    def _create(*asked: Any) -> Any:
        try:
            return win32service.CreateService(*asked)
        except win32service.error as exc:
            if exc.winerror != _INVALID_PARAMETER:
                raise
            raise HearthError(
                "this Windows knows no services of a user's own, which came with Windows 10;"
                " `hearth install` without --service needs none"
            ) from exc

    def set_trigger(name: str, trigger: Trigger) -> None:
        """Set this event as the only one that starts the service. Raises HearthError."""
        item = _Item(trigger.data_kind, len(trigger.data), trigger.data)
        one = _Trigger(trigger.kind, trigger.action, trigger.subtype, 1, ctypes.pointer(item))
        asked = _Triggers(1, ctypes.pointer(one), None)
        service = _service(name, win32service.SERVICE_CHANGE_CONFIG | win32service.SERVICE_START, harmless=0)
        if not _configure(int(service), _CONFIG_TRIGGERS, ctypes.byref(asked)):
            code = ctypes.get_last_error()
            raise _refusal(f"the trigger of the service {name}", code, ctypes.FormatError(code))

    def status(name: str) -> Status | None:
        """Return the status of a service; None if there is none of that name. Raises HearthError."""
        service = _service(name, win32service.SERVICE_QUERY_STATUS)
        if service is None:
            return None
        with _asking(f"the service {name}"):
            found: Any = win32service.QueryServiceStatusEx(service)
        names = ("CurrentState", "Win32ExitCode", "ServiceSpecificExitCode", "CheckPoint", "ProcessId")
        return Status(*(found[name] for name in names))

    def start(name: str) -> None:
        """Start the service; its process need not be ready yet. Raises HearthError."""
        service = _service(name, win32service.SERVICE_START, harmless=0)
        with _asking(f"the service {name}", harmless=_ALREADY_RUNNING):
            win32service.StartService(service, None)

    def stop(name: str, limit: float = STOP_LIMIT_SECONDS) -> bool:
        """Stop the service and wait for that; return False if it has not stopped in time. Raises HearthError."""
        service = _service(name, win32service.SERVICE_STOP)
        if service is None:
            return True
        with _asking(f"the service {name}", harmless=_NOT_ACTIVE):
            win32service.ControlService(service, win32service.SERVICE_CONTROL_STOP)
        deadline = time.monotonic() + limit
        while (found := status(name)) is not None and found.state != STOPPED:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def delete(name: str) -> None:
        """Remove the service; a running one is removed when it has stopped. Raises HearthError."""
        service = _service(name, _DELETE)
        if service is not None:
            with _asking(f"the service {name}"):
                win32service.DeleteService(service)

    def register_events(name: str, file: str) -> None:
        """Have the event log show entries of that name with the texts of the message table in that file.

        Without that, every entry begins with an apology. The entry in the registry is beside the services, and needs
        an administrator. Raises HearthError.
        """
        import win32evtlogutil

        with _asking(f"HKLM\\{event_source(name)}"):
            win32evtlogutil.AddSourceToRegistry(name, file)

    def forget_events(name: str) -> None:
        """Remove that event source, if it exists. Raises HearthError."""
        import win32evtlogutil

        with _asking(f"the removal of HKLM\\{event_source(name)}"):
            win32evtlogutil.RemoveSourceFromRegistry(name)
