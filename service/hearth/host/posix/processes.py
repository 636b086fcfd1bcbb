"""Other processes on Linux and macOS. On Linux a pidfd makes signalling and waiting safe and prompt."""

import os
import select
import signal
import sys
import time

from hearth.errors import Refused
from hearth.host.start_times import UNKNOWN_START_TIME

assert sys.platform != "win32"

# Used where the kernel cannot wake us. Short for a person who waits, long compared with the cost of one check.
_POLL_SECONDS = 0.02
# poll(2) takes an int of milliseconds.
_LONGEST_POLL_SECONDS = 2_000_000.0

if sys.platform == "darwin":
    from hearth.host.macos.processes import look
else:

    def look(pid: int) -> tuple[bool, int] | None:
        """Return whether the process runs, and its start time in clock ticks since boot; None if there is none."""
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
    """Send the signal to that process and no other; return False if it is gone. Raises Refused for another user's."""
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
