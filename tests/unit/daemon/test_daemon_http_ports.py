"""TCP sockets that lead to HTTP, when one of them comes to nothing."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any, cast

import pytest

from hearth.daemon.acceptor import ACCEPT_PAUSE_SECONDS, Acceptor, Ports
from hearth.daemon.daemon import Daemon
from hearth.host import sockets

BOUND_SECONDS = 20.0


class Desk:
    """As much of an acceptor as is asked for here."""

    def __init__(self) -> None:
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.came: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
        self.is_draining = False

    def expect(self, connection: socket.socket) -> None:
        self.came.set_result(connection)

    def when_http_is_there(self, then: Callable[[None], None]) -> None:
        """It never is."""

    def http_failed(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)


class Troubled(socket.socket):
    """A listening socket whose next accepts end in these errors."""

    def __init__(self, *errors: int) -> None:
        super().__init__(socket.AF_INET)
        self.errors = list(errors)
        self.tried = asyncio.Event()
        self.bind(("127.0.0.1", 0))
        self.listen()

    def accept(self) -> tuple[socket.socket, Any]:
        self.tried.set()
        if self.errors:
            raise OSError(self.errors.pop(0), "as the network has it")
        return super().accept()


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


async def test_what_the_network_says_of_one_connection_does_not_end_the_port(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    errors = (errno.EPROTO, errno.ENETDOWN, errno.EHOSTUNREACH, errno.EPERM, errno.EMFILE)
    with Troubled(*errors) as sock, socket.socket() as client:
        served = Ports(cast(Acceptor, desk), [sock])
        served.poll()
        client.connect(sock.getsockname())
        try:
            (await asyncio.wait_for(desk.came, BOUND_SECONDS)).close()
        finally:
            served.rest()
    assert not desk.failed.done()
    [line] = told(caplog)
    assert "no connection can be accepted for now" in line


async def test_a_port_that_paused_is_not_polled_again_once_the_daemon_goes_out() -> None:
    desk = Desk()
    with Troubled(errno.EMFILE, errno.EMFILE) as sock, socket.socket() as client:
        served = Ports(cast(Acceptor, desk), [sock])
        served.poll()
        client.connect(sock.getsockname())
        await asyncio.wait_for(sock.tried.wait(), BOUND_SECONDS)
        desk.is_draining = True
        # Timers run in their order; then a turn for what would be ready.
        await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
        await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
        served.rest()
    assert sock.errors == [errno.EMFILE]


async def test_nor_is_the_socket() -> None:
    class Starved:
        polled = 0

        def poll(self, ready: object) -> None:
            self.polled += 1

        def rest(self) -> None:
            pass

        def accept(self) -> None:
            raise OSError(errno.EMFILE, "too many")

    listener = Starved()
    acceptor = Acceptor(cast(Daemon, None), cast(Any, listener))
    acceptor.open()
    assert not acceptor.look_once()
    acceptor.drain(False, "it is time")
    await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
    await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
    assert listener.polled == 1


async def test_a_port_that_ends_by_itself_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    with sockets.bind_port("127.0.0.1", 0, allow_remote=False) as sock:
        served = Ports(cast(Acceptor, desk), [sock])
        served.poll()
        # As `ss --kill` does it.
        sock.shutdown(socket.SHUT_RDWR)
        try:
            reason = await asyncio.wait_for(desk.failed, BOUND_SECONDS)
            # It is over, and not tried again.
            await asyncio.sleep(2 * ACCEPT_PAUSE_SECONDS)
        finally:
            served.rest()
    assert reason.startswith("HTTP on http://127.0.0.1:")
    assert "has ended: " in reason
    assert told(caplog) == [reason]
