"""Listening socket in asyncio's loop. On Windows the Proactor cannot report readiness, it can only accept."""

import socket
import sys
from collections.abc import Callable

if sys.platform == "win32":
    import asyncio

    class AcceptLoop:
        """Socket with one accept always pending once it was polled; a connection made while it rests is kept."""

        def __init__(self, listener: socket.socket) -> None:
            listener.setblocking(False)
            self.socket = listener
            self._ready: Callable[[], None] | None = None
            self._waiting: asyncio.Task[None] | None = None
            self._came: socket.socket | OSError | None = None

        def poll(self, ready: Callable[[], None]) -> None:
            """Call `ready` in the running loop whenever a connection waits to be accepted."""
            self._ready = ready
            if self._came:
                asyncio.get_running_loop().call_soon(self._tell)
            else:
                self._await_one()

        def rest(self) -> None:
            """Stop polling. The pending accept continues: cancelling it could drop a client that has just connected."""
            self._ready = None

        def accept(self) -> socket.socket | None:
            """Return the next connection, or None. Raises OSError when none can be accepted for now."""
            came, self._came = self._came, None
            if isinstance(came, OSError):
                raise came
            if self._ready:
                self._await_one()
            return came

        def _await_one(self) -> None:
            if self._waiting is None:
                self._waiting = asyncio.get_running_loop().create_task(self._wait())

        async def _wait(self) -> None:
            try:
                self._came, _ = await asyncio.get_running_loop().sock_accept(self.socket)
            except (ConnectionResetError, ConnectionAbortedError):
                # A client connected and has left already.
                pass
            except OSError as exc:
                self._came = exc
            self._waiting = None
            self._tell()

        def _tell(self) -> None:
            if self._ready and self._came:
                self._ready()
            elif self._ready:
                self._await_one()

else:

    class AcceptLoop:
        """Socket that the loop polls as a reader."""

        def __init__(self, listener: socket.socket) -> None:
            listener.setblocking(False)
            self.socket = listener

        def poll(self, ready: Callable[[], None]) -> None:
            """Call `ready` in the running loop whenever a connection waits to be accepted."""
            import asyncio  # not before the orphan reaper is forked, which would keep the memory for nothing

            asyncio.get_running_loop().add_reader(self.socket.fileno(), ready)

        def rest(self) -> None:
            """Stop polling; new connections wait in the kernel's queue."""
            import asyncio

            asyncio.get_running_loop().remove_reader(self.socket.fileno())

        def accept(self) -> socket.socket | None:
            """Return the next connection, or None. Raises OSError when none can be accepted for now."""
            try:
                return self.socket.accept()[0]
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return None
