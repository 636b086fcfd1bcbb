"""A small MCP client on the pipes of a bridge, as an agent would hold it."""

import json
import os
import select
import subprocess
import time
from typing import Any

# Above every wait that is part of the behaviour: drain 10 s, stop 10 s, the patience of the bridge.
ANSWER_LIMIT_SECONDS = 60.0
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "e2e", "version": "1"}}


class RpcError(Exception):
    """The answer was a JSON-RPC error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message"))
        self.code = error.get("code")
        self.message = str(error.get("message"))


class Client:
    """Speaks the legacy era over a process's stdin and stdout. Leaving it as a context ends the process."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._buffer = b""
        self._last_id = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self.notifications: list[dict[str, Any]] = []

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int:
        """Close its stdin, as a client that ends does, and return the exit code."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            return self.process.wait(ANSWER_LIMIT_SECONDS)
        finally:
            # Only on the way out of a failed test is it still there.
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    @property
    def is_alive(self) -> bool:
        """Whether the bridge still runs."""
        return self.process.poll() is None

    def send(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request without waiting; return its id."""
        self._last_id += 1
        self._write({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params or {}})
        return self._last_id

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._write({"jsonrpc": "2.0", "method": method})

    def answer(self, request_id: int, limit: float = ANSWER_LIMIT_SECONDS) -> dict[str, Any]:
        """The result for a request that was sent. Raises RpcError."""
        deadline = time.monotonic() + limit
        while request_id not in self._answers:
            self._read(deadline)
        found = self._answers.pop(request_id)
        if "error" in found:
            raise RpcError(found["error"])
        return found["result"]

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask, and wait for the result. Raises RpcError."""
        return self.answer(self.send(method, params))

    def initialize(self) -> dict[str, Any]:
        """The legacy handshake."""
        result = self.request("initialize", INITIALIZE)
        self.notify("notifications/initialized")
        return result

    def tool_names(self) -> list[str]:
        """The names in `tools/list`."""
        return [tool["name"] for tool in self.request("tools/list")["tools"]]

    def send_call(self, tool: str, **arguments: Any) -> int:
        """Begin a tool call; return its id."""
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool and return its text. Raises RpcError."""
        return text_of(self.answer(self.send_call(tool, **arguments)))

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def _read(self, deadline: float) -> None:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        left = deadline - time.monotonic()
        assert left > 0 and select.select([descriptor], [], [], left)[0], "the bridge did not answer in time"
        chunk = os.read(descriptor, 65536)
        assert chunk, f"the bridge ended with exit code {self.process.wait()} and owes an answer"
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            self._receive(json.loads(line))

    def _receive(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self.notifications.append(message)
            return
        assert message["id"] not in self._answers, f"a second answer to request {message['id']}"
        self._answers[message["id"]] = message


def text_of(result: dict[str, Any]) -> str:
    """The text of a tool's result that is no failure."""
    assert not result.get("isError"), result
    return "".join(part["text"] for part in result["content"])
