"""Waiting for a descriptor, for the rare times that reading or writing it does not wait by itself."""

import sys

if sys.platform != "win32":
    from select import POLLIN, POLLOUT, poll

    def is_ready(descriptor: int, for_output: bool, seconds: float | None = None) -> bool:
        """Wait until something can be read (or written), without a limit when `seconds` is None."""
        waiter = poll()
        waiter.register(descriptor, POLLOUT if for_output else POLLIN)
        return bool(waiter.poll(None if seconds is None else seconds * 1000))

else:

    def is_ready(descriptor: int, for_output: bool, seconds: float | None = None) -> bool:
        """Pipes cannot be waited for there; they block by themselves."""
        return True
