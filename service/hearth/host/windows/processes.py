"""Other processes on Windows. An open handle pins the process, so its pid is not reused meanwhile."""

import ctypes
import sys

from hearth.host.start_times import UNKNOWN_START_TIME

_PROCESS_TERMINATE = 0x0001
QUERY_LIMITED_INFORMATION = 0x1000
_SYNCHRONIZE = 0x0010_0000
_WAIT_OBJECT_0 = 0
_ERROR_ACCESS_DENIED = 5

if sys.platform == "win32":
    from ctypes import wintypes

    from hearth.errors import Refused

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    _kernel.OpenProcess.restype = wintypes.HANDLE
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
    _kernel.WaitForSingleObject.argtypes = (wintypes.HANDLE, wintypes.DWORD)
    _kernel.WaitForSingleObject.restype = wintypes.DWORD
    _kernel.TerminateProcess.argtypes = (wintypes.HANDLE, wintypes.UINT)
    _kernel.GetProcessTimes.argtypes = (wintypes.HANDLE, *[ctypes.POINTER(wintypes.FILETIME)] * 4)

    class _Handle:
        def __init__(self, pid: int, access: int = 0) -> None:
            wanted = QUERY_LIMITED_INFORMATION | _SYNCHRONIZE | access
            self.value = _kernel.OpenProcess(wanted, False, pid)
            self.error = 0 if self.value else ctypes.get_last_error()

        def __enter__(self) -> "_Handle":
            return self

        def __exit__(self, *exc: object) -> None:
            if self.value:
                _kernel.CloseHandle(self.value)

        def start_time(self) -> int | None:
            times = [wintypes.FILETIME() for _ in range(4)]
            if not self.value or not _kernel.GetProcessTimes(self.value, *map(ctypes.byref, times)):
                return None
            return int(times[0].dwHighDateTime) << 32 | int(times[0].dwLowDateTime)

        def ended(self, milliseconds: int = 0) -> bool:
            return not self.value or _kernel.WaitForSingleObject(self.value, milliseconds) == _WAIT_OBJECT_0

        def is_it(self, start_time: int) -> bool:
            return start_time == UNKNOWN_START_TIME or self.start_time() == start_time

    def start_time(pid: int) -> int | None:
        """Return when the process started; None if there is none."""
        with _Handle(pid) as handle:
            return handle.start_time()

    def is_alive(pid: int, start_time: int) -> bool:
        """Tell whether that process still runs; another process with the same pid does not count."""
        with _Handle(pid) as handle:
            return not handle.ended() and handle.is_it(start_time)

    def send_signal(pid: int, start_time: int, number: int) -> bool:
        """End that process, whatever the signal, as Windows has no others; return False if it is gone."""
        with _Handle(pid, _PROCESS_TERMINATE) as handle:
            if handle.error == _ERROR_ACCESS_DENIED:
                raise Refused(f"process {pid} belongs to another user and cannot be ended")
            if handle.ended() or not handle.is_it(start_time):
                return False
            return bool(_kernel.TerminateProcess(handle.value, 128 + number))

    def wait_gone(pid: int, start_time: int, timeout: float) -> bool:
        """Wait up to `timeout` seconds for that process to end; return whether it did."""
        with _Handle(pid) as handle:
            return not handle.is_it(start_time) or handle.ended(int(max(0.0, timeout) * 1000))
