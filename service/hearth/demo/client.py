"""An agent's side of MCP over a child's pipes, as small as it can be, with the time of every answer.

The child may be a bridge or a server: to a client they are the same. Its first line is written when the
child has barely been started, as clients do. Knows nothing of Hearth.
"""

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hearth import __version__
from hearth.demo.protocol import CAPABILITIES_KEY, LEGACY_VERSIONS, MODERN_VERSION, VERSION_KEY
from hearth.errors import HearthError

# Five servers that import a large SDK at once, on a slow machine, have been seen to take ten seconds.
ANSWER_SECONDS = 60.0
LEAVE_SECONDS = 10.0

Message = dict[str, Any]


class ClientError(HearthError):
    """The child did not behave; the sentence says which and how."""


class Client:
    """One child process and the conversation with it."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], modern: bool) -> None:
        self.name = name
        self._modern = modern
        self._ids = 0
        self._arrived: queue.SimpleQueue[tuple[float, Message] | None] = queue.SimpleQueue()
        self._kept: list[tuple[float, Message]] = []
        self._tools: list[str] = []
        self.opened: Message = {}
        self._started = time.monotonic()
        # A session of its own: Ctrl-C at the terminal is for the demo, which then ends its children itself.
        self.process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        self._opening = self._open()

    def first_answer(self) -> float:
        """Seconds from the start of the child to its first answer. Raises ClientError."""
        arrived, self.opened = self._result(self._opening)
        if not self._modern:
            self._write({"method": "notifications/initialized"})
        return arrived - self._started

    def tools_listed(self) -> float:
        """Seconds from the start of the child to its list of tools. Raises ClientError."""
        arrived, result = self._result(self.request("tools/list"))
        self._tools = [each["name"] for each in result["tools"]]
        return arrived - self._started

    def request(self, method: str, **params: Any) -> int:
        """Send a request; return its id."""
        self._ids += 1
        if self._modern:
            known = {VERSION_KEY: MODERN_VERSION, CAPABILITIES_KEY: {}}
            params["_meta"] = known | params.get("_meta", {})
        self._write({"id": self._ids, "method": method, "params": params})
        return self._ids

    def call(self, tool: str, progress: bool = False, **arguments: Any) -> int:
        """Call a tool, whatever stands before its name; return the request's id. Raises ClientError."""
        meta = {"_meta": {"progressToken": self._ids + 1}} if progress else {}
        return self.request("tools/call", name=self._full_name(tool), arguments=arguments, **meta)

    def text(self, request: int) -> str:
        """The text that a call returned. Raises ClientError, also for a tool that failed."""
        _, result = self._result(request)
        if result.get("isError"):
            raise ClientError(f"{self.name} called a tool that failed: {json.dumps(result)}")
        return str(result["content"][0]["text"])

    def wait_for_progress(self, request: int) -> None:
        """Wait for the first sign that a call runs. Raises ClientError."""
        self._wait(lambda message: message.get("params", {}).get("progressToken") == request, "progress")

    def hang_up(self) -> None:
        """End the conversation as clients do, by closing the child's input."""
        assert self.process.stdin
        self.process.stdin.close()

    def leave(self) -> int:
        """Hang up, and wait for the child's end; return its exit code. Raises ClientError."""
        self.hang_up()
        try:
            return self.process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired as exc:
            raise ClientError(f"{self.name} is still there {LEAVE_SECONDS:g} s after its input ended") from exc

    def _open(self) -> int:
        if self._modern:
            return self.request("server/discover")
        information = {"name": self.name, "version": __version__}
        return self.request("initialize", protocolVersion=LEGACY_VERSIONS[0], capabilities={}, clientInfo=information)

    def _full_name(self, tool: str) -> str:
        if not self._tools:
            self.tools_listed()
        for name in self._tools:
            if name == tool or name.endswith(f"__{tool}"):
                return name
        raise ClientError(f"{self.name} was not offered the tool {tool!r}, only {', '.join(self._tools) or 'none'}")

    def _result(self, request: int) -> tuple[float, Message]:
        def is_it(message: Message) -> bool:
            return message.get("id") == request and "method" not in message

        arrived, answer = self._wait(is_it, "an answer")
        if "error" in answer:
            raise ClientError(f"{self.name} got an error: {answer['error'].get('message')}")
        return arrived, answer["result"]

    def _wait(self, wanted: Callable[[Message], bool], what: str) -> tuple[float, Message]:
        for index, kept in enumerate(self._kept):
            if wanted(kept[1]):
                return self._kept.pop(index)
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                arrived = self._arrived.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty as exc:
                raise ClientError(f"{self.name} waited {ANSWER_SECONDS:g} s for {what}") from exc
            if arrived is None:
                raise ClientError(f"{self.name} lost its process while it waited for {what}")
            if wanted(arrived[1]):
                return arrived
            self._kept.append(arrived)

    def _write(self, message: Message) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as exc:
            raise ClientError(f"{self.name} cannot write to its process: {exc.strerror}") from exc

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._arrived.put((time.monotonic(), json.loads(line)))
        self._arrived.put(None)
