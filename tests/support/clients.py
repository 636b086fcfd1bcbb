"""Small blocking clients of the daemon's socket: MCP lines, and frames. Each read is bounded.

They know the wires from docs/protocol.md, not from Hearth's code, so that a mistake in one is not made in both.
"""

import json
import select
import socket
from collections.abc import Callable
from typing import Any, Self

from support.kernel import BOUND_SECONDS

Message = dict[str, Any]
Header = dict[str, Any]

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
ENVELOPE = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}}


class Closed(Exception):
    """The daemon closed the connection."""


class Stream:
    """A connected socket with what was read of it and not used yet."""

    def __init__(self, endpoint: str) -> None:
        """Connect to a socket by its path, or to `tcp:HOST:PORT`."""
        host, _, port = endpoint.removeprefix("tcp:").rpartition(":")
        is_tcp = endpoint.startswith("tcp:")
        self.socket = socket.socket(socket.AF_INET if is_tcp else socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(BOUND_SECONDS)
        try:
            self.socket.connect((host, int(port)) if is_tcp else endpoint)
        except OSError:
            self.socket.close()
            raise
        self._buffer = bytearray()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _fill(self) -> None:
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Closed(f"with {bytes(self._buffer[:200])!r} unread")
        self._buffer += data

    def take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._fill()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def take_line(self) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            self._fill()
        return self.take(end + 1)[:-1]

    def has_data(self, seconds: float = 0.0) -> bool:
        return bool(self._buffer) or bool(select.select([self.socket], [], [], seconds)[0])

    def end_input(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()


def first_of(aside: list[Message], receive: Callable[[], Message], is_it: Callable[[Message], bool]) -> Message:
    """The first message that is meant, of those put aside and those that come; what comes before it is put aside."""
    for message in aside:
        if is_it(message):
            aside.remove(message)
            return message
    while not is_it(message := receive()):
        aside.append(message)
    return message


class Client:
    """An MCP client; what carries its lines is the subclasses' business."""

    def __init__(self, path: str) -> None:
        self.stream = Stream(path)
        # Messages that came while something else was waited for.
        self.aside: list[Message] = []
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send_line(self, line: bytes) -> None:
        raise NotImplementedError

    def receive_line(self) -> bytes:
        raise NotImplementedError

    # --- JSON-RPC

    def send(self, message: Message) -> None:
        self.send_line(json.dumps(message).encode())

    def receive(self) -> Message:
        """The next message as it comes from the wire."""
        return json.loads(self.receive_line())

    def begin(self, method: str, params: Message | None = None, id: object = None) -> object:
        """Send a request; returns its id."""
        self._last_id += 1
        id = self._last_id if id is None else id
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})
        return id

    def notify(self, method: str, params: Message | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def answer_to(self, id: object) -> Message:
        """The answer to that id; other messages are put aside."""

        def is_it(message: Message) -> bool:
            return "method" not in message and (type(message.get("id")), message.get("id")) == (type(id), id)

        return self._first(is_it)

    def _first(self, is_it: Callable[[Message], bool]) -> Message:
        return first_of(self.aside, self.receive, is_it)

    def ask(self, method: str, params: Message | None = None, id: object = None) -> Message:
        return self.answer_to(self.begin(method, params, id))

    def next_called(self, method: str) -> Message:
        """The next request or notification of that name, of those put aside too."""
        return self._first(lambda message: message.get("method") == method)

    # --- MCP

    def initialize(self, version: str = "2025-11-25", capabilities: Message | None = None) -> Message:
        """The legacy handshake; returns the result of `initialize`."""
        info = {"name": "test-client", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": info}
        result: Message = self.ask("initialize", params)["result"]
        self.notify("notifications/initialized")
        return result

    def initialized(self, version: str = "2025-11-25", capabilities: Message | None = None) -> Self:
        """Make the legacy handshake."""
        self.initialize(version, capabilities)
        return self

    def tools(self, **params: object) -> list[str]:
        return [tool["name"] for tool in self.ask("tools/list", dict(params))["result"]["tools"]]

    def begin_call(self, tool: str, id: object = None, meta: Message | None = None, **arguments: object) -> object:
        params: Message = {"name": tool, "arguments": arguments}
        if meta is not None:
            params["_meta"] = meta
        return self.begin("tools/call", params, id)

    def call(self, tool: str, meta: Message | None = None, **arguments: object) -> Message:
        return self.answer_to(self.begin_call(tool, None, meta, **arguments))

    def close(self) -> None:
        self.stream.close()


class LinesClient(Client):
    """Speaks MCP lines, as socat does."""

    def send_line(self, line: bytes) -> None:
        self.stream.send(line + b"\n")

    def receive_line(self) -> bytes:
        return self.stream.take_line()


def frame(header: Header, payload: bytes = b"") -> bytes:
    """Encode one frame."""
    raw = json.dumps(header).encode()
    size = (len(raw) + len(payload) + 2).to_bytes(4, "big")
    return size + len(raw).to_bytes(2, "big") + raw + payload


class FramesClient(Client):
    """Speaks frames, as the bridge does. `headers` has those of everything that was received, in order."""

    def __init__(self, path: str, hello: Header | None = None) -> None:
        super().__init__(path)
        self.seq = 0
        self.headers: list[Header] = []
        self.session: Header = {}
        if hello is not None:
            self.hello(**hello)

    def send_frame(self, header: Header, payload: bytes = b"") -> None:
        self.stream.send(frame(header, payload))

    def receive_frame(self) -> tuple[Header, bytes]:
        total = int.from_bytes(self.stream.take(4), "big")
        size = int.from_bytes(self.stream.take(2), "big")
        header: Header = json.loads(self.stream.take(size))
        self.headers.append(header)
        return header, self.stream.take(total - 2 - size)

    def receive_type(self, kind: str) -> tuple[Header, bytes]:
        """The next frame of that type; lines that come before it are put aside."""
        while True:
            header, payload = self.receive_frame()
            if header["type"] == kind:
                return header, payload
            if header["type"] == "mcp":
                self.aside.append(json.loads(payload))

    def hello(self, **keys: object) -> Header:
        """Open the session; returns the acknowledgement."""
        self.send_frame({"type": "hello", "protocol": 1, "version": "0", "pid": 1, "cwd": "/", **keys})
        self.session = self.receive_type("helloAck")[0]
        return self.session

    def send_line(self, line: bytes, **keys: object) -> None:
        self.seq += 1
        self.send_frame({"type": "mcp", "seq": self.seq, **keys}, line)

    def receive_line(self) -> bytes:
        return self.receive_type("mcp")[1]

    def control(self, kind: str, **keys: object) -> tuple[Header, bytes]:
        """A control request and its answer."""
        self.begin_control(kind, **keys)
        return self.receive_type(kind)

    def begin_control(self, kind: str, **keys: object) -> None:
        self.send_frame({"type": kind, "seq": self.seq, **keys})

    def heartbeat(self) -> None:
        self.send_frame({"type": "heartbeat"})


def modern(**params: object) -> Message:
    """Params with the envelope that a modern client puts into every request."""
    meta = params.pop("_meta", {})
    assert isinstance(meta, dict)
    return {**params, "_meta": {**ENVELOPE, **meta}}


def text_of(answer: Message) -> str:
    """The text of a tool's result."""
    return answer["result"]["content"][0]["text"]
