"""A request ends where a piece does, however it came, and whatever is in it."""

import random

import httptools
import pytest

from hearth.daemon.http.uvicorn_protocol import Pieces

PARTS = [
    *(b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\n", b"GET /x\r\n", b"GET / HTTP/1.1\r\n\r\n"),
    *(b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"X:\r\n", b"X: y\r\n", b"hello", b"Connection: close\r\n"),
    *(b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"0\r\n", b"0\r\n\r\n", b"2\r\n", b"ab\r\n", b"4\r\n\r\n\r\n\r\n", b"0;a=b\r\n"),
    b"POST / HTTP/1.1\r\nContent-Length: 6\r\n\r\n\r\n\r\nab",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\nT: u\r\n\r\n",
]


class Reader:
    """A parser, and how many requests it has begun and ended."""

    def __init__(self) -> None:
        self.pieces = Pieces()
        self.begun = self.ended = 0
        self.is_wrong = False
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.is_wrong = True

    def on_message_begin(self) -> None:
        self.begun += 1
        self._length = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if name == b"Content-Length":
            self._length = int(value)

    def on_headers_complete(self) -> None:
        self.pieces.body_left = self._length

    def on_message_complete(self) -> None:
        self.ended += 1


def read_in_pieces(reader: Reader, data: bytes) -> None:
    start = 0
    while start < len(data) and not reader.is_wrong:
        end = reader.pieces.end(data, start)
        assert end > start
        ended = reader.ended
        reader.feed(data[start:end])
        if reader.ended > ended:
            # Nothing of the next has been read.
            assert reader.ended == ended + 1 == reader.begun
        start = end


@pytest.mark.parametrize("seed", range(20))
def test_no_piece_goes_beyond_the_end_of_a_request(seed: int) -> None:
    chance = random.Random(seed)
    ended = 0
    for _ in range(300):
        data = b"".join(chance.choices(PARTS, k=chance.randint(1, 14)))
        whole, reader = Reader(), Reader()
        whole.feed(data)
        start = 0
        while start < len(data) and not reader.is_wrong:
            size = chance.choice((1, 2, 3, 5, 40, 1000))
            read_in_pieces(reader, data[start : start + size])
            start += size
        assert (reader.ended, reader.is_wrong) == (whole.ended, whole.is_wrong)
        ended += reader.ended
    assert ended > 20


def test_empty_lines_are_one_piece() -> None:
    assert Pieces().end(b"\r\n" * 1000 + b"GET", 0) == 2000
