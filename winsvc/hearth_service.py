"""Daemon as a service of Windows, one for each user: the program that the service manager starts.

    pythonw -I hearth_service.py --python INTERPRETER --packages FOLDER

`hearth install --service` registers it. The manager must know the process that answers it, and the python.exe of a
virtual environment only starts another one. So this is run by the interpreter underneath, and told where the
environment's packages are. Nothing of Hearth or pywin32 can be imported before that.

There are three threads: the main one, which is handed to the manager; the manager's own, which calls `SvcRun` and the
controls; and the one of the daemon's loop, which is told to end from outside.
"""

import argparse
import os
import site
import sys
import threading
from collections.abc import Callable
from typing import Any


def prepare(arguments: list[str]) -> None:
    """Find the packages, and set the interpreter that child processes of the daemon are started with."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--packages", required=True)
    options = parser.parse_args(arguments)
    sys.executable = options.python
    site.addsitedir(options.packages)


prepare(sys.argv[1:])

import servicemanager  # noqa: E402
import win32service  # noqa: E402
import win32serviceutil  # noqa: E402
import win32ts  # noqa: E402

from hearth import sids  # noqa: E402
from hearth.daemon.main import main  # noqa: E402
from hearth.errors import AlreadyRunning, Refused  # noqa: E402
from hearth.host.windows import accounts, services  # noqa: E402

# Longest pause until the next report, as announced to the manager; reports come more often.
WAIT_HINT_MILLISECONDS = 10_000
CHECKPOINT_SECONDS = 2.0
# For a daemon that has lost its own bounds, for draining and for each server.
STOP_LIMIT_SECONDS = 120.0
# winerror.h: the service's own code says more.
ERROR_SERVICE_SPECIFIC_ERROR = 1066
WTS_SESSION_LOGOFF = 6
DAEMON = ["--profile", "mcp"]


class HostedDaemon:
    """Daemon in a thread of its own."""

    def __init__(self, on_serving: Callable[[], None]) -> None:
        self.code = 0
        self._on_serving = on_serving
        self._end: Callable[[str], None] | None = None
        self._reason = ""
        self._lock = threading.Lock()
        # Not waited for at the interpreter's end: a daemon that does not stop is ended with the process.
        self._thread = threading.Thread(target=self._run, name="hearth", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, reason: str) -> None:
        """Have the daemon drain and end; if it does not serve yet, as soon as it does."""
        with self._lock:
            self._reason, end = reason, self._end
        if end:
            end(reason)

    def ends_within(self, seconds: float) -> bool:
        """Wait for the daemon's end; return whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.code = main(DAEMON, self._serves)
        except Exception as exc:
            self.code = 1
            servicemanager.LogErrorMsg(f"Hearth ended: {type(exc).__name__}: {exc}")

    def _serves(self, end: Callable[[str], None]) -> None:
        with self._lock:
            self._end, reason = end, self._reason
        self._on_serving()
        if reason:
            end(reason)


class HearthService(win32serviceutil.ServiceFramework):
    """Service as the service manager sees it."""

    _svc_name_ = services.NAME
    _svc_display_name_ = services.DISPLAY_NAME

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        self._state = win32service.SERVICE_START_PENDING
        self._stopping = threading.Event()
        self._daemon = HostedDaemon(self._serves)

    def GetAcceptedControls(self) -> int:  # noqa: N802
        """Accept notice of a coming shutdown, with more time left than in it, and of a session's end without one."""
        more = win32service.SERVICE_ACCEPT_PRESHUTDOWN | win32service.SERVICE_ACCEPT_SESSIONCHANGE
        return int(super().GetAcceptedControls() | more)  # type: ignore[no-untyped-call]

    def SvcRun(self) -> None:  # noqa: N802
        """Run the service, and report its life to the manager."""
        self._report(win32service.SERVICE_START_PENDING)
        refused = accounts.refusal(sids.own())
        if refused:
            servicemanager.LogErrorMsg(refused)
            self._fail(Refused.exit_code)
        self._daemon.start()
        late = 0.0
        while not self._daemon.ends_within(CHECKPOINT_SECONDS):
            if self._state != win32service.SERVICE_RUNNING:
                self._report(self._state)
            late += CHECKPOINT_SECONDS if self._stopping.is_set() else 0.0
            if late > STOP_LIMIT_SECONDS:
                servicemanager.LogErrorMsg(f"Hearth has not stopped within {STOP_LIMIT_SECONDS:g} s and is ended")
                self._fail(1)
        # Another daemon that serves already is as good.
        if self._daemon.code not in (0, AlreadyRunning.exit_code):
            servicemanager.LogErrorMsg(f"Hearth ended with code {self._daemon.code}; its log says why")
            self._fail(self._daemon.code)

    def SvcStop(self) -> None:  # noqa: N802
        """Begin to drain; `SvcRun` reports to the manager that this goes on."""
        self._stop("the service manager stops it")

    def SvcInterrogate(self) -> None:  # noqa: N802
        """Report the state again."""
        self._report(self._state)

    def SvcOtherEx(self, control: int, event_type: int, data: Any) -> None:  # noqa: N802
        """Stop when the machine shuts down or this user's session ends."""
        if control == win32service.SERVICE_CONTROL_PRESHUTDOWN:
            self._stop("Windows shuts down")
        elif control == win32service.SERVICE_CONTROL_SESSIONCHANGE and event_type == WTS_SESSION_LOGOFF:
            own = win32ts.ProcessIdToSessionId(os.getpid())  # type: ignore[no-untyped-call]
            if own in data:
                self._stop("the user logs off")

    def _serves(self) -> None:
        if not self._stopping.is_set():
            self._report(win32service.SERVICE_RUNNING)

    def _stop(self, reason: str) -> None:
        self._stopping.set()
        self._report(win32service.SERVICE_STOP_PENDING)
        self._daemon.stop(reason)

    def _report(self, state: int) -> None:
        self._state = state
        pending = state not in (win32service.SERVICE_RUNNING, win32service.SERVICE_STOPPED)
        self.ReportServiceStatus(state, waitHint=WAIT_HINT_MILLISECONDS if pending else 0)

    def _fail(self, code: int) -> None:
        """Report the failure and end the process: after a return, pywin32 would report success instead."""
        self.ReportServiceStatus(
            win32service.SERVICE_STOPPED, waitHint=0, win32ExitCode=ERROR_SERVICE_SPECIFIC_ERROR, svcExitCode=code
        )
        os._exit(code)


def host() -> None:
    """Hand this thread to the service manager until the service has stopped."""
    servicemanager.Initialize(services.NAME, servicemanager.__file__)
    servicemanager.PrepareToHostSingle(HearthService)
    servicemanager.StartServiceCtrlDispatcher()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    host()
