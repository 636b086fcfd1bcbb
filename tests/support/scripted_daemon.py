"""A daemon that does what a test dictates, and a bridge that runs as a client would run it.

`ScriptedDaemon` listens on a real socket; each connection is a `Wire` on which the test reads and writes frames, so
that a test can be any daemon: a good one, a dying one, a mad one. Every wait has the same bound.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hearth.wire.frames import FrameDecoder, encode

SERVICE = Path(__file__).parents[2] / "service"
SCRIPT = SERVICE / "hearth" / "bridge" / "main.py"
# For everything that must happen. Two noisy cores, shared: nothing here is about speed.
BOUND_SECONDS = 30.0
# For what must not happen.
SILENCE_SECONDS = 0.3

Message = dict[str, Any]


def readable(source: Any, seconds: float) -> bool:
    """Whether something, or the end, can be read within that time."""
    return bool(select.select([source], [], [], seconds)[0])


def eventually(condition: Callable[[], Any]) -> Any:
    """Poll until the condition holds; its value."""
    deadline = time.monotonic() + BOUND_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
    return value


class Wire:
    """One connection of a bridge, seen from the daemon."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        connection.settimeout(BOUND_SECONDS)
        self._decoder = FrameDecoder()
        self._frames: list[tuple[bytes, bytes]] = []

    def read(self) -> tuple[Message, bytes]:
        """The next frame but heartbeats."""
        while True:
            header, payload = self.read_any()
            if header["type"] != "heartbeat":
                return header, payload

    def read_any(self) -> tuple[Message, bytes]:
        """The next frame."""
        while not self._frames:
            data = self.socket.recv(65536)
            assert data, "the bridge hung up"
            self._frames += self._decoder.receive_data(data)
        header, payload = self._frames.pop(0)
        return json.loads(header), payload

    def read_line(self) -> tuple[Message, Message]:
        """The next frame, which must be a line; header and parsed message."""
        header, payload = self.read()
        assert header["type"] == "mcp", header
        return header, json.loads(payload)

    def greet(self, **keys: Any) -> Message:
        """Read hello, send helloAck; what hello said."""
        hello, _ = self.read()
        assert hello["type"] == "hello"
        welcome: Message = {
            "type": "helloAck",
            "protocol": 1,
            "version": "0.1.0",
            "sessionId": "session-1",
            "secret": "secret-1",
            "daemonId": "d1",
            "isOwner": True,
            "heartbeatSeconds": 5,
        }
        self.send({**welcome, **keys})
        return hello

    def send(self, header: Message, payload: bytes = b"") -> None:
        """One frame."""
        self.socket.sendall(encode(json.dumps(header, separators=(",", ":")).encode(), payload))

    def answer(self, seq: int, id: object, result: Any = None, **keys: Any) -> None:
        """The answer to the line `seq`."""
        payload = json.dumps({"jsonrpc": "2.0", "id": id, "result": result or {}}).encode()
        self.send({"type": "mcp", "re": seq, **keys}, payload)

    def notify(self, method: str) -> None:
        """A notification."""
        self.send({"type": "mcp"}, json.dumps({"jsonrpc": "2.0", "method": method}).encode())

    def ask(self, id: str, method: str = "elicitation/create") -> None:
        """A question to the client."""
        self.send({"type": "mcp", "ask": id}, json.dumps({"jsonrpc": "2.0", "id": id, "method": method}).encode())

    def read_eof(self) -> None:
        """Wait for the bridge's end of this connection to close, whatever it still says."""
        with contextlib.suppress(ConnectionResetError):
            while self.socket.recv(65536):
                pass

    def close(self) -> None:
        """Die."""
        self.socket.close()


class ScriptedDaemon:
    """The listening side. A closed `Wire` is a dead daemon, the next one a new daemon."""

    def __init__(self, path: Path, backlog: int = 100) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen(backlog)
        self.listener.settimeout(BOUND_SECONDS)
        self._wires: list[Wire] = []

    def accept(self) -> Wire:
        """The next connection."""
        wire = Wire(self.listener.accept()[0])
        self._wires.append(wire)
        return wire

    def welcome(self, after: Wire | None = None) -> Wire:
        """Accept the next connection, after another has ended, and open a session on it."""
        if after:
            after.close()
        wire = self.accept()
        wire.greet()
        return wire

    def is_left_alone(self) -> bool:
        """Whether nobody connects for a while."""
        return not readable(self.listener, SILENCE_SECONDS)

    def close(self) -> None:
        """Close everything."""
        self.listener.close()
        for wire in self._wires:
            wire.close()


class BridgeProcess:
    """A bridge, and the client that started it."""

    def __init__(self, home: Path, *arguments: str, script: Path = SCRIPT, **settings: Any) -> None:
        python = settings.pop("python", sys.executable)
        environment = settings.pop("environment", None) or client_environment(home)
        environment.update(settings.pop("extra", {}))
        self.child = subprocess.Popen(
            [python, "-I", "-S", str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            bufsize=0,
            **settings,
        )
        assert self.child.stdin and self.child.stdout and self.child.stderr
        self.input, self.output, self.errors = self.child.stdin, self.child.stdout, self.child.stderr
        self._pending = b""

    def write(self, data: bytes) -> None:
        """Bytes to standard input, all of them."""
        left = memoryview(data)
        while left:
            left = left[self.input.write(left) :]

    def fill_input(self) -> None:
        """Notifications until the pipe is full; the last is cut off."""
        line = b'{"jsonrpc":"2.0","method":"notifications/x","params":"' + b"x" * 50_000 + b'"}\n'
        os.set_blocking(self.input.fileno(), False)
        left = line
        # A full pipe may be emptied once more by the bridge: only a quiet one shows that it is stuck.
        while select.select([], [self.input], [], SILENCE_SECONDS)[1]:
            # What did not fit goes first: only the last line of all is to be cut off.
            left = left[self.input.write(left) or 0 :] or line
        os.set_blocking(self.input.fileno(), True)

    def send(self, *messages: Message) -> None:
        """Messages, one per line."""
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def request(self, id: object, method: str = "tools/call") -> None:
        """A request."""
        self.send({"jsonrpc": "2.0", "id": id, "method": method})

    def notify(self, method: str) -> None:
        """A notification."""
        self.send({"jsonrpc": "2.0", "method": method})

    def read_raw(self) -> bytes:
        """The next line of standard output, without its end."""
        deadline = time.monotonic() + BOUND_SECONDS
        while b"\n" not in self._pending:
            assert readable(self.output, deadline - time.monotonic()), "the bridge says nothing"
            data = os.read(self.output.fileno(), 65536)
            assert data, f"the bridge ended: {self.stderr()}"
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def read(self) -> Message:
        """The next message."""
        return json.loads(self.read_raw())

    def read_rest(self) -> list[Message]:
        """Everything until the bridge closes its output."""
        data = self._pending
        while True:
            assert readable(self.output, BOUND_SECONDS), "the bridge does not end"
            chunk = os.read(self.output.fileno(), 65536)
            if not chunk:
                break
            data += chunk
        return [json.loads(line) for line in data.splitlines()]

    def request_on(self, wire: Wire, id: object, *words: str) -> None:
        """Send a request and see it come to the daemon."""
        self.request(id, *words)
        wire.read_line()

    def expect_answer(self, wire: Wire, id: object) -> None:
        """Have the daemon answer the line that comes next, and see the answer to that id come here."""
        wire.answer(wire.read_line()[0]["seq"], id)
        assert self.read()["id"] == id

    def is_silent(self) -> bool:
        """Whether nothing comes for a while."""
        return not self._pending and not readable(self.output, SILENCE_SECONDS)

    def end_input(self) -> None:
        """The client closes its side."""
        self.input.close()

    def wait(self) -> int:
        """The exit code."""
        return self.child.wait(BOUND_SECONDS)

    def stderr(self) -> str:
        """What was said on standard error so far."""
        os.set_blocking(self.errors.fileno(), False)
        return (self.errors.read() or b"").decode()

    def close(self) -> None:
        """End it, if it has not."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGCONT)
            self.child.kill()
        self.child.wait(BOUND_SECONDS)
        for stream in (self.input, self.output, self.errors):
            stream.close()


def client_environment(home: Path) -> dict[str, str]:
    """What an MCP client hands over, and the one variable that keeps a test away from this user's own daemon."""
    return {
        "HOME": str(home),
        "LOGNAME": "somebody",
        "PATH": os.environ["PATH"],
        "SHELL": "/bin/sh",
        "TERM": "dumb",
        "USER": "somebody",
        "XDG_RUNTIME_DIR": str(home),
    }


def end_daemon(entry: Path) -> None:
    """End the real daemon of that registry entry, and see it gone."""
    pid = json.loads(entry.read_text())["pid"]
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))


@contextlib.contextmanager
def scratch_home() -> Iterator[Path]:
    """A home of its own, with a name that is short enough for socket paths."""
    home = Path(tempfile.mkdtemp(dir="/tmp", prefix="hb"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


class Stage:
    """One home, one scripted daemon in its usual place, and any number of bridges."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.socket = home / "mcp" / "mcp.sock"
        self._opened: list[ScriptedDaemon | BridgeProcess] = []

    def daemon(self, path: Path | None = None, backlog: int = 100) -> ScriptedDaemon:
        """Listen."""
        daemon = ScriptedDaemon(path or self.socket, backlog)
        self._opened.append(daemon)
        return daemon

    def bridge(self, *arguments: str, **settings: Any) -> BridgeProcess:
        """Start a bridge."""
        bridge = BridgeProcess(self.home, *arguments, **settings)
        self._opened.append(bridge)
        return bridge

    def bridge_with(self, daemon_script: str, *arguments: str, **settings: Any) -> BridgeProcess:
        """A bridge that takes a shell script for its interpreter, and so starts that as the daemon.

        In the script, `$fd` is the ready pipe. The bridge itself runs in the real interpreter under the other's name.
        """
        path = self.home / "python"
        path.write_text(f'#!/bin/sh\necho "$*" >> {self.home}/starts\nfor fd; do :; done\n{daemon_script}\n')
        path.chmod(0o755)
        return self.bridge(*arguments, python=str(path), executable=os.path.realpath(sys.executable), **settings)

    def refusal(self, daemon_script: str, *arguments: str, **settings: Any) -> str:
        """The message of the error that a request gets from a bridge that starts that script as the daemon."""
        bridge = self.bridge_with(daemon_script, *arguments, **settings)
        bridge.request(1)
        return refused(bridge)

    def starts(self) -> list[str]:
        """The arguments with which that script was run."""
        path = self.home / "starts"
        return path.read_text().splitlines() if path.exists() else []

    def meeting(self, **keys: Any) -> tuple[ScriptedDaemon, BridgeProcess, Wire]:
        """A bridge that has been welcomed by a daemon; `keys` go into helloAck."""
        daemon, bridge = self.daemon(), self.bridge()
        wire = daemon.accept()
        wire.greet(**keys)
        return daemon, bridge, wire

    def close(self) -> None:
        """End everything, also a real daemon that a bridge has started here."""
        for opened in reversed(self._opened):
            opened.close()
        for entry in self.home.glob("mcp/*/daemon.json"):
            end_daemon(entry)


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """A fresh stage, cleared afterwards."""
    with scratch_home() as home:
        scene = Stage(home)
        try:
            yield scene
        finally:
            scene.close()


def opening(id: int = 1) -> dict[str, Any]:
    """Return a client's first request."""
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}


def refused(bridge: BridgeProcess, id: object = 1) -> str:
    """Return the message of the error that answers that request."""
    answer = bridge.read()
    assert (answer["id"], answer["error"]["code"]) == (id, -32603)
    return str(answer["error"]["message"])
