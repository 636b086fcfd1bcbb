"""Processes on Windows: other processes by their pid, and job objects.

An open handle pins the process, so its pid is not reused meanwhile.

Job objects are Windows's groups of a program and all its descendants, which end with the job's last handle. There are
two layers, one inside the other. The daemon puts itself into a job (`hold_descendants`) whose only handle is its own:
however the daemon ends, the kernel closes the handle and thereby ends every process that is left. Each server is also
in a job of its own (`let_run`), so that ending the server ends its descendants.

No job here allows a breakaway. So a daemon that replaces itself by a new process would take that process along, and
a daemon that a client starts has to break away from the client's job when it is created.
"""

import functools
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from hearth.host.system import UNKNOWN_START_TIME

Found = TypeVar("Found")
_PROCESS_TERMINATE = 0x0001
_QUERY_LIMITED_INFORMATION = 0x1000
_SYNCHRONIZE = 0x0010_0000

if sys.platform == "win32":
    import _winapi
    import ctypes
    from ctypes import wintypes

    from hearth.errors import Refused
    from hearth.host.windows.accounts import os_errors

    # A process that is created suspended cannot have started another before it is in its job.
    SUSPENDED = 0x0000_0004
    # Exit code of a server that had to be ended: Windows has no signals, and 0 would be success.
    ENDED_EXIT_CODE = 1

    # GetProcessTimes of pywin32 rounds to milliseconds and loads its time zones for that; NtResumeProcess it lacks. The
    # interpreter's own `_winapi` opens processes: win32api, which does too, would load shell32.
    _times = ctypes.WinDLL("kernel32").GetProcessTimes
    _times.argtypes = (wintypes.HANDLE, *[ctypes.POINTER(wintypes.FILETIME)] * 4)
    _nt = ctypes.WinDLL("ntdll")
    _nt.NtResumeProcess.argtypes = (wintypes.HANDLE,)
    _nt.NtResumeProcess.restype = ctypes.c_long
    _nt.RtlNtStatusToDosError.argtypes = (ctypes.c_long,)
    _nt.RtlNtStatusToDosError.restype = wintypes.ULONG

    def _examine(pid: int, look: Callable[[int], Found], otherwise: Found, access: int = 0) -> Found:
        """Look at a process through a handle; return `otherwise` if there is none, or this user may not.

        Raises PermissionError if it may be examined without `access` only.
        """
        try:
            handle = _winapi.OpenProcess(_QUERY_LIMITED_INFORMATION | _SYNCHRONIZE | access, False, pid)
        except OSError as exc:
            if access and isinstance(exc, PermissionError):
                raise
            return otherwise
        try:
            return look(handle)
        finally:
            _winapi.CloseHandle(handle)

    def _start_time(handle: int) -> int | None:
        times = [wintypes.FILETIME() for _ in range(4)]
        if not _times(handle, *map(ctypes.byref, times)):
            return None
        return int(times[0].dwHighDateTime) << 32 | int(times[0].dwLowDateTime)

    def _ended(handle: int, milliseconds: int = 0) -> bool:
        return _winapi.WaitForSingleObject(handle, milliseconds) == _winapi.WAIT_OBJECT_0

    def _is_it(handle: int, start_time: int) -> bool:
        return start_time == UNKNOWN_START_TIME or _start_time(handle) == start_time

    def start_time(pid: int) -> int | None:
        """Return when the process started; None if there is none."""
        return _examine(pid, _start_time, None)

    def is_alive(pid: int, start_time: int) -> bool:
        """Tell whether that process still runs; another process with the same pid does not count."""
        return _examine(pid, lambda handle: not _ended(handle) and _is_it(handle, start_time), False)

    def send_signal(pid: int, start_time: int, number: int) -> bool:
        """End that process, whatever the signal, as Windows has no others; return False if it is gone."""

        def end(handle: int) -> bool:
            if _ended(handle) or not _is_it(handle, start_time):
                return False
            try:
                _winapi.TerminateProcess(handle, 128 + number)
            except OSError:
                # The process has just ended by itself.
                return False
            return True

        try:
            return _examine(pid, end, False, _PROCESS_TERMINATE)
        except PermissionError as exc:
            raise Refused(f"process {pid} belongs to another user and cannot be ended") from exc

    def wait_gone(pid: int, start_time: int, timeout: float) -> bool:
        """Wait up to `timeout` seconds for that process to end; return whether it did."""
        milliseconds = int(max(0.0, timeout) * 1000)
        return _examine(pid, lambda handle: not _is_it(handle, start_time) or _ended(handle, milliseconds), True)

    class Job:
        """Group of processes and all their descendants. Ends with its last handle, which this object holds."""

        def __init__(self, process_handle: int) -> None:
            """Make a job with this process and everything that it starts from now on. Raises OSError."""
            import win32job

            # Its type stubs say that it returns nothing.
            make: Any = win32job.CreateJobObject
            kind = win32job.JobObjectExtendedLimitInformation
            with os_errors():
                # An empty name is none, which pywin32 does not take. The handle closes itself when it is dropped.
                self._handle = make(None, "")
                limits = win32job.QueryInformationJobObject(self._handle, kind)
                limits["BasicLimitInformation"]["LimitFlags"] = win32job.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
                win32job.SetInformationJobObject(self._handle, kind, limits)
                win32job.AssignProcessToJobObject(self._handle, process_handle)

        def terminate(self) -> None:
            """End every process in the job immediately; do nothing if there is none, or the job is closed."""
            import win32job

            try:
                win32job.TerminateJobObject(self._handle, ENDED_EXIT_CODE)
            except win32job.error:
                pass

        def keep_open(self) -> None:
            """Leave the handle to the kernel, which closes it when this process ends."""
            self._handle.Detach()

        def close(self) -> None:
            """Close the handle, which ends every process left in the job. Doing it again changes nothing."""
            self._handle.Close()

    def let_run(process: "subprocess.Popen[bytes]") -> Job:
        """Resume a process that was created suspended, in a job of its own. Raises OSError after ending the process."""
        try:
            job = Job(handle_of(process))
            # ResumeThread would need the thread's handle, which subprocess does not keep.
            status = _nt.NtResumeProcess(handle_of(process))
            if status < 0:
                raise ctypes.WinError(_nt.RtlNtStatusToDosError(status))
        except OSError:
            process.kill()
            process.wait()
            raise
        return job

    def handle_of(process: "subprocess.Popen[bytes]") -> int:
        """Return the process's handle, valid until the process is waited for."""
        return int(process._handle)  # type: ignore[attr-defined]

    @functools.cache
    def hold_descendants() -> None:
        """End everything that this process starts from now on together with it, however it ends. Raises OSError."""
        # Closing it in an orderly way, as the interpreter's end would, ends this very process before its time.
        Job(_winapi.GetCurrentProcess()).keep_open()
