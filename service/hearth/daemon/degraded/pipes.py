"""The degraded daemon's connections on Windows: pipes, which only the Proactor can wait for. Standard library only."""

import asyncio
import sys
from typing import cast

from hearth.daemon.degraded.core import Degraded, Guest, Leaving, is_welcome
from hearth.errors import WireError
from hearth.host import connections, signals

assert sys.platform == "win32", "imported on Windows only"

# Nothing that is waited for is in a hurry, but whoever waits for the end of this process.
LOOK_SECONDS = 0.1


def serve(host: Degraded) -> None:
    """Explain until it is time to go."""
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
    # Their ends are turns of the loop.
    await asyncio.sleep(0)


def _welcome(host: Degraded, lines: "set[Line]") -> None:
    try:
        host.consulted()
    except Leaving:
        return
    while connection := host.listener.accept():
        if is_welcome(connection):
            # Done in the next turn of the loop, which holds it until then.
            asyncio.get_running_loop().create_task(connections.attach(connection, Line(host, lines)))
        else:
            connection.close()


class Line(asyncio.Protocol):
    """One connection."""

    def __init__(self, host: Degraded, lines: "set[Line]") -> None:
        self._host = host
        self._lines = lines
        self._guest = Guest(self)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)
        self._lines.add(self)
        self._host.guests.add(self._guest)

    def sendall(self, data: bytes) -> None:
        """Write everything; who does not read is not waited for."""
        if self._transport:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Answer."""
        self._receive(data)

    def eof_received(self) -> None:
        """Answer what has no line's end."""
        self._receive(b"")

    def _receive(self, data: bytes) -> None:
        try:
            stays = self._guest.receive(self._host, data)
        except (Leaving, OSError, WireError, ValueError):
            stays = False
        if not stays:
            self.close()

    def close(self) -> None:
        """Close after what was said."""
        if self._transport:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._lines.discard(self)
        self._host.guests.discard(self._guest)
