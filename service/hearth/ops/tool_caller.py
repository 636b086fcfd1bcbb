"""MCP client for the command line: a bridge to one server, its tools, and one call at a time.

Speaks MCP 2025-11-25, in which a server's requests arrive on the same line while the call waits; the daemon translates
for servers of other revisions. The bridge starts the daemon, and reports in its answers why none can be started.

`try_all` tries servers in the way of a client: it starts a bridge, initializes it and lists its tools. New servers have
no cached catalog yet, so the list makes the daemon start them. Each trial has a timeout. A server that fails gets a
sentence, and prevents no other trial.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hearth import __version__
from hearth.clients.launcher import bridge_command
from hearth.control_client import running_daemon
from hearth.errors import HearthError, UpstreamError
from hearth.host import system
from hearth.paths import Places
from hearth.stdio_client import Conversation, Message

VERSION = "2025-11-25"
# `initialize` and the list are answered from the catalog cache or within list_timeout, after the start of a daemon;
# each of these has its own bound. Beyond this time, something hangs.
OPENING_SECONDS = 120.0
METHOD_NOT_FOUND = -32601
LIST_CHANGED = "notifications/tools/list_changed"
_PROGRESS_TOKEN = "call"
# `start_timeout` is 60 s by default, for downloads of npx and uvx at the first start; the daemon's start and the list
# come on top.
TRIAL_SECONDS = 90.0
# Interval between two checks of a server that is still starting.
_POLL_SECONDS = 0.5
# Enough at once that slow servers do not add up, and few enough that a small machine can start them.
_AT_ONCE = 4
# Variables that MCP clients pass on to a server, and those that name places.
_HANDED_ON = frozenset({"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG"})
_HANDED_ON_PREFIXES = ("LC_", "XDG_")

Progress = Callable[[Message], None]
# Maps a method and its params to the result; None if there is no answer.
Question = Callable[[str, Message], Message | None]


class CallError(UpstreamError):
    """Error answer to a call: `error` is the object as it arrived."""

    def __init__(self, sentence: str, error: Message) -> None:
        super().__init__(sentence)
        self.error = error


class ToolCaller:
    """One session with one server, through a bridge of its own or the given bridge command."""

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
            self.__exit__()
            raise
        return self

    def _open(self) -> None:
        params: Message = {
            "protocolVersion": VERSION,
            "capabilities": {"elicitation": {"form": {}, "url": {}}, "roots": {}},
            "clientInfo": {"name": "hearth-call", "version": __version__},
        }
        self._ask("initialize", params, OPENING_SECONDS)
        self._conversation.send({"method": "notifications/initialized"})

    def __exit__(self, *_: object) -> None:
        try:
            self._conversation.leave()
        except HearthError:
            self._conversation.process.kill()
            self._conversation.process.wait()

    def tools(self, seconds: float | None) -> list[Message]:
        """Return the tools of the server. Raises HearthError."""
        listed = self._ask("tools/list", {}, min(seconds or OPENING_SECONDS, OPENING_SECONDS)).get("tools")
        return [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []

    def await_change(self, seconds: float) -> None:
        """Wait for a notification that the server's list of tools changed, or until the timeout. Raises HearthError."""
        self._receive(seconds, lambda message: message.get("method") == LIST_CHANGED)

    def call(self, tool: str, arguments: Message, seconds: float | None) -> Message:
        """Return the result of a call; without `seconds`, only the server's own limit holds.

        A KeyboardInterrupt cancels the call. Raises CallError, UpstreamError.
        """
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": _PROGRESS_TOKEN}}
        return self._ask("tools/call", params, seconds)

    def _ask(self, method: str, params: Message, seconds: float | None) -> Message:
        request = self._conversation.send_request(method, params)
        try:
            answer = self._receive(seconds, lambda message: "method" not in message and message.get("id") == request)
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

    def _receive(self, seconds: float | None, is_wanted: Callable[[Message], bool]) -> Message | None:
        """Receive messages until the wanted one, and return it; None if it does not arrive in time."""
        left = seconds if seconds is not None else float("inf")
        while left > 0:
            begun = time.monotonic()
            # A wait without a bound could not be interrupted on every platform.
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
                # The time that a person takes to answer does not count as the server's.
                self._conversation.send({"id": message["id"], **self._reply(message)})
            elif message["method"] == "notifications/progress":
                self._progress(_params(message))
        return None

    def _reply(self, message: Message) -> Message:
        if message["method"] == "ping":
            return {"result": {}}
        result = self._answer(str(message["method"]), _params(message))
        if result is not None:
            return {"result": result}
        return {"error": {"code": METHOD_NOT_FOUND, "message": f"`hearth call` cannot answer {message['method']}"}}

    def _cancel(self, request: int, reason: str) -> None:
        try:
            self._conversation.send(
                {"method": "notifications/cancelled", "params": {"requestId": request, "reason": reason}}
            )
        except HearthError:
            # The bridge has stopped, and the call with it.
            pass


def _params(message: Message) -> dict[str, Any]:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


# --- trials


class Trial(NamedTuple):
    """Result of one trial: the number of tools, or the problem."""

    server: str
    tools: int | None
    problem: str | None = None


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the few variables that a client passes on; on Windows all, as programs do not start without them."""
    if system.is_windows():
        return dict(environ)
    return {
        name: value for name, value in environ.items() if name in _HANDED_ON or name.startswith(_HANDED_ON_PREFIXES)
    }


def try_all(places: Places, commands: Mapping[str, Sequence[str]], tell: Callable[[str], None]) -> list[Trial]:
    """Try each server by the command that a client has for it."""
    from concurrent.futures import ThreadPoolExecutor  # `hearth call` does without it

    waiting = dict.fromkeys(commands)

    def one(server: str) -> Trial:
        tell(_said(waiting))
        found = try_one(places, server, commands[server])
        waiting.pop(server)
        tell(_said(waiting))
        return found

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(one, commands))


def _said(waiting: Mapping[str, Any]) -> str:
    return f"trying {', '.join(waiting)}" if waiting else "done"


def try_one(places: Places, server: str, command: Sequence[str]) -> Trial:
    """Try one server. A HearthError becomes the problem of the trial, and is not raised."""
    end = time.monotonic() + TRIAL_SECONDS
    try:
        with ToolCaller(places, server, lambda *_: None, lambda _: None, command, environment(os.environ)) as caller:
            while True:
                tools = caller.tools(max(1.0, end - time.monotonic()))
                state = {} if tools else server_state(places, server)
                if state.get("error"):
                    return Trial(server, None, str(state["error"]))
                if tools or state.get("state") != "starting":
                    return Trial(server, len(tools))
                if time.monotonic() > end:
                    return Trial(server, None, f"it was not ready after {TRIAL_SECONDS:g} s")
                time.sleep(_POLL_SECONDS)
    except HearthError as exc:
        return Trial(server, None, str(exc))


def server_state(places: Places, server: str) -> dict[str, Any]:
    """Return the server's part of the status document; empty if the daemon does not have it."""
    upstreams = running_daemon.document(places).get("upstreams") or []
    return next((each for each in upstreams if each.get("name") == server), {})
