"""Core of the degraded daemon, which cannot serve and says why. Standard library only: it works when nothing else does.

Every request is answered with -32603 and the reason. When the cause may be fixed (the config file has changed, or some
seconds have passed), the daemon tells its bridges to reconnect and executes itself again. The bridges send unanswered
requests again, because these were never taken. The listener stays open all the while. A Windows process cannot execute
itself again: it exits, and the bridges that reconnect start another daemon.
"""

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from hearth.daemon.degraded import last_resort
from hearth.daemon.main import Start, signature
from hearth.errors import FrameError, HearthError, StartError
from hearth.host import connections
from hearth.host.listening import Listener
from hearth.host.posix import core_dumps
from hearth.host.stdio import say
from hearth.wire.frames import MESSAGE_LIMIT_BYTES, PROTOCOL_VERSION, FrameDecoder, encode

if TYPE_CHECKING:
    from hearth.daemon.daemon_lock import DaemonLock

# How long a degraded daemon without connections stays after the last request.
IDLE_SECONDS = 60.0
# A cause other than the config file cannot be watched; a request this long after the last attempt triggers the next.
RETRY_SECONDS = 2.0


def run(start: Start, cause: Exception) -> int:
    """Explain `cause` to every client until it may be fixed or no client asks, and return the exit code."""
    reason = describe(cause)
    claim: DaemonLock | None = None
    try:
        claim = _claim(start)
        listener = start.listen()
        if claim:
            claim.register("degraded", "", listener.path, listener.token)
    except HearthError as exc:
        if claim:
            claim.release()
        return _give_up(start, reason if reason == str(exc) else f"{reason} ({exc})", exc)
    level = "<3>" if start.activation == "systemd" else ""
    say(f"{level}hearth: degraded: {reason}")
    start.report("ok")
    try:
        Degraded(start, listener, reason).serve()
        return 0
    finally:
        listener.retire()
        if claim:
            claim.release()


def _give_up(start: Start, reason: str, exc: HearthError) -> int:
    say(f"hearth: {reason}")
    start.report(reason)
    return exc.exit_code


def describe(cause: Exception) -> str:
    """Return the reason why the daemon cannot serve, for people."""
    if isinstance(cause, HearthError):
        return str(cause)
    return last_resort.sentence(cause)


def exit_code_of(cause: Exception) -> int:
    """Return the exit code for the reason, for scripts."""
    return cause.exit_code if isinstance(cause, HearthError) else HearthError.exit_code


def _claim(start: Start) -> "DaemonLock | None":
    """Take the daemon lock. An activated daemon goes on without it and gets None; others raise the error."""
    try:
        from hearth.daemon.daemon_lock import DaemonLock

        claim = DaemonLock(start.places)
        claim.take(start.adopted)
    except Exception:
        if not start.adopted:
            raise
        return None
    return claim


class Degraded:
    """Degraded daemon with its reason, its clients and its lifetime. Nothing here can block or grow without bound."""

    def __init__(self, start: Start, listener: Listener, reason: str) -> None:
        self.start = start
        self.listener = listener
        self.reason = reason
        self._begun = time.monotonic()
        self._heard = self._begun
        self.guests: set[Guest] = set()
        self._going = False

    def serve(self) -> None:
        """Answer clients with the reason until `is_over`."""
        if sys.platform == "win32":
            from hearth.daemon.degraded.pipes import serve
        else:
            from hearth.daemon.degraded.sockets import serve
        serve(self)

    def is_over(self) -> bool:
        """Tell whether the daemon should exit."""
        return self._going or not (self.guests or time.monotonic() - self._heard < IDLE_SECONDS)

    def leave(self) -> None:
        """Exit as soon as possible."""
        self._going = True

    def consulted(self) -> None:
        """Handle a connection or a request: execute this program again if the cause may be fixed."""
        if self.may_be_mended():
            self.start_anew()

    def may_be_mended(self) -> bool:
        """Tell whether the config has changed, or enough time has passed for another cause to be fixed."""
        self._heard = time.monotonic()
        changed = signature(self.start.places.config_file()) != self.start.config_seen
        return changed or self._heard - self._begun > RETRY_SECONDS

    def start_anew(self) -> None:
        """Execute this program again; return only if that is impossible now. Raises Leaving on Windows."""
        if not os.access(sys.executable, os.X_OK):
            # The interpreter is being replaced: stay, and try later.
            self._begun = time.monotonic()
            return
        for guest in self.guests:
            guest.dismiss()
        if sys.platform == "win32":
            self.leave()
            raise Leaving
        self.listener.hand_on()
        core_dumps.restore()
        os.execv(sys.executable, [sys.executable, "-I", "-m", "hearth.daemon", *self.start.again])


def is_welcome(connection: connections.Connection) -> bool:
    """Tell whether the peer is this user. Other allowed users are named in the config, which may be broken."""
    return connections.refusal(connections.peer_of(connection), (), ()) is None


def unavailable(reason: str) -> bytes:
    """Return the response to an HTTP client."""
    body = json.dumps({"error": reason}).encode()
    head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: 5"
    return f"{head}\r\nVary: Origin\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Leaving(Exception):
    """Exception that ends this daemon, because another daemon will answer."""


class Mouthpiece(Protocol):
    """Protocol for the writing side of a client's connection."""

    def sendall(self, data: bytes, /) -> object:
        """Write everything. Raises OSError."""


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


class Guest:
    """Client connection that speaks frames or lines; the first byte decides."""

    def __init__(self, connection: Mouthpiece, token: str = "") -> None:
        self._connection = connection
        # The token that the client's first frame has to show; empty where the kernel identifies the peer.
        self._token = token
        self._frames: FrameDecoder | None = None
        self._lines: Lines | None = None
        self._taken = 0

    def receive(self, host: Degraded, data: bytes) -> bool:
        """Answer the data that was read, which is empty at EOF; return False when the connection is over."""
        if not data:
            rest = self._lines.rest() if self._lines else b""
            self._say_line(answer_to(rest, host.reason) if rest else None)
            return False
        if self._frames is None and self._lines is None:
            if self._token and data[0] >= 0x10:
                return False
            if data[0] < 0x10:
                self._frames = FrameDecoder()
            elif data[:1].isupper():
                host.consulted()
                self._connection.sendall(unavailable(host.reason))
                return False
            else:
                self._lines = Lines()
        if self._frames is not None:
            frames = self._frames.receive_data(data)
            if self._token and frames:
                # The first frame has to show the token; a client that does not show it is not told the reason.
                if not _has_token(frames[0][0], self._token):
                    return False
                self._token = ""
            return all(self._receive_frame(host, header, payload) for header, payload in frames)
        assert self._lines is not None
        lines = self._lines.receive(data)
        if self._lines.size > MESSAGE_LIMIT_BYTES:
            return False
        mended = host.may_be_mended()
        for line in lines:
            self._say_line(answer_to(line, host.reason))
        if mended:
            # Only after the answers: no bridge would send this client's lines again.
            host.start_anew()
        return True

    def _say_line(self, answer: bytes | None) -> None:
        if answer is not None:
            self._connection.sendall(answer + b"\n")

    def _say(self, header: dict[str, object], payload: bytes = b"") -> None:
        self._connection.sendall(encode(json.dumps(header).encode(), payload))

    def _receive_frame(self, host: Degraded, header: bytes, payload: bytes) -> bool:
        frame = _read_header(header)
        kind, seq = frame.get("type"), frame.get("seq", 0)
        if kind == "mcp":
            host.consulted()
            answer = answer_to(payload, host.reason)
            self._taken = seq
            if answer is None:
                self._say({"type": "ack", "seq": seq, "done": [seq]})
            else:
                self._say({"type": "mcp", "re": seq}, answer)
        elif kind == "hello":
            self._say({"type": "helloAck", "protocol": PROTOCOL_VERSION, "sessionId": "degraded", "secret": "",
                       "daemonId": "degraded", "isOwner": False, "heartbeatSeconds": 5})  # fmt: skip
        elif kind == "status":
            self._say({"type": "status", "re": seq}, json.dumps(_status(host)).encode())
        elif kind in ("reload", "shutdown"):
            return self._act(host, kind, seq)
        elif kind in ("tools", "restart"):
            self._say({"type": kind, "re": seq, "ok": False, "message": host.reason})
        return bool(kind != "goodbye")

    def _act(self, host: Degraded, kind: str, seq: int) -> bool:
        self._say({"type": kind, "re": seq, "ok": kind == "shutdown", "message": host.reason})
        if kind == "shutdown":
            host.leave()
        else:
            host.consulted()
        return True

    def dismiss(self) -> None:
        """Tell a bridge to reconnect; lines that were not answered count as never taken."""
        if self._frames is not None:
            try:
                self._say({"type": "goodbye", "reconnect": True, "taken": self._taken, "reason": "starting anew"})
            except OSError:
                pass


def _read_header(header: bytes) -> dict[str, Any]:
    """Return the header of a frame. Raises FrameError: over TCP, any user of this machine can send one."""
    try:
        found = json.loads(header)
    except (ValueError, RecursionError) as exc:
        raise FrameError("the header is not JSON, or is nested too deeply") from exc
    if not isinstance(found, dict):
        raise FrameError("the header is not an object")
    return found


def _has_token(header: bytes, token: str) -> bool:
    import hmac

    given = _read_header(header).get("token")
    return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


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
    error = {"code": StartError.rpc_code, "message": f"Hearth cannot serve: {reason}"}
    return {"jsonrpc": "2.0", "id": message["id"], "error": error}


def _status(host: Degraded) -> dict[str, object]:
    from hearth import __version__

    return {
        "running": True, "pid": os.getpid(), "endpoint": host.start.places.socket, "version": __version__,
        "executable": sys.executable, "uptimeSeconds": round(time.monotonic() - host._begun, 3), "owner": None,
        "daemonId": "degraded",
        "profile": host.start.places.key, "configPath": host.start.places.config_file(), "configHash": "",
        "configError": None, "activation": host.start.activation, "containment": None, "degraded": host.reason,
        "sessions": [], "upstreams": [],
    }  # fmt: skip
