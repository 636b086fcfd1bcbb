"""Programs to start, and other processes: whether one is alive, signals and waits that never hit a wrong process.

A process is a pid *and* its start time: the kernel reuses a pid once its process is dead. The start time is an integer
in the platform's own unit, good for comparing and nothing else. UNKNOWN_START_TIME means that the platform does not
report one; processes are then compared by pid alone. On Linux a pidfd makes signalling and waiting safe and prompt.
"""

import os
import select
import signal
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hearth.errors import Refused
from hearth.host.system import UNKNOWN_START_TIME

# Used where the kernel cannot wake us. Short for a person who waits, long compared with the cost of one check.
_POLL_SECONDS = 0.02
# poll(2) takes an int of milliseconds.
_LONGEST_POLL_SECONDS = 2_000_000.0
# macOS, struct proc_bsdinfo of <sys/proc_info.h>: the second number is pbi_status, the last two are pbi_start_tvsec and
# pbi_start_tvusec.
_BSD_INFO = struct.Struct("=12I16s32s5Ii2Q")
_PROC_PIDTBSDINFO, _SZOMB = 3, 5
_LIBPROC = "/usr/lib/libproc.dylib"


class Program(NamedTuple):
    """Program to start: its words, its environment and its folder."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    cwd: str


if sys.platform == "win32":
    from hearth.host.windows.processes import is_alive, send_signal, start_time, wait_gone

else:

    def look(pid: int) -> tuple[bool, int] | None:
        """Return whether the process runs, and its start time in clock ticks since boot; None if there is none."""
        if sys.platform == "darwin":
            return look_by_libproc(pid)
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                text = file.read()
        except OSError:
            # The process is gone or (hidepid) hidden; or there is no /proc at all.
            return None if os.path.exists("/proc/self/stat") else look_by_signal(pid)
        # The name is in brackets and may contain brackets and spaces itself: count from the last one.
        # proc(5): state is field 3, starttime field 22.
        fields = text[text.rindex(b")") + 2 :].split()
        return fields[0] not in (b"Z", b"X"), int(fields[19])

    def look_by_libproc(pid: int) -> tuple[bool, int] | None:
        """Return the same as `look` on macOS, in microseconds, from the source of `ps`, without starting a `ps`."""
        import ctypes

        library = ctypes.CDLL(_LIBPROC)
        library.proc_pidinfo.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int)
        library.proc_pidinfo.restype = ctypes.c_int
        info = ctypes.create_string_buffer(_BSD_INFO.size)
        # The answer is 0 for zombies and for other users' processes: neither is a daemon of this user.
        if library.proc_pidinfo(pid, _PROC_PIDTBSDINFO, 0, info, _BSD_INFO.size) != _BSD_INFO.size:
            return None
        _, status, *_, seconds, microseconds = _BSD_INFO.unpack(info.raw)
        return status != _SZOMB, seconds * 1_000_000 + microseconds

    def look_by_signal(pid: int) -> tuple[bool, int] | None:
        """Return the same as `look` from the pid alone, without a start time."""
        try:
            os.kill(pid, 0)
        except PermissionError:
            pass
        except (ProcessLookupError, OverflowError):
            return None
        return True, UNKNOWN_START_TIME

    def start_time(pid: int) -> int | None:
        """Return when the process started; None if there is none."""
        found = look(pid) if pid > 0 else None
        return found[1] if found else None

    def is_alive(pid: int, start_time: int) -> bool:
        """Tell whether that process still runs. A zombie does not; another process with the same pid does not count."""
        found = look(pid) if pid > 0 else None
        if found is None or not found[0]:
            return False
        return found[1] == start_time or UNKNOWN_START_TIME in (start_time, found[1])

    def send_signal(pid: int, start_time: int, number: int) -> bool:
        """Send the signal to that process only; return False if it is gone. Raises Refused for another user's."""
        handle = _open_handle(pid)
        try:
            # Check only now: once open, the handle cannot come to mean another process.
            if not is_alive(pid, start_time):
                return False
            if sys.platform == "linux" and handle is not None:
                signal.pidfd_send_signal(handle, number)
            else:
                os.kill(pid, number)
        except ProcessLookupError:
            return False
        except PermissionError as exc:
            raise Refused(f"process {pid} belongs to another user and cannot be signalled") from exc
        finally:
            if handle is not None:
                os.close(handle)
        return True

    def wait_gone(pid: int, start_time: int, timeout: float) -> bool:
        """Wait up to `timeout` seconds for that process to end; return whether it did."""
        handle = _open_handle(pid)
        if handle is None:
            return _poll_gone(pid, start_time, timeout)
        try:
            if not is_alive(pid, start_time):
                return True
            waiter = select.poll()
            waiter.register(handle, select.POLLIN)
            return bool(waiter.poll(min(max(timeout, 0.0), _LONGEST_POLL_SECONDS) * 1000))
        finally:
            os.close(handle)

    def _open_handle(pid: int) -> int | None:
        """Open a pidfd; None without such a process, kernel support (5.3) or permission: the callers check as well."""
        if sys.platform == "linux" and hasattr(os, "pidfd_open") and pid > 0:
            try:
                return os.pidfd_open(pid)
            except (OSError, OverflowError):
                return None
        return None

    def _poll_gone(pid: int, start_time: int, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while is_alive(pid, start_time):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


__all__ = ["UNKNOWN_START_TIME", "Program", "is_alive", "send_signal", "start_time", "wait_gone"]
