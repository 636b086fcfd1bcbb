"""HTTP that is malformed, endless or never comes to its point, on the socket and at a port: each ends by itself, within
its limit, and nobody else is kept waiting."""

import contextlib
import gzip
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator

import pytest

from process.daemon import Scratch, server
from process.http_clients import HttpClient, LegacyHttp, ModernHttp, bearer, port_of
from process.kernel import BOUND_SECONDS, until

DOORS = ("socket", "port")
# Where the token stands in a request to a port.
TOKEN = b"@\r\n"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + TOKEN + b"Content-Type: application/json\r\nAccept: */*\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + TOKEN
LAST = b"Connection: close\r\n"
CHUNKED = HEAD + LAST + b"Transfer-Encoding: chunked\r\n\r\n"
# What an endless sender sends at most: far above what any buffer on the way takes.
ENDLESS_BYTES = 64 << 20

Piece = bytes | Callable[[socket.socket], None]


class Door:
    """One way into a daemon."""

    def __init__(self, home: Scratch, name: str) -> None:
        self.home = home
        self._address = port_of(home) if name == "port" else None
        self._token = b"Authorization: %b\r\n" % bearer(home)["Authorization"].encode() if name == "port" else b""

    def connect(self) -> socket.socket:
        if self._address:
            return socket.create_connection(self._address, BOUND_SECONDS)
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(BOUND_SECONDS)
        sock.connect(self.home.socket)
        return sock

    def signed(self, data: bytes, is_known: bool = True) -> bytes:
        return data.replace(TOKEN, self._token if is_known else b"")

    def talk(self, *pieces: Piece, is_known: bool = True) -> bytes:
        """Everything that the daemon says to these, until it ends the connection."""
        with self.connect() as sock:
            said = b""
            # What the daemon has said can be read although it does not listen any more.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for piece in pieces:
                    if callable(piece):
                        piece(sock)
                    else:
                        sock.sendall(self.signed(piece, is_known))
            with contextlib.suppress(ConnectionResetError):
                while chunk := sock.recv(65536):
                    said += chunk
            return said

    def client(self, kind: type[HttpClient] = ModernHttp) -> HttpClient:
        client = kind(self.home, address=self._address)
        if self._address:
            client.headers |= bearer(self.home)
        return client

    def meanwhile(self, _: socket.socket) -> None:
        """A piece that is none: others are served while that connection is open."""
        assert self.serves()

    def serves(self) -> bool:
        """Whether others are served."""
        client = self.client()
        assert isinstance(client, ModernHttp)
        with contextlib.closing(client):
            return client.call("echo__echo", text="on").status == 200


def daemon(http_request_timeout: float) -> Iterator[Scratch]:
    with Scratch() as scratch:
        servers = {"echo": server("echo"), "big": server("big"), "count": server("counting", scratch.home / "ledger")}
        scratch.configure(
            servers, message_limit=100_000, outbound_limit=1_000_000, http_request_timeout=http_request_timeout
        )
        scratch.start("--http", "127.0.0.1:0")
        yield scratch


@pytest.fixture(scope="module")
def hurried() -> Iterator[Scratch]:
    """A daemon that does not wait for the rest of a request."""
    yield from daemon(0.5)


@pytest.fixture(scope="module")
def patient() -> Iterator[Scratch]:
    """One that waits for ever: what ends here has ended for another reason than time."""
    yield from daemon(0)


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest, hurried: Scratch) -> Door:
    return Door(hurried, request.param)


@pytest.fixture(params=DOORS)
def open_door(request: pytest.FixtureRequest, patient: Scratch) -> Door:
    return Door(patient, request.param)


def status(said: bytes) -> int:
    return int(said.split(b" ", 2)[1])


def posted(body: bytes, more: bytes = b"", head: bytes = HEAD) -> bytes:
    return head + LAST + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


def connections(home: Scratch) -> int:
    """Those over HTTP, this one included."""
    with contextlib.closing(HttpClient(home)) as client:
        text = client.request("GET", path="/metrics").text()
    [line] = [line for line in text.splitlines() if line.startswith('hearth_connections{wire="http"}')]
    return int(float(line.split()[1]))


def named(cases: dict[str, tuple[int, bytes]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("code", "data"), cases.values(), ids=cases.keys())


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
    """What a browser goes by before it lets a page read the answer."""
    head = said.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    return [line for line in head if line.startswith((b"access-control-allow-origin", b"vary"))]


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
        assert shared_with(said) == [b"access-control-allow-origin: http://localhost:5173", b"vary: origin"]
    foreign = PAGE.replace(b"localhost:5173", b"evil.example")
    renamed = HEAD.replace(b"localhost", b"evil.example") + PAGE
    for data in (HEAD + foreign + MANY, renamed + MANY, HEAD + MANY, HEAD + MANY[:-2] + PAGE + b"\r\n"):
        said = open_door.talk(data)
        assert (status(said), shared_with(said)) == (431, [])


def test_a_page_that_is_let_in_may_read_that_it_was_late(door: Door) -> None:
    said = door.talk(HEAD + PAGE + b"Content-Length: 10\r\n\r\n")
    assert (status(said), len(shared_with(said))) == (408, 2)

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


# --- what is unusual, and right


def test_a_body_in_chunks_with_trailers_is_read(open_door: Door) -> None:
    client = open_door.client(LegacyHttp)
    assert isinstance(client, LegacyHttp)
    client.open()
    session = b"Mcp-Session-Id: %b\r\n" % client.headers["Mcp-Session-Id"].encode()
    pieces = b"".join(b"%x;n=v\r\n%b\r\n" % (1, PING[n : n + 1]) for n in range(len(PING)))
    said = open_door.talk(CHUNKED.replace(LAST, LAST + session) + pieces + b"0\r\nX-Sum: 1\r\n\r\n")
    assert status(said) == 200 and said.endswith(b'{"jsonrpc":"2.0","id":1,"result":{}}')


def test_who_asks_first_is_told_to_go_on(open_door: Door) -> None:
    def body_when_told(sock: socket.socket) -> None:
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(PING)

    asked = posted(PING, b"Expect: 100-continue\r\n").removesuffix(PING)
    # A ping without a session is refused; it has been read.
    assert b"Mcp-Session-Id is missing" in open_door.talk(asked, body_when_told)


@pytest.mark.parametrize(("path", "code"), [("/healthz", 200), ("/status", 200), ("/mcp", 405), ("/nothing", 404)])
def test_an_answer_to_head_has_no_body(open_door: Door, path: str, code: int) -> None:
    said = open_door.talk(GET.replace(b"GET /healthz", b"HEAD " + path.encode()) + LAST + b"\r\n")
    assert status(said) == code and said.endswith(b"\r\n\r\n")


def test_who_knows_no_chunks_gets_none(open_door: Door) -> None:
    for old in (b"HTTP/1.0", b"HTTP/1.0\r\nConnection: keep-alive"):

        def first_event(sock: socket.socket) -> None:
            with sock.makefile("rb") as stream:
                said = b"".join(iter(stream.readline, b"\r\n"))
                assert status(said) == 200 and b"transfer-encoding" not in said and b"connection: close" in said
                assert stream.readline() == b"event: endpoint\n"
            sock.shutdown(socket.SHUT_WR)

        stream = GET.replace(b"/healthz", b"/sse").replace(b"HTTP/1.1", old)
        open_door.talk(stream + b"\r\n", first_event)
        # A stream that comes to its end.
        progress = call("count__read", key="old", delay=10, steps=3).replace(b"HTTP/1.1", old)
        progress = progress.replace(b'"_meta": {', b'"_meta": {"progressToken": 1, ')
        length = len(progress.partition(b"\r\n\r\n")[2])
        said = open_door.talk(re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % length, progress))
        head, _, events = said.partition(b"\r\n\r\n")
        assert status(head) == 200 and b"text/event-stream" in head and b"transfer-encoding" not in head
        assert events.startswith(b"event: message\n") and events.count(b"read old") == 1 and events.endswith(b"}\n\n")
        assert open_door.talk(GET.replace(b"HTTP/1.1", old) + b"\r\n").endswith(b'\r\n\r\n{"status":"ok"}')


# As Java's client says with every first request.
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
SMUGGLED = b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_an_upgrade_is_not_taken(open_door: Door) -> None:
    said = open_door.talk(GET + UPGRADE + b"\r\n" + GET + LAST + b"\r\n")
    assert said.count(b'{"status":"ok"}') == 2
    assert said.count(b"HTTP/1.1 ") == 2
    said = open_door.talk((GET + UPGRADE + b"\r\n") * 100 + GET + LAST + b"\r\n")
    assert said.count(b'{"status":"ok"}') == said.count(b"HTTP/1.1 ") == 101
    assert open_door.serves()


def answered(sock: socket.socket) -> None:
    """The next piece is sent when this much has been answered."""
    assert sock.recv(65536, socket.MSG_PEEK)


@pytest.mark.parametrize("is_split", [False, True])
def test_the_body_of_who_asks_for_an_upgrade_is_read(open_door: Door, is_split: bool) -> None:
    whole = call("echo__echo", text="upgraded").replace(b"Accept:", UPGRADE + b"Accept:")
    head, end, body = whole.partition(b"\r\n\r\n")
    chunks = head[: head.index(b"Content-Length")] + b"Transfer-Encoding: chunked"
    chunked = chunks + end + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    for request in (whole, chunked):
        pieces = [request[:40], request[40:-30], request[-30:]] if is_split else [request]
        said = open_door.talk(*pieces, answered, GET + LAST + b"\r\n")
        assert (status(said), said.count(b"upgraded"), said.count(b'{"status":"ok"}')) == (200, 1, 1)


def test_the_body_of_who_asks_for_an_upgrade_is_no_request(open_door: Door) -> None:
    head = HEAD + UPGRADE + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED)
    said = open_door.talk(head, SMUGGLED, answered, GET + LAST + b"\r\n")
    assert status(said) == 400 and said.count(b"HTTP/1.1 ") == 2 and said.endswith(b'{"status":"ok"}')


def test_requests_in_a_row_are_answered_in_a_row(open_door: Door) -> None:
    said = open_door.talk((GET + b"\r\n") * 500 + GET + LAST + b"\r\n")
    assert said.count(b'{"status":"ok"}') == 501


def call(tool: str, **arguments: object) -> bytes:
    """A modern request, whole in itself, on a connection that stays."""
    name = "io.modelcontextprotocol/"
    meta = {f"{name}protocolVersion": "2026-07-28", f"{name}clientCapabilities": {}}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %b\r\n" % tool.encode()
    return posted(body, headers).replace(LAST, b"")


def test_a_call_that_is_no_utf_8_is_refused_for_that_reason_and_not_carried_out(open_door: Door) -> None:
    for text in (b"\xff", b"\xc3", b"\xed\xa0\x80"):
        whole = call("count__put", key="mangled...").replace(TOKEN, TOKEN + LAST)
        said = open_door.talk(whole.replace(b"...", b"..."[len(text) :] + text))
        assert status(said) == 400
        assert "UTF-8" in json.loads(said.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert open_door.serves()
    ledger = open_door.home.home / "ledger"
    assert not ledger.exists() or b"mangled" not in ledger.read_bytes()


def test_a_request_behind_one_that_takes_long_waits_for_it(door: Door) -> None:
    """Longer than a request may take to come: nothing is late that was not let in."""
    said = door.talk(call("count__read", key="row", delay=1200) + GET + LAST + b"\r\n")
    assert said.index(b"read row") < said.index(b'{"status":"ok"}')
    assert door.serves()


@pytest.mark.parametrize(
    ("code", "half"),
    [
        (408, HEAD + b"Content-Length: 5\r\n\r\n{"),
        (408, HEAD),
        (414, b"GET /" + b"x" * 9000),
        (400, b"nonsense\r\n\r\n"),
    ],
    ids=["body", "headers", "address", "nonsense"],
)
def test_what_is_wrong_with_a_request_is_not_told_as_the_answer_to_another(door: Door, code: int, half: bytes) -> None:
    """Nor does the other lose its answer, although it takes longer than a request may take to come."""
    first, then, second = door.talk(call("count__read", key="first", delay=1200) + half).partition(b"read first")
    assert (status(first), then) == (200, b"read first")
    assert status(second[second.index(b"HTTP/1.1 ") :]) == code and second.count(b"\r\n\r\n") == 1
    assert door.serves()


# --- who does not read


def test_who_reads_nothing_holds_up_nobody_and_leaves_nothing(open_door: Door) -> None:
    before = connections(open_door.home)
    with open_door.connect() as sock:
        # 24 MB of answers: more than any buffer on the way takes.
        sock.sendall(open_door.signed(call("big__big", bytes=80_000)) * 300)
        until(lambda: connections(open_door.home) > before, "it is being served")
        assert open_door.serves()
    until(lambda: connections(open_door.home) <= before, "nothing is left of it")
    assert open_door.serves()


def test_who_reads_nothing_for_too_long_is_dropped(door: Door) -> None:
    before = connections(door.home)
    with door.connect() as sock:
        sock.sendall(door.signed(call("big__big", bytes=80_000)) * 300)
        until(lambda: connections(door.home) > before, "it is being served")
        until(lambda: connections(door.home) <= before, "it is dropped")
    assert door.serves()


def test_a_client_that_does_not_read_loses_its_stream_and_nobody_else_waits(patient: Scratch) -> None:
    stuck, lively = HttpClient(patient, "/sse"), ModernHttp(patient)
    stream = stuck.request("GET")
    assert stream.line() == "event: endpoint"
    path = stream.line().removeprefix("data: ")
    arguments = {"name": "big__big", "arguments": {"bytes": 80_000}}
    for number in range(40):
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": arguments}
        assert stuck.request("POST", body, path=path).status in (202, 404)
    until(lambda: "its connection is dropped" in patient.logged(), "the one that does not read is dropped")
    assert "outbound_limit" in patient.logged()
    assert lively.call("echo__echo", text="on").status == 200
    until(lambda: stuck.request("POST", body, path=path).status == 404, "its session is over")


def test_a_client_that_does_not_read_for_a_moment_loses_progress_but_no_answer(patient: Scratch) -> None:
    slow = ModernHttp(patient).call("count__read", meta={"progressToken": 1}, key="k", delay=1000, steps=20_000)
    assert ModernHttp(patient).call("count__read", key="after", delay=1500).status == 200
    messages = slow.messages()
    assert messages[-1]["result"]["content"][0]["text"] == "read k"
    assert len(messages) < 20_000


# --- the end


def test_strangers_keep_no_connection_whatever_they_ask(patient: Scratch) -> None:
    door = Door(patient, "port")
    for request in (
        GET,
        GET.replace(b"GET", b"OPTIONS"),
        GET.replace(b"localhost", b"example.com"),
        GET + b"Origin: https://evil.example\r\n",
    ):
        assert status(door.talk(request + b"\r\n", is_known=False)) in (204, 401, 403)


def test_strangers_get_one_answer_however_many_requests_they_send(patient: Scratch) -> None:
    door = Door(patient, "port")
    for number in (3, 20_000):
        said = door.talk((GET + b"\r\n") * number, is_known=False)
        assert (status(said), said.count(b"HTTP/1.1 ")) == (401, 1)
    assert door.serves()


def test_who_is_refused_while_it_sends_can_read_why(open_door: Door) -> None:
    """By a client that reads nothing before it has sent everything."""
    head = HEAD + b"Content-Length: 10000000\r\n\r\n"
    for code, is_known in ((413, True), (401, False)):
        with open_door.connect() as sock:
            if not is_known and sock.family == socket.AF_UNIX:
                continue
            sock.sendall(open_door.signed(head, is_known))
            for _ in range(100):
                sock.sendall(b" " * 100_000)
            said = b"".join(iter(lambda sock=sock: sock.recv(65536), b""))
        assert (status(said), said.count(b"content-length:")) == (code, 1)
    assert open_door.serves()


def test_a_client_that_goes_with_a_request_in_waiting_leaves_nothing(open_door: Door) -> None:
    before = connections(open_door.home)
    logged = len(open_door.home.logged())
    with open_door.connect() as sock:
        sock.sendall(open_door.signed(call("count__read", key="left", delay=60_000) + GET + b"\r\n"))
        until(lambda: connections(open_door.home) > before, "it is being served")
    until(lambda: connections(open_door.home) <= before, "nothing is left of it")
    assert "Traceback" not in open_door.home.logged()[logged:]
    assert open_door.serves()


@pytest.mark.parametrize("begun", [b"GET / HT", GET, HEAD + b"Content-Length: 5\r\n\r\n{", CHUNKED + b"5\r\n{"])
@pytest.mark.parametrize("way", DOORS)
def test_half_a_request_does_not_keep_a_daemon_that_goes_out(scratch: Scratch, way: str, begun: bytes) -> None:
    scratch.configure({"echo": server("echo")}, http_request_timeout=0)
    daemon = scratch.start("--http", "127.0.0.1:0")
    door = Door(scratch, way)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(door.connect()) for _ in range(20)]
        for sock in sockets:
            sock.sendall(door.signed(begun))
        assert door.serves()
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.wait() == 0
        for sock in sockets:
            said = sock.recv(65536)
            assert not said or (status(said), b"\r\nretry-after: 1\r\n" in said) == (503, True)


def test_the_log_does_not_grow_with_what_is_no_http(patient: Scratch) -> None:
    door = Door(patient, "port")
    before = len(patient.logged())
    for _ in range(50):
        door.talk(b"NONSENSE\r\n\r\n")
    assert len(patient.logged()) == before
