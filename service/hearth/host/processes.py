"""Other processes: whether one lives, and how to signal or await it without hitting a stranger with the same pid.

A process is a pid and its start time, since the kernel gives a pid to somebody else after its owner has died. The
start time is an integer in the platform's own unit (Linux: clock ticks since boot; macOS: microseconds; Windows:
100 ns), good only for comparing. UNKNOWN_START_TIME stands for "this platform does not tell"; then the pid alone must do.
"""

import os
import select
import sys
import time

from hearth.errors import Refused

UNKNOWN_START_TIME = 0
# Where the kernel cannot wake us. Short against a person's patience, long against the cost of one look.
_POLL_SECONDS = 0.02

if sys.platform == "win32":
    from hearth.host.processes_windows import is_alive, send_signal, start_time, wait_gone
else:
    if sys.platform == "darwin":
        from hearth.host.processes_mac import look
    else:

        def look(pid: int) -> tuple[bool, int] | None:
            """(is running, start time) of a process; None if there is none."""
            try:
                with open(f"/proc/{pid}/stat", "rb") as file:
                    text = file.read()
            except (FileNotFoundError, ProcessLookupError):
                return None if os.path.exists("/proc/self/stat") else _look_by_signal(pid)
            # The name stands in brackets and may itself hold brackets and spaces: count from the last one.
            # proc(5): state is field 3, starttime field 22.
            fields = text[text.rindex(b")") + 2 :].split()
            return fields[0] not in (b"Z", b"X"), int(fields[19])

    def _look_by_signal(pid: int) -> tuple[bool, int] | None:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass
        return True, UNKNOWN_START_TIME

    def start_time(pid: int) -> int | None:
        """When the process started; None if there is none, UNKNOWN_START_TIME if the platform does not tell."""
        found = look(pid) if pid > 0 else None
        return found[1] if found else None

    def is_alive(pid: int, start_time: int) -> bool:
        """Whether that process still runs. A zombie does not; a stranger with its pid is not it."""
        found = look(pid) if pid > 0 else None
        if found is None or not found[0]:
            return False
        return UNKNOWN_START_TIME in (start_time, found[1]) or found[1] == start_time

    def send_signal(pid: int, start_time: int, number: int) -> bool:
        """Send the signal to that process only; False if it is gone. Raises Refused if it is another user's."""
        handle = _open_handle(pid)
        try:
            # Looked at after the handle was opened: from here on the handle cannot come to mean a stranger.
            if not is_alive(pid, start_time):
                return False
            _deliver(handle, pid, number)
        except ProcessLookupError:
            return False
        except PermissionError as exc:
            raise Refused(f"process {pid} belongs to another user and cannot be signalled") from exc
        finally:
            if handle is not None:
                os.close(handle)
        return True

    def wait_gone(pid: int, start_time: int, timeout: float) -> bool:
        """Wait up to `timeout` seconds for that process to end; whether it did."""
        handle = _open_handle(pid)
        if handle is None:
            return _poll_gone(pid, start_time, timeout)
        try:
            if not is_alive(pid, start_time):
                return True
            waiter = select.poll()
            waiter.register(handle, select.POLLIN)
            return bool(waiter.poll(max(0.0, timeout) * 1000))
        finally:
            os.close(handle)

    def _open_handle(pid: int) -> int | None:
        if sys.platform == "linux" and hasattr(os, "pidfd_open") and pid > 0:
            try:
                return os.pidfd_open(pid)
            except OSError:
                # Gone, or a kernel before 5.3, or a sandbox that forbids it: the callers look themselves.
                return None
        return None

    def _deliver(handle: int | None, pid: int, number: int) -> None:
        if sys.platform == "linux" and handle is not None:
            import signal

            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(pid, number)

    def _poll_gone(pid: int, start_time: int, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while is_alive(pid, start_time):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


__all__ = ["UNKNOWN_START_TIME", "is_alive", "send_signal", "start_time", "wait_gone"]
