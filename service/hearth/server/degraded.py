"""The degraded daemon: it cannot serve, so it says why. Standard library only: it works when nothing else does.

Every request is answered with -32603 and the reason. When the cause may be mended (the config file is another one,
or some seconds have passed), it tells its bridges to come back, executes itself anew and lets them find out; what they
had asked is asked again, because it was never taken. The listener stays open all the while.
"""

import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING

from hearth.errors import HearthError, StartError, WireError
from hearth.host import signals
from hearth.host.listener import Listener
from hearth.host.peers import own_uid, peer_of
from hearth.server.entry import Start, signature
from hearth.wire.frames import MESSAGE_LIMIT_BYTES, PROTOCOL_VERSION, FrameDecoder, encode

if TYPE_CHECKING:
    from hearth.server.claim import Claim

# Nobody needs an explanation that nobody asks for.
IDLE_SECONDS = 60.0
# A cause that is not the config file cannot be watched; a request this long after the last try is a reason to try.
RETRY_SECONDS = 2.0
_READ_BYTES = 65536


def run(start: Start, cause: Exception) -> int:
    """Explain `cause` to whoever connects, until it is mended or nobody asks. Returns the exit code."""
    reason = _describe(cause)
    claim: Claim | None = None
    try:
        claim = _claim(start)
        listener = start.listen()
    except HearthError as exc:
        if claim:
            claim.release()
        return _give_up(start, reason if reason == str(exc) else f"{reason} ({exc})", exc)
    level = "<3>" if start.activation == "systemd" else ""
    print(f"{level}hearth: degraded: {reason}", file=sys.stderr)
    start.report("ok")
    try:
        return Degraded(start, listener, reason).serve()
    finally:
        listener.retire()
        if claim:
            claim.release()


def _give_up(start: Start, reason: str, exc: HearthError) -> int:
    print(f"hearth: {reason}", file=sys.stderr)
    start.report(reason)
    return exc.exit_code


def _describe(cause: Exception) -> str:
    if isinstance(cause, HearthError):
        return str(cause)
    return f"Hearth's installation is broken ({type(cause).__name__}: {cause}); install it again"


def _claim(start: Start) -> "Claim | None":
    """The daemon lock where it can be had; an activated daemon explains itself without it, too."""
    try:
        from hearth.server.claim import Claim

        claim = Claim(start.places)
        claim.take(start.adopted)
        claim.register("degraded", "")
    except Exception:
        if not start.adopted:
            raise
        return None
    return claim


class Degraded:
    """One loop over all connections; there is nothing here that could block or grow."""

    def __init__(self, start: Start, listener: Listener, reason: str) -> None:
        self._start = start
        self._listener = listener
        self.reason = reason
        self._begun = time.monotonic()
        self._heard = self._begun
        self._guests: dict[int, Guest] = {}
        self._poll = selectors.DefaultSelector()
        self._going = False
        self._look_again = False

    def serve(self) -> int:
        """Explain until it is time to go."""
        self._watch_signals()
        self._poll.register(self._listener.socket, selectors.EVENT_READ)
        self._start.notifier.ready(f"degraded: {self.reason}")
        while not self._going and (self._guests or time.monotonic() - self._heard < IDLE_SECONDS):
            for key, _ in self._poll.select(self._pause()):
                self._turn(key.fd)
            if self._look_again:
                self.start_anew()
            self._start.notifier.watchdog()
        return 0

    def _watch_signals(self) -> None:
        for number in filter(None, (*signals.END, signals.HAND_OVER)):
            signal.signal(number, self._go)
        if signals.HANG_UP:
            signal.signal(signals.HANG_UP, self._hung_up)
        # Python goes on waiting after a handler has run; the byte that is written here ends the wait.
        self._woken, waker = socket.socketpair()
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.detach())
        self._poll.register(self._woken, selectors.EVENT_READ)

    def _pause(self) -> float:
        return min(1.0, self._start.notifier.watchdog_seconds or 1.0)

    def _go(self, number: int, frame: object) -> None:
        self._going = True

    def _hung_up(self, number: int, frame: object) -> None:
        self._look_again = True

    def _turn(self, descriptor: int) -> None:
        if descriptor == self._listener.socket.fileno():
            self._welcome()
            return
        if descriptor == self._woken.fileno():
            self._woken.recv(_READ_BYTES)
            return
        guest = self._guests[descriptor]
        try:
            stays = guest.receive(self)
        except (OSError, WireError, ValueError):
            stays = False
        if not stays:
            self._poll.unregister(descriptor)
            del self._guests[descriptor]
            guest.connection.close()

    def _welcome(self) -> None:
        # Before it is accepted: then it waits in the kernel's queue, and is served by whoever listens next.
        self.consulted()
        try:
            connection = self._listener.accept()
        except OSError:
            return
        if connection is None:
            return
        if not _is_mine(connection):
            # Who else may come stands in the config, which may be what is broken.
            connection.close()
            return
        # A reader that does not read loses its connection by the timeout, not our time.
        connection.settimeout(1.0)
        self._guests[connection.fileno()] = Guest(connection)
        self._poll.register(connection, selectors.EVENT_READ)

    def consulted(self) -> None:
        """Somebody came or asked: look whether the cause may be mended, and if so start anew."""
        if self.may_be_mended():
            self.start_anew()

    def may_be_mended(self) -> bool:
        """Whether the config is another one, or enough time has passed for something else to be."""
        self._heard = time.monotonic()
        changed = signature(self._start.places.config_file()) != self._start.config_seen
        return changed or self._heard - self._begun > RETRY_SECONDS

    def start_anew(self) -> None:
        """Execute this program again; returns only if that cannot be done now."""
        self._look_again = False
        if not os.access(sys.executable, os.X_OK):
            # The interpreter is just being replaced: stay, and try later.
            self._begun = time.monotonic()
            return
        for guest in self._guests.values():
            guest.dismiss()
        self._listener.hand_on()
        os.execv(sys.executable, [sys.executable, "-I", "-m", "hearth.server", *self._start.again])


def _is_mine(connection: socket.socket) -> bool:
    peer = peer_of(connection)
    return peer is not None and peer.uid == own_uid()


class Guest:
    """One connection: frames or lines, told by the first byte."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._frames: FrameDecoder | None = None
        self._rest: bytes | None = None
        self._taken = 0

    def receive(self, host: Degraded) -> bool:
        """Read once and answer; False when the connection is over."""
        data = self.connection.recv(_READ_BYTES)
        if not data:
            self._say_line(_answer(self._rest, host.reason) if self._rest else None)
            return False
        if self._frames is None and self._rest is None:
            if data[0] < 0x10:
                self._frames = FrameDecoder()
            else:
                self._rest = b""
        if self._frames is not None:
            frames = self._frames.receive_data(data)
            return all(self._receive_frame(host, header, payload) for header, payload in frames)
        *lines, self._rest = ((self._rest or b"") + data).split(b"\n")
        if len(self._rest) > MESSAGE_LIMIT_BYTES:
            return False
        mended = host.may_be_mended()
        for line in lines:
            self._say_line(_answer(line, host.reason))
        if mended:
            # Only now: nobody would send such a client's line again.
            host.start_anew()
        return True

    def _say_line(self, answer: bytes | None) -> None:
        if answer is not None:
            self.connection.sendall(answer + b"\n")

    def _say(self, header: dict[str, object], payload: bytes = b"") -> None:
        self.connection.sendall(encode(json.dumps(header).encode(), payload))

    def _receive_frame(self, host: Degraded, header: bytes, payload: bytes) -> bool:
        frame = json.loads(header)
        kind, seq = frame.get("type"), frame.get("seq", 0)
        if kind == "mcp":
            host.consulted()
            answer = _answer(payload, host.reason)
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
            host._go(0, None)
        else:
            host.consulted()
        return True

    def dismiss(self) -> None:
        """Tell a bridge to come back; what it sent and was not answered counts as never taken."""
        if self._frames is not None:
            try:
                self._say({"type": "goodbye", "reconnect": True, "taken": self._taken, "reason": "starting anew"})
            except OSError:
                pass


def _answer(line: bytes, reason: str) -> bytes | None:
    """The error for a request, one array of them for a batch, None for what has no answer."""
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
        "running": True, "pid": os.getpid(), "endpoint": host._start.places.socket, "version": __version__,
        "executable": sys.executable, "uptimeSeconds": round(time.monotonic() - host._begun, 3), "owner": None,
        "daemonId": "degraded",
        "profile": host._start.places.key, "configPath": host._start.places.config_file(), "configHash": "",
        "configError": None, "activation": host._start.activation, "containment": None, "degraded": host.reason,
        "sessions": [], "upstreams": [],
    }  # fmt: skip
