"""What uvicorn writes is handed on in one piece where it belongs together, and never lost."""

import asyncio

from hearth.server.http.connection import Outgoing


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed_after: int | None = None

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
