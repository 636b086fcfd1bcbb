"""The way to a client: what uvicorn writes to, and how a connection ends although its client is still sending."""

import asyncio
from collections.abc import Callable
from typing import Any

# For who is told something while it sends: closing at once would destroy what it has not read yet (RFC 9112, 9.6).
# Whoever reads only when everything is sent needs as long as that takes, on this machine mostly.
LINGER_SECONDS = 2.0
# Beyond the largest message: who is a little over the limit is to learn of it.
LINGER_BYTES = 16 * 1024 * 1024


class Outgoing(asyncio.Transport):
    """The transport as uvicorn writes to it. What belongs together is held back until all of it is there.

    uvicorn writes the head of a response and its body one after the other; each would be a system call here, and a
    wakening of the client. `may_hear` says how many bytes of a client that is still sending may be passed over at the
    end; 0 for one that is not.
    """

    def __init__(self, transport: asyncio.Transport, may_hear: Callable[[], int] = lambda: 0) -> None:
        super().__init__()
        self._transport = transport
        self._may_hear = may_hear
        self._held: list[bytes] | None = None
        # Everything is said, and the client is heard out; and how much more of it.
        self._lingering: asyncio.TimerHandle | None = None
        self._bytes_left = 0

    def hold(self) -> None:
        """Write nothing before `release`."""
        self._held = []

    def release(self) -> None:
        """Write what was held back, at once."""
        held, self._held = self._held, None
        if held:
            self._transport.write(b"".join(held))

    def write(self, data: Any) -> None:
        if self._lingering:
            return
        if self._held is None:
            self._transport.write(data)
        else:
            self._held.append(data)

    def close(self) -> None:
        """Everything is said: at the latest when the client is done, too, or its time is over."""
        if self._lingering:
            return
        self.release()
        self._bytes_left = self._may_hear()
        if self._bytes_left and not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
            self._lingering = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
        else:
            self._transport.close()

    @property
    def is_lingering(self) -> bool:
        """Whether what still comes is to be passed over."""
        return self._lingering is not None

    def pass_over(self, size: int) -> None:
        """So much has come from a client that is heard out."""
        self._bytes_left -= size
        if self._bytes_left < 0:
            self.finish()

    def finish(self) -> None:
        """Hear nobody out."""
        if self._lingering:
            self._lingering.cancel()
        self.release()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self.is_lingering or self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()
