"""MCP client of an agent, over a child's pipes, in either era, with the time of every answer.

The first line is written right after the start of the child, as clients do. Knows nothing of Hearth.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hearth import __version__
from hearth.demo.server import CAPABILITIES_KEY, LEGACY_VERSIONS, MODERN_VERSION, VERSION_KEY
from hearth.stdio_client import ClientError, Conversation, Message

# Five servers that import a large SDK at once took ten seconds on a slow machine.
ANSWER_SECONDS = 60.0


class DemoClient(Conversation):
    """Client with one child process, and the conversation with it."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], modern: bool) -> None:
        super().__init__(name, command, environment)
        self._modern = modern
        self._kept: list[tuple[float, Message]] = []
        self._tools: list[str] = []
        self.opened: Message = {}
        self._opening = self._open()

    def first_answer(self) -> float:
        """Return the seconds from the start of the child to its first answer. Raises ClientError."""
        arrived, self.opened = self._result(self._opening)
        if not self._modern:
            self.send({"method": "notifications/initialized"})
        return arrived - self.started

    def tools_listed(self) -> float:
        """Return the seconds from the start of the child to its list of tools. Raises ClientError."""
        arrived, result = self._result(self.request("tools/list"))
        self._tools = [each["name"] for each in result["tools"]]
        return arrived - self.started

    def request(self, method: str, **params: Any) -> int:
        """Send a request; return its id."""
        if self._modern:
            known = {VERSION_KEY: MODERN_VERSION, CAPABILITIES_KEY: {}}
            params["_meta"] = known | params.get("_meta", {})
        return self.send_request(method, params)

    def call(self, tool: str, progress: bool = False, **arguments: Any) -> int:
        """Call a tool, whatever prefix its name has; return the request's id. Raises ClientError."""
        meta = {"_meta": {"progressToken": self._ids + 1}} if progress else {}
        return self.request("tools/call", name=self._full_name(tool), arguments=arguments, **meta)

    def text(self, request: int) -> str:
        """Return the text of a call's result. Raises ClientError, also for a tool that failed."""
        _, result = self._result(request)
        if result.get("isError"):
            raise ClientError(f"{self.name} called a tool that failed: {json.dumps(result)}")
        return str(result["content"][0]["text"])

    def wait_for_progress(self, request: int) -> None:
        """Wait for the first progress notification of a call. Raises ClientError."""
        self._wait(lambda message: message.get("params", {}).get("progressToken") == request, "progress")

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
            arrived = self.receive(deadline - time.monotonic())
            if arrived is None:
                raise ClientError(f"{self.name} waited {ANSWER_SECONDS:g} s for {what}")
            if wanted(arrived[1]):
                return arrived
            self._kept.append(arrived)
