"""Start time of a process on macOS, through libproc: the source of `ps`, without starting a `ps`."""

import ctypes

_LIBRARY = "/usr/lib/libproc.dylib"
_PROC_PIDTBSDINFO = 3
_SZOMB = 5


class _BsdInfo(ctypes.Structure):
    # struct proc_bsdinfo of <sys/proc_info.h>
    _fields_ = (
        ("pbi_flags", ctypes.c_uint32),
        ("pbi_status", ctypes.c_uint32),
        ("pbi_xstatus", ctypes.c_uint32),
        ("pbi_pid", ctypes.c_uint32),
        ("pbi_ppid", ctypes.c_uint32),
        ("pbi_uid", ctypes.c_uint32),
        ("pbi_gid", ctypes.c_uint32),
        ("pbi_ruid", ctypes.c_uint32),
        ("pbi_rgid", ctypes.c_uint32),
        ("pbi_svuid", ctypes.c_uint32),
        ("pbi_svgid", ctypes.c_uint32),
        ("rfu_1", ctypes.c_uint32),
        ("pbi_comm", ctypes.c_char * 16),
        ("pbi_name", ctypes.c_char * 32),
        ("pbi_nfiles", ctypes.c_uint32),
        ("pbi_pgid", ctypes.c_uint32),
        ("pbi_pjobc", ctypes.c_uint32),
        ("e_tdev", ctypes.c_uint32),
        ("e_tpgid", ctypes.c_uint32),
        ("pbi_nice", ctypes.c_int32),
        ("pbi_start_tvsec", ctypes.c_uint64),
        ("pbi_start_tvusec", ctypes.c_uint64),
    )


def look(pid: int) -> tuple[bool, int] | None:
    """Return whether the process runs, and its start time in microseconds; None if this user has no such process."""
    library = ctypes.CDLL(_LIBRARY)
    library.proc_pidinfo.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int)
    library.proc_pidinfo.restype = ctypes.c_int
    info = _BsdInfo()
    size = ctypes.sizeof(info)
    # The answer is 0 for zombies and for other users' processes: neither is a daemon of this user.
    if library.proc_pidinfo(pid, _PROC_PIDTBSDINFO, 0, ctypes.byref(info), size) != size:
        return None
    return info.pbi_status != _SZOMB, info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec
