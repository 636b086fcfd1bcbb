"""Job objects: what holds a program and all that it starts together on Windows, and ends with its last handle.

Two layers, one in the other. The daemon puts itself into a job (`hold_descendants`) whose only handle is its own:
however it ends, the kernel closes the handle and with it ends whoever is left. Each server is in a job of its own
besides (`start`, `confine`), so that ending the server ends its descendants.

No job here lets anybody break away. So a daemon that replaces itself by a new process would take that one along, and
one that is started by a client has to break away from the client's job at its birth.

Knows nothing of pipes or of what the programs are for.
"""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    # A process that is born suspended cannot have started anything before it is in its job.
    SUSPENDED = 0x0000_0004
    # What a server that had to be ended reports: Windows has no signals, and 0 would be success.
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
        """Some processes and all that they start. Ends with its last handle, which is this object's."""

        def __init__(self) -> None:
            """An empty one. Raises OSError."""
            self._handle: int | None = _kernel.CreateJobObjectW(None, None)
            if not self._handle:
                raise ctypes.WinError(ctypes.get_last_error())
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
            told = ctypes.byref(limits), ctypes.sizeof(limits)
            if not _kernel.SetInformationJobObject(self._handle, _EXTENDED_LIMIT_INFORMATION, *told):
                raise self._refused()

        def add(self, process_handle: int) -> None:
            """Put a process into it, and with it whatever that starts from now on. Raises OSError."""
            if not _kernel.AssignProcessToJobObject(self._handle, process_handle):
                raise ctypes.WinError(ctypes.get_last_error())

        def terminate(self) -> None:
            """End every process in it, at once. Nothing happens if there is none, or the job is closed."""
            if self._handle:
                _kernel.TerminateJobObject(self._handle, ENDED_EXIT_CODE)

        def close(self) -> None:
            """End what is left in it, and give the handle back. Doing it again changes nothing."""
            handle, self._handle = self._handle, None
            if handle:
                _kernel.CloseHandle(handle)

        def _refused(self) -> OSError:
            exc = ctypes.WinError(ctypes.get_last_error())
            self.close()
            return exc

    def confine(process_handle: int) -> Job:
        """A new job with this process in it; what it has started before is not. Raises OSError."""
        job = Job()
        try:
            job.add(process_handle)
        except OSError:
            job.close()
            raise
        return job

    def resume(process_handle: int) -> None:
        """Let a process run that was born suspended. Raises OSError."""
        # The thread's handle, which ResumeThread would take, is not to be had from subprocess.
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
        """Let a process run that was born suspended, in a job of its own. Raises OSError, and it is no more."""
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
        """The process's handle, valid until it is waited for."""
        return int(process._handle)  # type: ignore[attr-defined]

    # Never closed by hand: the end of this process is what closes it.
    _own: list[Job] = []

    def hold_descendants() -> None:
        """Whatever this process starts from now on ends with it, however it ends. Raises OSError."""
        if not _own:
            job = Job()
            try:
                job.add(_kernel.GetCurrentProcess())
            except OSError:
                job.close()
                raise
            _own.append(job)
