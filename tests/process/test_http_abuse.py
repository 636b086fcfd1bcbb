"""HTTP that is malformed, endless or never comes to its point, on the socket and at a port: each ends by itself, within
its limit, and nobody else is kept waiting."""

import contextlib
import gzip
import json
import socket
from collections.abc import Callable

import pytest

from support.daemon import Scratch
from support.http.raw import CHUNKED, ENDLESS_BYTES, GET, HEAD, LAST, PING, TOKEN, Door, named, posted, status
from support.kernel import BOUND_SECONDS

# --- what never comes to its end


@pytest.mark.parametrize(
    "begun",
    [
        b"G",
        b"GET /healthz HTTP/1.1\r\nHost",
        b"GET /heal",
        b"GET /healthz\r\n",
        HEAD,
        HEAD + b"Content-Length: 5\r\n\r\n",
        HEAD + b"Content-Length: 5\r\n\r\n{",
        CHUNKED + b"5\r\nabc",
        CHUNKED + b"5",
        CHUNKED + b"2\r\n{}\r\n0\r\nX: y\r\n",
        posted(b"", b"Expect: 100-continue\r\n").replace(b"Length: 0", b"Length: 9"),
    ],
    ids=[
        "letter",
        "header",
        "address",
        "HTTP 0.9",
        "headers",
        "no body",
        "body",
        "chunk",
        "size",
        "trailer",
        "continue",
    ],
)
def test_a_request_that_does_not_come_to_its_end_is_late(door: Door, begun: bytes) -> None:
    said = door.talk(begun, door.meanwhile)
    assert status(said.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")) == 408
    assert b"http_request_timeout" in said and door.serves()


def drip(data: bytes) -> Callable[[socket.socket], None]:
    def send(sock: socket.socket) -> None:
        """A byte every now and then, until nobody takes it."""
        sock.settimeout(0.05)
        for byte in range(len(data)):
            sock.sendall(data[byte : byte + 1])
            with contextlib.suppress(TimeoutError):
                if not sock.recv(1, socket.MSG_PEEK):
                    break
                # An answer has come.
                break
        else:
            raise AssertionError("it was listened to for ever")
        sock.settimeout(BOUND_SECONDS)

    return send


@pytest.mark.parametrize("part", ["header", "body", "chunks"])
def test_one_that_sends_a_byte_now_and_then_is_late_too(door: Door, part: str) -> None:
    begun, rest = {
        "header": (GET, b"X: " + b"y" * 500),
        "body": (HEAD + b"Content-Length: 1000\r\n\r\n", b" " * 500),
        "chunks": (CHUNKED, b"1\r\n \r\n" * 100),
    }[part]
    assert status(door.talk(begun + rest[:1], door.meanwhile, drip(rest[1:]))) == 408
    assert door.serves()


def test_who_shows_no_token_and_says_nothing_is_late(hurried: Scratch) -> None:
    door = Door(hurried, "port")
    assert status(door.talk()) == 408
    assert status(door.talk(b"\r\n\r\n")) == 408


def one_answer(sock: socket.socket) -> None:
    assert sock.recv(65536).endswith(b'{"status":"ok"}')


def test_an_empty_line_does_not_stop_the_clock(door: Door) -> None:
    # Between two requests there is more time, but nobody is about to send one.
    assert status(door.talk(GET + b"\r\n", one_answer, b"\r\n")) == 408
    assert door.serves()


def test_a_body_that_nobody_wants_ends(door: Door) -> None:
    said = door.talk(GET + b"Content-Length: 99999999\r\n\r\n" + b"x" * 300_000)
    # The answer, and no second one behind it.
    assert said.count(b"content-length:") == 1 and status(said) == 200


def endless(data: bytes) -> Callable[[socket.socket], None]:
    """Send it over and over. The daemon must not take all of it."""

    def send(sock: socket.socket) -> None:
        block = data * (65536 // len(data))
        for _ in range(ENDLESS_BYTES // len(block)):
            sock.sendall(block)
        raise AssertionError("all of it was taken")

    return send


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        (b"GET", b"T"),
        (b"GET /", b"a"),
        (GET + b"X", b"y"),
        (GET + b"X: ", b"y"),
        (GET, b"X: y\r\n"),
        (CHUNKED + b"2;a=", b"b"),
        (CHUNKED + b"2\r\n{}\r\n0\r\nX: ", b"y"),
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: y\r\n"),
        (CHUNKED, b"10\r\n                \r\n"),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", b" "),
    ],
    ids=["method", "address", "name", "value", "headers", "extension", "trailer", "trailers", "chunks", "body"],
)
def test_what_has_no_end_is_not_taken_for_ever(open_door: Door, begun: bytes, more: bytes) -> None:
    said = open_door.talk(begun, endless(more))
    # Who is still writing may lose the answer with the connection.
    assert not said or status(said) in (400, 413, 414, 431)
    assert open_door.serves()


@pytest.mark.parametrize("begun", [b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", CHUNKED, CHUNKED + b"0\r\nX: "])
def test_what_has_no_end_is_not_taken_from_strangers(patient: Scratch, begun: bytes) -> None:
    door = Door(patient, "port")
    said = door.talk(begun, endless(b"5" if begun == CHUNKED else b"y"), is_known=False)
    assert not said or status(said) in (400, 401, 431)
    assert door.serves()


# --- what is too much


@named(
    {
        "address": (414, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        "headers": (431, HEAD + b"".join(b"X-%d: y\r\n" % n for n in range(100_000)) + b"\r\n"),
        "some headers too many": (431, HEAD + b"".join(b"X-%d: y\r\n" % n for n in range(201)) + b"\r\n"),
        "header": (431, HEAD + b"X: " + b"y" * 100_000 + b"\r\n\r\n"),
        "declared": (413, HEAD + b"Content-Length: 100001\r\n\r\n"),
        "declared, and asked first": (413, HEAD + b"Expect: 100-continue\r\nContent-Length: 100001\r\n\r\n"),
        "chunks": (413, CHUNKED + b"ffff\r\n%b\r\n" % (b" " * 0xFFFF) * 2),
        "nested": (400, posted(b"[" * 90_000)),
        "nested objects": (400, posted(b'{"a":' * 18_000)),
        "small chunks": (400, CHUNKED + b"1\r\n \r\n" * 30_000 + b"0\r\n\r\n"),
    }
)
def test_what_is_too_much_is_told_so(open_door: Door, code: int, data: bytes) -> None:
    said = open_door.talk(data)
    assert status(said) == code
    assert b"100 Continue" not in said and open_door.serves()


PAGE = b"Origin: http://localhost:5173\r\n"
MANY = b"".join(b"X-%d: y\r\n" % number for number in range(300)) + b"\r\n"


def shared_with(said: bytes) -> list[bytes]:
    """The headers by which a browser lets a page read the answer. Every answer varies by origin."""
    head = said.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    assert head.count(b"vary: origin") == 1
    return [line for line in head if line.startswith(b"access-control-allow-origin")]


def test_a_page_that_is_let_in_may_read_what_was_too_much(open_door: Door) -> None:
    first, chunks = HEAD + PAGE, b"ffff\r\n%b\r\n" % (b" " * 0xFFFF) * 2
    for code, data in (
        (413, first + b"Content-Length: 100001\r\n\r\n"),
        (413, first + b"Transfer-Encoding: chunked\r\n\r\n" + chunks),
        (413, first + b"Content-Length: 100001\r\n\r\n" + b" " * 100_001 + GET + b"\r\n"),
        (431, first + MANY),
    ):
        said = open_door.talk(data)
        assert status(said) == code
        assert shared_with(said) == [b"access-control-allow-origin: http://localhost:5173"]
    foreign = PAGE.replace(b"localhost:5173", b"evil.example")
    renamed = HEAD.replace(b"localhost", b"evil.example") + PAGE
    for data in (HEAD + foreign + MANY, renamed + MANY, HEAD + MANY, HEAD + MANY[:-2] + PAGE + b"\r\n"):
        said = open_door.talk(data)
        assert (status(said), shared_with(said)) == (431, [])


def test_a_page_that_is_let_in_may_read_that_it_was_late(door: Door) -> None:
    said = door.talk(HEAD + PAGE + b"Content-Length: 10\r\n\r\n")
    assert (status(said), len(shared_with(said))) == (408, 1)

    # Of what follows, nothing is known.
    said = door.talk(GET + PAGE + b"\r\n", one_answer, b"\r\n")
    assert (status(said), shared_with(said)) == (408, [])


# --- what is no request


@named(
    {
        "size of a chunk": (400, CHUNKED + b"zz\r\n"),
        "negative chunk": (400, CHUNKED + b"-1\r\n \r\n0\r\n\r\n"),
        "huge chunk": (400, CHUNKED + b"f" * 20 + b"\r\n"),
        "end of a chunk": (400, CHUNKED + b"2\r\n{}x0\r\n\r\n"),
        "line ends of chunks": (400, CHUNKED + b"2\n{}\n0\n\n"),
        "two lengths": (400, HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}"),
        "negative length": (400, HEAD + b"Content-Length: -2\r\n\r\n{}"),
        "signed length": (400, HEAD + b"Content-Length: +2\r\n\r\n{}"),
        "huge length": (400, HEAD + b"Content-Length: " + b"9" * 400 + b"\r\n\r\n{}"),
        "unknown coding": (400, HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        "coding behind chunks": (400, HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
        "space before a colon": (400, HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        "header": (400, GET + b"Bad Header\r\n\r\n"),
        "NUL in a name": (400, GET + b"X\0: y\r\n\r\n"),
        "NUL in a value": (400, GET + b"X: a\0b\r\n\r\n"),
        "CR in a value": (400, GET + b"X: a\rb\r\n\r\n"),
        "folded header": (400, GET + b"X: a\r\n b\r\n\r\n"),
        "line ends": (400, (GET + LAST).replace(b"\r\n", b"\n") + b"\n"),
        "no Host": (400, (GET + LAST).replace(b"Host: localhost\r\n", b"") + b"\r\n"),
        "two Hosts": (400, GET + LAST + b"Host: example.com\r\n\r\n"),
        "bytes in an address": (400, GET.replace(b"/healthz", b"/\xff\xfe") + b"\r\n"),
        "broken address": (400, GET.replace(b"/healthz", b"http://[::1/") + b"\r\n"),
        "proxy": (400, b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        "HTTP 2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        "HTTP 9": (400, b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n"),
        "nonsense": (400, b"NONSENSE\r\n\r\n"),
        "type": (415, posted(PING, head=HEAD.replace(b"application/json", b"text/plain"))),
        "charset": (415, posted(PING, head=HEAD.replace(b"/json", b"/json; charset=utf-16"))),
        "compressed": (415, posted(gzip.compress(PING), b"Content-Encoding: gzip\r\n")),
        "compressed bomb": (415, posted(gzip.compress(b" " * 10_000_000), b"Content-Encoding: gzip\r\n")),
        "UTF-8": (400, posted(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}')),
        "half a character": (400, posted(b'{"jsonrpc":"2.0","id":1,"method":"p","params":{"a":"\xc3"}}')),
        "JSON": (400, posted(b"{")),
        "empty": (400, posted(b"")),
    }
)
def test_what_is_no_request_is_refused_at_once(open_door: Door, code: int, data: bytes) -> None:
    said = open_door.talk(data)
    assert status(said) == code
    # The body is a small JSON object that says what is wrong.
    told = json.loads(said.partition(b"\r\n\r\n")[2])["error"]
    assert (told if isinstance(told, str) else told["message"]) and open_door.serves()


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"],
)
def test_no_request_is_smuggled_in_the_body_of_another(open_door: Door, framing: bytes) -> None:
    hidden = b"GET /status HTTP/1.1\r\nHost: localhost\r\n" + TOKEN + b"\r\n"
    said = open_door.talk(HEAD + framing + b"\r\n0\r\n\r\n" + hidden)
    assert (said.count(b"content-length:"), status(said)) == (1, 400)


def test_what_follows_a_body_is_no_header(open_door: Door) -> None:
    body = b"%x\r\n%b\r\n0\r\nMcp-Session-Id: x\r\nOrigin: https://evil.example\r\n\r\n" % (len(PING), PING)
    said = open_door.talk(CHUNKED + body)
    assert status(said) == 400 and b"header Mcp-Session-Id is missing" in said
    # Nor can the token be shown there.
    if b"Authorization" in open_door.signed(TOKEN):
        said = open_door.talk(CHUNKED.replace(TOKEN, b"") + b"2\r\n{}\r\n0\r\n" + TOKEN + b"\r\n")
        assert status(said) == 401
