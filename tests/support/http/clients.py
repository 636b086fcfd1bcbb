"""HTTP to a daemon's socket, as small as it can be: the standard library's client on a Unix socket."""

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from hearth.mcp import versions
from support.daemon import Scratch
from support.kernel import BOUND_SECONDS

Message = dict[str, Any]
BOTH = "application/json, text/event-stream"


class Connection(http.client.HTTPConnection):
    """One connection, over a Unix socket or TCP."""

    def __init__(self, address: str | tuple[str, int]) -> None:
        super().__init__("localhost", timeout=BOUND_SECONDS)
        self._address = address

    def sever(self) -> None:
        """Let whoever reads it, in another thread, see the end."""
        if self.sock is not None:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)

    def connect(self) -> None:
        if isinstance(self._address, tuple):
            self.sock = socket.create_connection(self._address, BOUND_SECONDS)
            return
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(BOUND_SECONDS)
        try:
            self.sock.connect(self._address)
        except OSError:
            self.close()
            raise


class Event(NamedTuple):
    """One event of a stream; `message` is None where it has no data."""

    id: str | None
    name: str
    message: Message | None


class Response:
    """What a request got. A stream is read event by event."""

    def __init__(self, inner: http.client.HTTPResponse, connection: Connection) -> None:
        self._inner = inner
        self._connection = connection
        self.status = inner.status
        self.headers = {name.lower(): value for name, value in inner.getheaders()}
        self.is_stream = self.headers.get("content-type") == "text/event-stream"

    def json(self) -> Message:
        """The whole body."""
        return json.loads(self._inner.read())

    def text(self) -> str:
        return self._inner.read().decode()

    def events(self) -> Iterator[Event]:
        """Until the stream ends; comments are passed over."""
        return _events(iter(self._inner.readline, b""))

    def events_within(self, size: int) -> list[Event]:
        """Those that are whole within the first `size` bytes; less, if the stream ends before."""
        pieces: list[bytes] = []
        while size and (piece := self._inner.read1(size)):
            pieces.append(piece)
            size -= len(piece)
        return list(_events(iter(b"".join(pieces).splitlines(keepends=True))))

    def raw_line(self) -> bytes:
        """One line of a stream, as it is; nothing at its end."""
        return self._inner.readline()

    def line(self) -> str:
        """The same, as a text without the line's end."""
        return self.raw_line().decode().rstrip("\n")

    def close(self) -> None:
        """Read nothing more."""
        self._inner.close()

    def break_off(self) -> None:
        """Leave, with the connection."""
        self._inner.close()
        self._connection.close()

    def messages(self) -> list[Message]:
        """Every message up to the end, of a stream or a body."""
        if not self.is_stream:
            return [self.json()]
        return [event.message for event in self.events() if event.message is not None]


def _events(lines: Iterator[bytes]) -> Iterator[Event]:
    """An event is whole with the empty line behind it."""
    fields: dict[str, str] = {}
    for line in lines:
        if line == b"\n" and fields:
            data = fields.get("data")
            yield Event(fields.get("id"), fields.get("event", ""), json.loads(data) if data else None)
            fields = {}
        elif line.endswith(b"\n") and not line.startswith((b":", b"\n")):
            name, _, value = line.decode().rstrip("\n").partition(":")
            fields[name] = value.removeprefix(" ")


class HttpClient:
    """Requests to one path, each on a connection of its own."""

    def __init__(self, scratch: Scratch, path: str = "/mcp", address: tuple[str, int] | None = None) -> None:
        self._address = address or scratch.socket
        self._path = path
        self.headers: dict[str, str] = {}
        self._open: list[Connection | Response] = []
        scratch.own(self)

    def request(
        self, method: str, body: object = None, headers: dict[str, str] | None = None, path: str | None = None
    ) -> Response:
        connection = Connection(self._address)
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        usual = {"Accept": BOTH, **({"Content-Type": "application/json"} if data is not None else {})}
        # Who is refused before all was sent can still read why; where nothing was said, the next line fails.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, path or self._path, data, {**usual, **self.headers, **(headers or {})})
        response = Response(connection.getresponse(), connection)
        self._open += [connection, response]
        return response

    def close(self) -> None:
        """Break off whatever is open."""
        for each in self._open:
            if isinstance(each, Connection):
                each.sever()
            each.close()


class LegacyHttp(HttpClient):
    """A session of a legacy revision."""

    def open(self, version: str = versions.NEWEST_LEGACY, capabilities: Message | None = None) -> Message:
        """`initialize`, then `notifications/initialized`. The result."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        got = self.request("POST", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert got.status == 200, got.text()
        self.headers["Mcp-Session-Id"] = got.headers["mcp-session-id"]
        self.headers["MCP-Protocol-Version"] = version
        [answer] = got.messages()
        assert self.request("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
        return answer["result"]

    def opened(self, version: str = versions.NEWEST_LEGACY, capabilities: Message | None = None) -> Self:
        """Begin the session."""
        self.open(version, capabilities)
        return self

    def post(self, method: str, params: Message | None = None, id: object = 1) -> Response:
        return self.request("POST", {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})

    def call(self, tool: str, id: object = 1, meta: Message | None = None, **arguments: object) -> Response:
        params: Message = {"name": tool, "arguments": arguments}
        return self.post("tools/call", params if meta is None else {**params, "_meta": meta}, id)


class ModernHttp(HttpClient):
    """Requests of the modern revision."""

    def post(
        self, method: str, params: Message | None = None, id: object = 1, headers: dict[str, str] | None = None
    ) -> Response:
        """With the headers that belong to it; `headers` come on top."""
        body = dict(params or {})
        meta = {versions.PROTOCOL_VERSION_KEY: versions.NEWEST_MODERN, versions.CLIENT_CAPABILITIES_KEY: {}}
        body["_meta"] = {**meta, **body.get("_meta", {})}
        usual = {"MCP-Protocol-Version": versions.NEWEST_MODERN, "Mcp-Method": method}
        name = body.get("name") or body.get("uri")
        if name:
            usual["Mcp-Name"] = name
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": body}
        return self.request("POST", message, {**usual, **(headers or {})})

    def call(self, tool: str, id: object = 1, meta: Message | None = None, **arguments: object) -> Response:
        params: Message = {"name": tool, "arguments": arguments}
        return self.post("tools/call", params if meta is None else {**params, "_meta": meta}, id)


class OldHttp(HttpClient):
    """A session of the oldest revision: one stream, and an address to post to."""

    def __init__(self, scratch: Scratch) -> None:
        super().__init__(scratch, "/sse")
        self.stream = self.request("GET", headers={"Accept": "text/event-stream"})
        assert self.stream.line() == "event: endpoint"
        self.path = self.stream.line().removeprefix("data: ")
        assert self.stream.line() == ""
        self.events = self.stream.events()

    def post(self, method: str, params: Message | None = None, id: object = 1) -> Response:
        """What it is answered with is only that it has come."""
        return self.request(
            "POST", {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}, path=self.path
        )

    def call(self, tool: str, id: object = 1, **arguments: object) -> Response:
        return self.post("tools/call", {"name": tool, "arguments": arguments}, id)

    def open(self) -> Message:
        """`initialize`. The result."""
        params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "o", "version": "1"}}
        assert self.post("initialize", params, 0).status == 202
        return self.next()["result"]

    def opened(self) -> Self:
        """Begin the session."""
        self.open()
        return self

    def next(self) -> Message:
        """The next message on its stream."""
        message = next(self.events).message
        assert message is not None
        return message


def knowing_tools(scratch: Scratch) -> LegacyHttp:
    """A session whose client has read the list of tools, and so is told of its changes."""
    client = LegacyHttp(scratch).opened()
    client.post("tools/list").json()
    return client


def port_of(scratch: Scratch) -> tuple[str, int]:
    """Where the daemon, which was started with `--http`, listens."""
    [url] = scratch.status()["http"]
    return address_of(url)


def address_of(url: str) -> tuple[str, int]:
    """Host and port of a URL that names both."""
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    return parts.hostname, parts.port


def bearer(scratch: Scratch) -> dict[str, str]:
    """What a request over TCP needs; made by the daemon that serves a port."""
    token = (scratch.home / ".local" / "state" / "hearth" / "http" / "token").read_text()
    return {"Authorization": f"Bearer {token.strip()}"}
