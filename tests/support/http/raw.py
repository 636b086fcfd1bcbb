"""Bytes for a daemon that speaks HTTP, by the socket and at a port, as no client sends them; and others meanwhile."""

import contextlib
import socket
from collections.abc import Callable, Iterator

import pytest

from support.daemon import Scratch, server
from support.http.clients import HttpClient, ModernHttp, bearer, port_of
from support.kernel import BOUND_SECONDS

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
