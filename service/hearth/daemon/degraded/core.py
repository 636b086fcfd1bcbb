"""Core of the degraded daemon, which cannot serve and tells every client why.

Standard library only, and nothing of Hearth: the core works when nothing else can be imported. `posix` and `windows`
are its shells: they wait for clients, and pass on the bytes that come.

Every request is answered with -32603 and the reason. When the cause may be fixed (the config file has changed, or some
seconds have passed), the daemon tells its bridges to reconnect and executes itself again. The bridges send unanswered
requests again, because these were never taken. The listener stays open all the while. A Windows process cannot execute
itself again: it exits, and the bridges that reconnect start another daemon.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

# How long a degraded daemon without connections stays after the last request.
IDLE_SECONDS = 60.0
# A cause other than the config file cannot be watched; a request this long after the last attempt triggers the next.
RETRY_SECONDS = 2.0
# The same as in `wire.frames`, which may be the module that cannot be imported.
PROTOCOL_VERSION = 2
MESSAGE_LIMIT_BYTES = 64 * 1024 * 1024
_PREFIX_BYTES = 6
_FIRST_FRAME_BYTE_BELOW = 0x10
_INTERNAL_ERROR = -32603


def describe(cause: BaseException) -> str:
    """Return the reason why the daemon cannot serve, and what to do: Hearth's own errors say it, others are bugs."""
    if hasattr(cause, "exit_code"):
        return str(cause)
    if isinstance(cause, ImportError):
        return (
            f"Hearth's installation is broken ({cause.name or 'a module'} cannot be loaded): it was moved, or is"
            " incomplete; `hearth doctor --fix` repairs what starts it, else install it again"
        )
    return f"Hearth's installation is broken ({type(cause).__name__}: {cause}); install it again"


class Leaving(Exception):
    """Exception that ends this daemon, because another daemon will answer."""


class Degraded:
    """Degraded daemon with its reason, its clients and its lifetime. Nothing here can block or grow without bound.

    `execute_again` replaces this process by the next daemon; None where a process cannot do that. `facts` are the parts
    of the status document that the core does not know.
    """

    def __init__(
        self,
        reason: str,
        execute_again: Callable[[], None] | None,
        has_config_changed: Callable[[], bool] = lambda: False,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        self.reason = reason
        self.clients: set[DegradedClient] = set()
        self._execute_again = execute_again
        self._has_config_changed = has_config_changed
        self._facts = facts or {}
        self._begun = self._heard = time.monotonic()
        self._going = False

    def is_over(self) -> bool:
        """Tell whether the daemon should exit."""
        return self._going or not (self.clients or time.monotonic() - self._heard < IDLE_SECONDS)

    def leave(self) -> None:
        """Exit as soon as possible."""
        self._going = True

    def consulted(self) -> None:
        """Handle a connection or a request: execute this program again if the cause may be fixed."""
        if self.may_be_fixed():
            self.restart()

    def may_be_fixed(self) -> bool:
        """Tell whether the config has changed, or enough time has passed for another cause to be fixed."""
        self._heard = time.monotonic()
        return self._has_config_changed() or self._heard - self._begun > RETRY_SECONDS

    def restart(self) -> None:
        """Execute this program again; return only if that is impossible now. Raises Leaving where it must exit."""
        if not os.access(sys.executable, os.X_OK):
            # The interpreter is being replaced: stay, and try later.
            self._begun = time.monotonic()
            return
        for client in self.clients:
            client.dismiss()
        if self._execute_again:
            self._execute_again()
        self.leave()
        raise Leaving

    def status(self) -> dict[str, object]:
        """Return the status document."""
        return {
            "running": True, "pid": os.getpid(), "executable": sys.executable,
            "uptimeSeconds": round(time.monotonic() - self._begun, 3), "owner": None, "daemonId": "degraded",
            "configHash": "", "configError": None, "containment": None, "degraded": self.reason,
            "sessions": [], "upstreams": [], **self._facts,
        }  # fmt: skip


def explain_to_streams(read: Callable[[], bytes], write: Callable[[bytes], None], reason: str) -> None:
    """Answer a client on standard input and output until it closes its end, or stops reading.

    Clients show the error that answers their first request, but hide a server's standard error.
    """

    def answer_all(complete: list[bytes]) -> None:
        for answer in [answer_to(line, reason) for line in complete if line.strip()]:
            if answer is not None:
                write(answer + b"\n")

    lines = Lines()
    try:
        while lines.size <= MESSAGE_LIMIT_BYTES and (data := read()):
            answer_all(lines.receive(data))
        answer_all([lines.rest()])
    except OSError:
        # The client has stopped reading.
        pass


class Lines:
    """Splitter of incoming data into lines. A long line is joined only once, because other clients wait meanwhile."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        # Bytes of the incomplete line.
        self.size = 0

    def receive(self, data: bytes) -> list[bytes]:
        """Take data and return the lines that it completes, blank ones included."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._parts, lines[0]])
            self._parts, self.size = [], 0
        self._parts.append(rest)
        self.size += len(rest)
        return lines

    def rest(self) -> bytes:
        """Return the incomplete line."""
        return b"".join(self._parts)


class Frames:
    """Splitter of incoming data into frames: as much of docs/protocol.md as an error needs."""

    def __init__(self) -> None:
        self._data = bytearray()

    def receive(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Take data and return the headers and payloads that it completes. Raises ValueError."""
        self._data += data
        found = []
        while len(self._data) >= _PREFIX_BYTES:
            total, size = int.from_bytes(self._data[:4], "big"), int.from_bytes(self._data[4:_PREFIX_BYTES], "big")
            if size < 2 or not 0 <= total - size - 2 <= MESSAGE_LIMIT_BYTES:
                raise ValueError(f"a frame of {total} bytes with a header of {size}")
            if len(self._data) < 4 + total:
                break
            frame = bytes(self._data[_PREFIX_BYTES : 4 + total])
            del self._data[: 4 + total]
            found.append((frame[:size], frame[size:]))
        return found


def encode_frame(fields: Mapping[str, object], payload: bytes = b"") -> bytes:
    """Return a frame with these fields in its header."""
    header = json.dumps(fields).encode()
    return (2 + len(header) + len(payload)).to_bytes(4, "big") + len(header).to_bytes(2, "big") + header + payload


class ClientWriter(Protocol):
    """Protocol for the writing side of a client's connection."""

    def sendall(self, data: bytes, /) -> object:
        """Write everything. Raises OSError."""


class DegradedClient:
    """Client connection that speaks frames or lines; the first byte decides."""

    def __init__(self, connection: ClientWriter, token: str = "") -> None:
        self._connection = connection
        # The token that the client's first frame has to show; empty where the kernel identifies the peer.
        self._token = token
        self._frames: Frames | None = None
        self._lines: Lines | None = None
        self._taken = 0

    def receive(self, daemon: Degraded, data: bytes) -> bool:
        """Answer the data that was read, which is empty at EOF; return False when the connection is over.

        Raises OSError if the client does not read, and ValueError if its data makes no sense.
        """
        if not data:
            rest = self._lines.rest() if self._lines else b""
            self._say_line(answer_to(rest, daemon.reason) if rest else None)
            return False
        if self._frames is None and self._lines is None:
            if data[0] < _FIRST_FRAME_BYTE_BELOW:
                self._frames = Frames()
            elif self._token:
                return False
            elif data[:1].isupper():
                daemon.consulted()
                self._connection.sendall(unavailable(daemon.reason))
                return False
            else:
                self._lines = Lines()
        if self._frames is not None:
            return all(self._receive_frame(daemon, *frame) for frame in self._frames.receive(data))
        assert self._lines is not None
        return self._receive_lines(daemon, self._lines, data)

    def _receive_lines(self, daemon: Degraded, lines: Lines, data: bytes) -> bool:
        complete = lines.receive(data)
        if lines.size > MESSAGE_LIMIT_BYTES:
            return False
        may_be_fixed = daemon.may_be_fixed()
        for line in complete:
            self._say_line(answer_to(line, daemon.reason))
        if may_be_fixed:
            # Only after the answers: no bridge would send this client's lines again.
            daemon.restart()
        return True

    def _say_line(self, answer: bytes | None) -> None:
        if answer is not None:
            self._connection.sendall(answer + b"\n")

    def _say(self, header: dict[str, object], payload: bytes = b"") -> None:
        self._connection.sendall(encode_frame(header, payload))

    def _receive_frame(self, daemon: Degraded, header: bytes, payload: bytes) -> bool:
        frame = _read_header(header)
        if self._token:
            # The first frame has to show the token; a client that does not show it is not told the reason.
            if not _is_token(frame.get("token"), self._token):
                return False
            self._token = ""
        kind, seq = frame.get("type"), frame.get("seq", 0)
        if kind == "mcp":
            daemon.consulted()
            answer = answer_to(payload, daemon.reason)
            self._taken = seq
            if answer is None:
                self._say({"type": "ack", "seq": seq, "done": [seq]})
            else:
                self._say({"type": "mcp", "re": seq}, answer)
        elif kind == "hello":
            self._say({"type": "helloAck", "protocol": PROTOCOL_VERSION, "sessionId": "degraded", "secret": "",
                       "daemonId": "degraded", "isOwner": False, "heartbeatSeconds": 5})  # fmt: skip
        elif kind == "hook":
            # Not `hookAnswer`: without a daemon nothing is decided, and the hook itself knows whether that is a deny.
            daemon.consulted()
            self._say({"type": "error", "message": daemon.reason})
        elif kind == "status":
            self._say({"type": "status", "re": seq}, json.dumps(daemon.status()).encode())
        elif kind in ("tools", "restart", "reload", "shutdown"):
            self._say({"type": kind, "re": seq, "ok": kind == "shutdown", "message": daemon.reason})
            if kind == "shutdown":
                daemon.leave()
            elif kind == "reload":
                daemon.consulted()
        elif kind in ("agents", "agent", "agentLog"):
            daemon.consulted()
            self._say({"type": kind, "re": seq, "ok": False, "message": daemon.reason})
        return bool(kind != "goodbye")

    def dismiss(self) -> None:
        """Tell a bridge to reconnect; lines that were not answered count as never taken."""
        if self._frames is not None:
            try:
                self._say({"type": "goodbye", "reconnect": True, "taken": self._taken, "reason": "starting anew"})
            except OSError:
                pass


def _read_header(header: bytes) -> dict[str, Any]:
    """Return the header of a frame. Raises ValueError: over TCP, any user of this machine can send one."""
    try:
        found = json.loads(header)
    except RecursionError as exc:
        raise ValueError("the header is nested too deeply") from exc
    if isinstance(found, dict):
        return found
    raise ValueError("the header is not an object")


def _is_token(given: object, token: str) -> bool:
    import hmac

    return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def unavailable(reason: str) -> bytes:
    """Return the response to an HTTP client."""
    body = json.dumps({"error": reason}).encode()
    head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: 5"
    return f"{head}\r\nVary: Origin\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def answer_to(line: bytes, reason: str) -> bytes | None:
    """Return the error for a request, an array of errors for a batch, or None for a message without an answer."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"the message is not JSON"}}'
    batch = message if isinstance(message, list) else [message]
    refused = [error for item in batch if (error := _error(item, reason))]
    if not refused:
        return None
    return json.dumps(refused if batch is message else refused[0]).encode()


def _error(message: object, reason: str) -> dict[str, object] | None:
    if not isinstance(message, dict) or "id" not in message or "method" not in message:
        return None
    error = {"code": _INTERNAL_ERROR, "message": f"Hearth cannot serve: {reason}"}
    return {"jsonrpc": "2.0", "id": message["id"], "error": error}
