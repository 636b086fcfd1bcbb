"""HTTP/1.1, bytes to responses."""

import random

import pytest

from hearth.bridge.remote.http1 import HEAD_LIMIT_BYTES, ResponseParser, request
from hearth.errors import WireError

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: Text/Event-Stream; charset=x\r\n\r\n"


def fed(*pieces: bytes) -> tuple[ResponseParser, bytes]:
    parser = ResponseParser()
    return parser, b"".join(part for piece in pieces for part in parser.receive_data(piece))


def test_a_request_says_its_length_and_what_it_was_given() -> None:
    written = request("POST", "/mcp?x", [("Host", "h"), ("Last-Event-ID", "\xe4")], b"{}")
    assert written == b"POST /mcp?x HTTP/1.1\r\nHost: h\r\nLast-Event-ID: \xe4\r\nContent-Length: 2\r\n\r\n{}"
    assert request("GET", "/", [], b"") == b"GET / HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize("value", ["a\r\nB: c", "a\nb", "a\0b", "\u20ac"])
def test_a_value_that_no_header_can_carry_is_refused(value: str) -> None:
    with pytest.raises(ValueError):
        request("GET", "/", [("A", value)], b"")


def test_a_body_of_a_known_length_ends_there() -> None:
    parser, body = fed(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nX: a\r\nx: b\r\n\r\nhel", b"lo")
    assert parser.head is not None
    assert (parser.head.status, parser.head.reason, parser.head.headers["x"]) == (404, "Not Found", "a, b")
    assert (body, parser.done, parser.may_keep) == (b"hello", True, True)


def test_a_chunked_body_ends_with_the_empty_chunk() -> None:
    parser, body = fed(CHUNKED, b"5;a=b\r\nhello\r\nA\r\n0123456789\r\n", b"0\r\nTrailer: x\r\n\r\n")
    assert parser.head is not None and parser.head.content_type == "text/event-stream"
    assert (body, parser.done, parser.may_keep) == (b"hello0123456789", True, True)


def test_any_borders_of_what_comes_give_the_same() -> None:
    chance = random.Random(7)
    data = b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"
    for _ in range(200):
        cuts = sorted(chance.sample(range(len(data)), chance.randrange(1, 12)))
        parser, body = fed(*(data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)))
        assert (body, parser.done) == (b"abcd", True)


def test_without_a_length_the_end_of_the_connection_is_the_end_of_the_body() -> None:
    parser, body = fed(b"HTTP/1.0 200 OK\r\n\r\nhello")
    assert (body, parser.done) == (b"hello", False)
    assert parser.receive_eof()
    assert not parser.may_keep


@pytest.mark.parametrize(
    "data",
    [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", CHUNKED + b"5\r\nhel", CHUNKED],
)
def test_an_end_in_the_middle_is_noticed(data: bytes) -> None:
    parser, _ = fed(data)
    assert not parser.receive_eof()


@pytest.mark.parametrize("status", [204, 304])
def test_some_answers_have_no_body(status: int) -> None:
    parser, _ = fed(b"HTTP/1.1 %d X\r\n\r\n" % status)
    assert parser.done


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close", False),
        (b"HTTP/1.0 200 OK", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive", True),
        (b"HTTP/1.1 200", True),
    ],
)
def test_whether_a_connection_goes_on_is_said_in_the_head(head: bytes, keeps: bool) -> None:
    parser, _ = fed(head + b"\r\nContent-Length: 0\r\n\r\n")
    assert (parser.done, parser.may_keep) == (True, keeps)


def test_what_follows_an_answer_was_not_asked_for() -> None:
    parser, body = fed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK")
    assert (body, parser.done, parser.may_keep) == (b"a", True, False)


@pytest.mark.parametrize(
    "data",
    [
        b"220 mail.example\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"\0" * (HEAD_LIMIT_BYTES + 1),
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * HEAD_LIMIT_BYTES,
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        CHUNKED + b"x\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"\r\n",
        CHUNKED + b"1\r\nab\r\n",
        CHUNKED + b"1" * 2000,
        CHUNKED + b"11111111111111111\r\n",
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        fed(data)


def test_lines_may_end_without_a_carriage_return() -> None:
    parser, body = fed(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi")
    assert (body, parser.done) == (b"hi", True)
