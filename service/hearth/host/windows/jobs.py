"""Job objects: Windows's groups of a program and all its descendants, which end with the job's last handle.

There are two layers, one inside the other. The daemon puts itself into a job (`hold_descendants`) whose only handle is
its own: however the daemon ends, the kernel closes the handle and thereby ends every process that is left. Each server
is also in a job of its own (`start`, `confine`), so that ending the server ends its descendants.

No job here allows a breakaway. So a daemon that replaces itself by a new process would take that process along, and
a daemon that a client starts has to break away from the client's job when it is created.

This module knows nothing of pipes or of the programs' purpose.
"""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    # A process that is created suspended cannot have started another before it is in its job.
    SUSPENDED = 0x0000_0004
    # Exit code of a server that had to be ended: Windows has no signals, and 0 would be success.
    ENDED_EXIT_CODE = 1
    _KILL_ON_JOB_CLOSE = 0x0000_2000
    _EXTENDED_LIMIT_INFORMATION = 9

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
            ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateJobObjectW.argtypes = (ctypes.c_void_p, wintypes.LPCWSTR)
    _kernel.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD)
    _kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
    _kernel.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
    _kernel.GetCurrentProcess.restype = wintypes.HANDLE
    _nt = ctypes.WinDLL("ntdll")
    _nt.NtResumeProcess.argtypes = (wintypes.HANDLE,)
    _nt.NtResumeProcess.restype = ctypes.c_long
    _nt.RtlNtStatusToDosError.argtypes = (ctypes.c_long,)
    _nt.RtlNtStatusToDosError.restype = wintypes.ULONG

    class Job:
        """Group of processes and all their descendants. Ends with its last handle, which this object holds."""

        def __init__(self) -> None:
            """Make an empty job. Raises OSError."""
            self._handle: int | None = _kernel.CreateJobObjectW(None, None)
            if not self._handle:
                raise ctypes.WinError(ctypes.get_last_error())
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
            told = ctypes.byref(limits), ctypes.sizeof(limits)
            if not _kernel.SetInformationJobObject(self._handle, _EXTENDED_LIMIT_INFORMATION, *told):
                raise self._refused()

        def add(self, process_handle: int) -> None:
            """Put a process into the job, with everything that it starts from now on. Raises OSError."""
            if not _kernel.AssignProcessToJobObject(self._handle, process_handle):
                raise ctypes.WinError(ctypes.get_last_error())

        def terminate(self) -> None:
            """End every process in the job immediately; do nothing if there is none, or the job is closed."""
            if self._handle:
                _kernel.TerminateJobObject(self._handle, ENDED_EXIT_CODE)

        def close(self) -> None:
            """Close the handle, which ends every process left in the job. Doing it again changes nothing."""
            handle, self._handle = self._handle, None
            if handle:
                _kernel.CloseHandle(handle)

        def _refused(self) -> OSError:
            exc = ctypes.WinError(ctypes.get_last_error())
            self.close()
            return exc

    def confine(process_handle: int) -> Job:
        """Make a job with this process in it, without processes that it has already started. Raises OSError."""
        job = Job()
        try:
            job.add(process_handle)
        except OSError:
            job.close()
            raise
        return job

    def resume(process_handle: int) -> None:
        """Resume a process that was created suspended. Raises OSError."""
        # ResumeThread would need the thread's handle, which subprocess does not keep.
        status = _nt.NtResumeProcess(process_handle)
        if status < 0:
            raise ctypes.WinError(_nt.RtlNtStatusToDosError(status))

    def start(
        command: Sequence[str], *, creationflags: int = 0, **options: Any
    ) -> "tuple[subprocess.Popen[bytes], Job]":
        """Start a program inside a job of its own, by subprocess.Popen and with its options. Raises OSError."""
        process = subprocess.Popen(command, creationflags=creationflags | SUSPENDED, **options)
        return process, let_run(process)

    def let_run(process: "subprocess.Popen[bytes]") -> Job:
        """Resume a process that was created suspended, in a job of its own. Raises OSError after ending the process."""
        job: Job | None = None
        try:
            job = confine(handle_of(process))
            resume(handle_of(process))
        except OSError:
            process.kill()
            process.wait()
            if job:
                job.close()
            raise
        return job

    def handle_of(process: "subprocess.Popen[bytes]") -> int:
        """Return the process's handle, valid until the process is waited for."""
        return int(process._handle)  # type: ignore[attr-defined]

    # Never closed explicitly: the end of this process closes it.
    _own: list[Job] = []

    def hold_descendants() -> None:
        """End everything that this process starts from now on together with it, however it ends. Raises OSError."""
        if not _own:
            job = Job()
            try:
                job.add(_kernel.GetCurrentProcess())
            except OSError:
                job.close()
                raise
            _own.append(job)
