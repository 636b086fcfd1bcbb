"""Connections of the degraded daemon on Windows: pipes, which only the Proactor can wait for. Standard library only."""

import asyncio
import sys
from typing import cast

from hearth.daemon.degraded.core import Degraded, Guest, Leaving, is_welcome
from hearth.errors import WireError
from hearth.host import connections, signals

assert sys.platform == "win32", "imported on Windows only"

# Interval of the check whether to exit: only a process that waits for the exit of this one is in a hurry.
LOOK_SECONDS = 0.1


def serve(host: Degraded) -> None:
    """Answer clients with the reason until the daemon is over."""
    asyncio.run(_serve(host))


async def _serve(host: Degraded) -> None:
    for number in signals.END:
        signals.watch(number, host.leave)
    lines: set[Line] = set()
    host.listener.poll(lambda: _welcome(host, lines))
    while not host.is_over():
        await asyncio.sleep(LOOK_SECONDS)
    for line in list(lines):
        line.close()
    # The connections close in the next iteration of the loop.
    await asyncio.sleep(0)


def _welcome(host: Degraded, lines: "set[Line]") -> None:
    try:
        host.consulted()
    except Leaving:
        return
    while connection := host.listener.accept():
        if is_welcome(connection):
            # The task is done in the next iteration of the loop, which holds a reference until then.
            asyncio.get_running_loop().create_task(connections.attach(connection, Line(host, lines)))
        else:
            connection.close()


class Line(asyncio.Protocol):
    """Connection of one client over a pipe."""

    def __init__(self, host: Degraded, lines: "set[Line]") -> None:
        self._host = host
        self._lines = lines
        self._guest = Guest(self)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._lines.add(self)
        self._host.guests.add(self._guest)

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
            stays = self._guest.receive(self._host, data)
        except (Leaving, OSError, WireError, ValueError):
            stays = False
        if not stays:
            self.close()

    def close(self) -> None:
        """Close after everything is written."""
        if self._transport:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._lines.discard(self)
        self._host.guests.discard(self._guest)
