"""Waiting for a descriptor, for the rare times that reading or writing it does not wait by itself."""

import os
import sys

if sys.platform != "win32":
    from select import POLLIN, POLLOUT, poll

    def is_ready(descriptor: int, for_output: bool, seconds: float | None = None) -> bool:
        """Wait until something can be read (or written), without a limit when `seconds` is None."""
        waiter = poll()
        waiter.register(descriptor, POLLOUT if for_output else POLLIN)
        return bool(waiter.poll(None if seconds is None else seconds * 1000))

    def write_if_ready(descriptor: int, data: bytes) -> None:
        """Write a few bytes, or nothing if that had to wait. Raises OSError."""
        if is_ready(descriptor, for_output=True, seconds=0):
            os.write(descriptor, data)

else:
    from _thread import allocate_lock, start_new_thread

    _writing = allocate_lock()

    def is_ready(descriptor: int, for_output: bool, seconds: float | None = None) -> bool:
        """Pipes cannot be waited for there; they block by themselves."""
        return True

    def write_if_ready(descriptor: int, data: bytes) -> None:
        """Write a few bytes, in a thread that may wait for ever; nothing while another one waits."""
        if _writing.acquire(False):
            start_new_thread(_write, (descriptor, data))

    def _write(descriptor: int, data: bytes) -> None:
        try:
            os.write(descriptor, data)
        except OSError:
            pass
        finally:
            _writing.release()
