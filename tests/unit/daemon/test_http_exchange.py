"""What goes out on a stream: its events, and signs of life while there are none."""

from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from hearth.daemon.http import exchange
from hearth.daemon.http.sink import HttpSink
from hearth.daemon.http.streams import Stream


class Wire:
    """What a client gets, piece by piece; `on_piece` is told of each."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.is_whole = False
        self.on_piece = lambda: None

    async def send_body(self, body: bytes, more: bool) -> None:
        self.pieces.append(body)
        self.is_whole = not more
        self.on_piece()


async def pump(wire: Wire, stream: Stream, reader: object, name: bytes | None) -> None:
    await exchange.pump(cast(Any, wire), stream, reader, name)


async def test_a_quiet_stream_shows_signs_of_life_that_are_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "KEEP_ALIVE_SECONDS", 0.001)
    stream, wire, reader = Stream(1, 1000, True), Wire(), object()
    stream.attach(reader)

    def end_after_some() -> None:
        if len(wire.pieces) == 3:
            stream.add(b"{}")
            stream.end()

    wire.on_piece = end_after_some
    await pump(wire, stream, reader, b"e-1")
    assert wire.pieces == [b":\n\n"] * 3 + [b"event: message\nid: e-1-1\ndata: {}\n\n"]
    assert wire.is_whole


async def test_all_that_waits_goes_out_at_once_and_the_end_with_it() -> None:
    stream, wire, reader = Stream(1, 1000, False), Wire(), object()
    stream.attach(reader)
    stream.add(b"1")
    stream.add(b"2")
    stream.end()
    await pump(wire, stream, reader, None)
    assert wire.pieces == [b"event: message\ndata: 1\n\nevent: message\ndata: 2\n\n"]
    assert wire.is_whole


async def test_nobody_gets_a_sign_of_life_on_a_stream_that_somebody_else_reads_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "KEEP_ALIVE_SECONDS", 0.001)
    stream, wire, reader = Stream(1, 1000, True), Wire(), object()
    stream.attach(reader)
    wire.on_piece = lambda: stream.attach(object())
    await pump(wire, stream, reader, b"e-1")
    assert wire.pieces == [b":\n\n", b""] and wire.is_whole


@pytest.mark.parametrize("is_modern", [True, False])
async def test_a_request_whose_client_leaves_while_its_process_is_looked_up_is_cancelled_only_in_the_modern_era(
    monkeypatch: pytest.MonkeyPatch, is_modern: bool
) -> None:
    request, found, received = MagicMock(), MagicMock(), []
    request.connection.on_lost = []
    found.session.stateless = is_modern
    found.sink = HttpSink(1000, resumable=not is_modern)

    async def leave(*_: object) -> None:
        for each in list(request.connection.on_lost):
            each()

    def receive(tag: int) -> None:
        received.append(tag)
        found.sink.answer(tag, b"{}")

    monkeypatch.setattr(exchange.callers, "note", leave)
    await exchange.Exchange(request, found, []).run(receive)
    assert len(received) == (0 if is_modern else 1)
    assert request.connection.on_lost == []
    assert found.begin.call_count == found.done.call_count == 1
