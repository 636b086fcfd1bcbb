"""How a client's messages travel: as lines on the daemon's socket, or through a child process's stdio."""

import json
import time
from pathlib import Path
from typing import Any, Protocol

from support.clients import Stream
from support.scripted_daemon import BOUND_SECONDS, SCRIPT, BridgeProcess, readable

Message = dict[str, Any]

SERVER = Path(__file__).parent / "upstreams" / "revision_server.py"


class Wire(Protocol):
    """Carries messages; every read is bounded."""

    def send(self, message: Message) -> None: ...
    def receive(self) -> Message: ...
    def close(self) -> None: ...


class Lines:
    """Lines on the daemon's socket."""

    def __init__(self, path: str) -> None:
        self._stream = Stream(path)

    def send(self, message: Message) -> None:
        self._stream.send(json.dumps(message).encode() + b"\n")

    def receive(self) -> Message:
        return json.loads(self._stream.take_line())

    def close(self) -> None:
        self._stream.close()


class Child:
    """Lines on the stdio of a child: the bridge, or a server without anything between."""

    def __init__(self, home: Path, environment: dict[str, str], *words: str, script: Path = SCRIPT) -> None:
        self._process = BridgeProcess(home, *words, script=script, environment=environment, cwd=home)

    def send(self, message: Message) -> None:
        self._process.send(message)

    def receive(self) -> Message:
        return self._process.read()

    def close(self) -> None:
        """End it as a client does: by the end of its input."""
        process = self._process
        process.end_input()
        deadline = time.monotonic() + BOUND_SECONDS
        while readable(process.output, deadline - time.monotonic()) and process.output.read(1 << 16):
            continue
        process.close()
