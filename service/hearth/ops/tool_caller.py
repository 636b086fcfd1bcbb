"""A client for a person: a bridge with one server behind it, its tools, and one call at a time.

Speaks MCP 2025-11-25, in which a server's questions come on the line while the call waits; the daemon translates for
servers of any other. The bridge lights the daemon, and says in its answers what is wrong when there is none to be had.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from hearth import __version__
from hearth.clients.launcher import bridge_command
from hearth.errors import HearthError, UpstreamError
from hearth.paths import Places
from hearth.stdio_client import Conversation, Message

VERSION = "2025-11-25"
# The opening and the list are answered from what is kept, or within list_timeout, behind the start of a daemon; all of
# it is bounded there. Beyond this, something hangs.
OPENING_SECONDS = 120.0
METHOD_NOT_FOUND = -32601
LIST_CHANGED = "notifications/tools/list_changed"
_PROGRESS_TOKEN = "call"

Progress = Callable[[Message], None]
# A method and its params to the result; None for what nobody here can answer.
Question = Callable[[str, Message], Message | None]


class CallError(UpstreamError):
    """The call was answered with an error: `error` is that, as it came."""

    def __init__(self, sentence: str, error: Message) -> None:
        super().__init__(sentence)
        self.error = error


class ToolCaller:
    """One session with one server, by a bridge of its own or by the command of one."""

    def __init__(
        self,
        places: Places,
        server: str,
        answer: Question,
        progress: Progress,
        command: Sequence[str] = (),
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._server = server
        self._answer = answer
        self._progress = progress
        command = command or bridge_command(places, ["--server", server, "--mode", "full"])
        self._conversation = Conversation(f"the bridge to {server}", command, environ)

    def __enter__(self) -> "ToolCaller":
        try:
            self._open()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _open(self) -> None:
        capabilities: Message = {"elicitation": {"form": {}, "url": {}}, "roots": {}}
        information = {"name": "hearth-call", "version": __version__}
        self._ask(
            "initialize",
            {"protocolVersion": VERSION, "capabilities": capabilities, "clientInfo": information},
            OPENING_SECONDS,
        )
        self._conversation.send({"method": "notifications/initialized"})

    def _end(self) -> None:
        try:
            self._conversation.leave()
        except HearthError:
            self._conversation.process.kill()
            self._conversation.process.wait()

    def tools(self, seconds: float | None) -> list[Message]:
        """Return the tools that the server offers. Raises HearthError."""
        listed = self._ask("tools/list", {}, min(seconds or OPENING_SECONDS, OPENING_SECONDS)).get("tools")
        return [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []

    def await_change(self, seconds: float) -> None:
        """Wait until the server's list of tools is said to have changed, or for so long. Raises HearthError."""
        self._receive(seconds, lambda message: message.get("method") == LIST_CHANGED)

    def call(self, tool: str, arguments: Message, seconds: float | None) -> Message:
        """The result of a call; no limit but the server's own without `seconds`. Raises CallError, UpstreamError.

        Whoever interrupts it has cancelled it.
        """
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": _PROGRESS_TOKEN}}
        return self._ask("tools/call", params, seconds)

    def _ask(self, method: str, params: Message, seconds: float | None) -> Message:
        request = self._conversation.send_request(method, params)
        try:
            answer = self._wait(request, seconds)
        except KeyboardInterrupt:
            self._cancel(request, "interrupted by the user")
            raise
        if answer is None:
            self._cancel(request, "it took too long")
            raise UpstreamError(f"{self._server} did not answer within {seconds:g} s, and was told to stop")
        error = answer.get("error")
        if isinstance(error, dict):
            raise CallError(str(error.get("message") or "it failed, and does not say why"), error)
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    def _wait(self, request: int, seconds: float | None) -> Message | None:
        return self._receive(seconds, lambda message: "method" not in message and message.get("id") == request)

    def _receive(self, seconds: float | None, is_wanted: Callable[[Message], bool]) -> Message | None:
        """Take messages until the wanted one, which is returned; None where it does not come within the time."""
        left = seconds if seconds is not None else float("inf")
        while left > 0:
            begun = time.monotonic()
            # A wait without any bound could not be interrupted everywhere.
            arrived = self._conversation.receive(min(left, 3600.0))
            left -= time.monotonic() - begun
            if arrived is None:
                continue
            message = arrived[1]
            if is_wanted(message):
                return message
            if "method" not in message:
                continue
            if "id" in message:
                # However long a person takes: that is not the server's time.
                self._conversation.send({"id": message["id"], **self._reply(message)})
            elif message["method"] == "notifications/progress":
                self._progress(_params(message))
        return None

    def _reply(self, message: Message) -> Message:
        if message["method"] == "ping":
            return {"result": {}}
        result = self._answer(str(message["method"]), _params(message))
        if result is None:
            sentence = f"`hearth call` cannot answer {message['method']}"
            return {"error": {"code": METHOD_NOT_FOUND, "message": sentence}}
        return {"result": result}

    def _cancel(self, request: int, reason: str) -> None:
        try:
            self._conversation.send(
                {"method": "notifications/cancelled", "params": {"requestId": request, "reason": reason}}
            )
        except HearthError:
            # Gone, and the call with it.
            pass


def _params(message: Message) -> dict[str, Any]:
    params = message.get("params")
    return params if isinstance(params, dict) else {}
