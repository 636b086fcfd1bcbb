"""Which processes there are on Windows, whose children they are, and what memory they take."""

import ctypes
import sys

from hearth.host.windows.processes import QUERY_LIMITED_INFORMATION

if sys.platform == "win32":
    from ctypes import wintypes

    from hearth.host.windows.processes import start_time

    _SNAP_PROCESS = 0x0000_0002
    _INVALID_HANDLE = ctypes.c_void_p(-1).value

    class _ProcessEntry(ctypes.Structure):
        _fields_ = (
            ("dwSize", wintypes.DWORD),
            ("cntUsage", wintypes.DWORD),
            ("th32ProcessID", wintypes.DWORD),
            ("th32DefaultHeapID", ctypes.c_size_t),
            ("th32ModuleID", wintypes.DWORD),
            ("cntThreads", wintypes.DWORD),
            ("th32ParentProcessID", wintypes.DWORD),
            ("pcPriClassBase", wintypes.LONG),
            ("dwFlags", wintypes.DWORD),
            ("szExeFile", wintypes.WCHAR * 260),
        )

    class _MemoryCounters(ctypes.Structure):
        _fields_ = (
            ("cb", wintypes.DWORD),
            ("PageFaultCount", wintypes.DWORD),
            ("PeakWorkingSetSize", ctypes.c_size_t),
            ("WorkingSetSize", ctypes.c_size_t),
            ("QuotaPeakPagedPoolUsage", ctypes.c_size_t),
            ("QuotaPagedPoolUsage", ctypes.c_size_t),
            ("QuotaPeakNonPagedPoolUsage", ctypes.c_size_t),
            ("QuotaNonPagedPoolUsage", ctypes.c_size_t),
            ("PagefileUsage", ctypes.c_size_t),
            ("PeakPagefileUsage", ctypes.c_size_t),
        )

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateToolhelp32Snapshot.argtypes = (wintypes.DWORD, wintypes.DWORD)
    _kernel.CreateToolhelp32Snapshot.restype = wintypes.HANDLE
    _kernel.Process32FirstW.argtypes = (wintypes.HANDLE, ctypes.POINTER(_ProcessEntry))
    _kernel.Process32NextW.argtypes = (wintypes.HANDLE, ctypes.POINTER(_ProcessEntry))
    _kernel.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    _kernel.OpenProcess.restype = wintypes.HANDLE
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
    _kernel.K32GetProcessMemoryInfo.argtypes = (wintypes.HANDLE, ctypes.POINTER(_MemoryCounters), wintypes.DWORD)

    def parents() -> dict[int, int]:
        """Every process and its parent; 0 where the parent is gone, or not to be told from a stranger with its pid."""
        found = _snapshot()
        born = {pid: start_time(pid) for pid in found}

        def is_older(parent: int, pid: int) -> bool:
            first, second = born.get(parent), born[pid]
            return first is not None and second is not None and first <= second

        return {pid: parent if is_older(parent, pid) else 0 for pid, parent in found.items()}

    def _snapshot() -> dict[int, int]:
        handle = _kernel.CreateToolhelp32Snapshot(_SNAP_PROCESS, 0)
        if handle in (None, _INVALID_HANDLE):
            return {}
        entry = _ProcessEntry(dwSize=ctypes.sizeof(_ProcessEntry))
        found: dict[int, int] = {}
        try:
            more = _kernel.Process32FirstW(handle, ctypes.byref(entry))
            while more:
                found[entry.th32ProcessID] = entry.th32ParentProcessID
                more = _kernel.Process32NextW(handle, ctypes.byref(entry))
        finally:
            _kernel.CloseHandle(handle)
        return found

    def working_set(pid: int) -> int:
        """Bytes of the process that are in memory. Raises OSError, ProcessLookupError for one that is gone."""
        handle = _kernel.OpenProcess(QUERY_LIMITED_INFORMATION, False, pid)
        if not handle:
            exc = ctypes.WinError(ctypes.get_last_error())
            raise exc if isinstance(exc, PermissionError) else ProcessLookupError(str(exc))
        counters = _MemoryCounters(cb=ctypes.sizeof(_MemoryCounters))
        try:
            if not _kernel.K32GetProcessMemoryInfo(handle, ctypes.byref(counters), counters.cb):
                raise ctypes.WinError(ctypes.get_last_error())
        finally:
            _kernel.CloseHandle(handle)
        return int(counters.WorkingSetSize)
