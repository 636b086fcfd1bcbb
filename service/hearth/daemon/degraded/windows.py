"""Windows shell of the degraded daemon: pipes, which only asyncio's Proactor can wait for. Standard library only."""

import asyncio
from collections.abc import Callable
from typing import cast

from hearth.daemon.degraded.core import Degraded, DegradedClient, Leaving
from hearth.host import listening, process_setup
from hearth.host.listening import Connection, Listener

# Interval of the check whether to exit: only a process that waits for the exit of this one is in a hurry.
LOOK_SECONDS = 0.1


def serve(daemon: Degraded, listener: Listener, is_welcome: Callable[[Connection], bool]) -> None:
    """Answer clients with the reason until the daemon is over."""
    asyncio.run(_Pipes(daemon, listener, is_welcome).serve())


class _Pipes:
    def __init__(self, daemon: Degraded, listener: Listener, is_welcome: Callable[[Connection], bool]) -> None:
        self.daemon = daemon
        self.open: set[_PipeConnection] = set()
        self._listener = listener
        self._is_welcome = is_welcome

    async def serve(self) -> None:
        for number in process_setup.END_SIGNALS:
            process_setup.watch_signal(number, self.daemon.leave)
        self._listener.poll(self._welcome)
        while not self.daemon.is_over():
            await asyncio.sleep(LOOK_SECONDS)
        for connection in list(self.open):
            connection.close()
        # The connections close in the next iteration of the loop.
        await asyncio.sleep(0)

    def _welcome(self) -> None:
        try:
            self.daemon.consulted()
        except Leaving:
            return
        while connection := self._listener.accept():
            if self._is_welcome(connection):
                # The task is done in the next iteration of the loop, which holds a reference until then.
                asyncio.get_running_loop().create_task(listening.attach(connection, _PipeConnection(self)))
            else:
                connection.close()


class _PipeConnection(asyncio.Protocol):
    """Connection of one client over a pipe."""

    def __init__(self, pipes: _Pipes) -> None:
        self._pipes = pipes
        self._client = DegradedClient(self)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._pipes.open.add(self)
        self._pipes.daemon.clients.add(self._client)

    def sendall(self, data: bytes) -> None:
        """Write everything without waiting for a client that does not read."""
        if self._transport:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Answer the data."""
        self._receive(data)

    def eof_received(self) -> None:
        """Answer the last line, which may have no newline."""
        self._receive(b"")

    def _receive(self, data: bytes) -> None:
        try:
            stays = self._client.receive(self._pipes.daemon, data)
        except (Leaving, OSError, ValueError):
            stays = False
        if not stays:
            self.close()

    def close(self) -> None:
        """Close after everything is written."""
        if self._transport:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._pipes.open.discard(self)
        self._pipes.daemon.clients.discard(self._client)
