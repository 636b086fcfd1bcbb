"""TCP sockets that lead to HTTP, when one of them comes to nothing."""

import asyncio
import socket
from typing import cast

from hearth.host import ports
from hearth.server.ports import Ports
from hearth.server.reception import Reception

BOUND_SECONDS = 20.0


class Desk:
    """As much of a reception as is asked for here."""

    def __init__(self) -> None:
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def http_failed(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)


def test_a_port_that_ends_by_itself_is_told_of() -> None:
    async def body() -> str:
        desk = Desk()
        with ports.bind("127.0.0.1", 0, allow_remote=False) as sock:
            served = Ports(cast(Reception, desk), [sock])
            served.poll()
            # As `ss --kill` does it.
            sock.shutdown(socket.SHUT_RDWR)
            try:
                return await asyncio.wait_for(desk.failed, BOUND_SECONDS)
            finally:
                served.rest()

    reason = asyncio.run(body())
    assert reason.startswith("HTTP on http://127.0.0.1:")
    assert "has ended: " in reason
