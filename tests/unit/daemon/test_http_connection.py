"""What uvicorn writes is handed on in one piece where it belongs together, and of what is lost nothing is left."""

import asyncio
import gc
import weakref
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hearth.config import Config
from hearth.daemon.http.connection import HttpConnection
from hearth.daemon.http.uvicorn_protocol import Outgoing, load_settings
from hearth.host.peers import Peer


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed_after: int | None = None

    def is_closing(self) -> bool:
        return self.closed_after is not None

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.written.append(data)

    def close(self) -> None:
        self.closed_after = len(self.written)


def test_what_is_held_back_goes_out_in_one_write() -> None:
    transport = Transport()
    outgoing = Outgoing(transport)
    outgoing.hold()
    outgoing.write(b"head")
    outgoing.write(b"body")
    assert transport.written == []
    outgoing.release()
    outgoing.write(b"more")
    assert transport.written == [b"headbody", b"more"]


def test_a_connection_that_is_closed_meanwhile_has_everything_first() -> None:
    transport = Transport()
    outgoing = Outgoing(transport)
    outgoing.hold()
    outgoing.write(b"last")
    outgoing.close()
    assert (transport.written, transport.closed_after) == ([b"last"], 1)


def test_nothing_is_written_where_nothing_was_held_back() -> None:
    transport = Transport()
    outgoing = Outgoing(transport)
    outgoing.release()
    outgoing.hold()
    outgoing.release()
    assert transport.written == []


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


@pytest.mark.parametrize("exc", [None, ConnectionResetError()])
async def test_nothing_is_left_of_a_connection_that_has_answered_and_was_lost(exc: Exception | None) -> None:
    front = SimpleNamespace(lost=lambda connection: None, services=SimpleNamespace(config=Config()))

    async def connected() -> "weakref.ref[HttpConnection]":
        connection = HttpConnection(cast(Any, front), load_settings(_answer), Peer(None, 0, 0))
        transport = Transport()
        connection.connection_made(transport)
        connection.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not transport.written:
            await asyncio.sleep(0)
        connection.connection_lost(exc)
        return weakref.ref(connection)

    left = await connected()
    # The task that has answered is let go by the loop.
    await asyncio.sleep(0)
    gc.collect()
    assert left() is None
