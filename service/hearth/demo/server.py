"""MCP server of the demo on standard input and output: `python -I -m hearth.demo.server`. Speaks both eras.

A request that names its protocol version in `_meta` is modern (2026-07-28) and self-contained; any other
is legacy and needs `initialize` first. Both may arrive on one connection. Rules that the code follows:

    request                    legacy, initialized    legacy, before    modern
    initialize                 -32600                 result            -32601
    ping                       result                 result            -32601
    tools/list, tools/call     result                 -32600            result
    server/discover            -32602                 -32602            result
    subscriptions/listen       -32601                 -32600            acknowledged, open until cancelled
    anything else              -32601                 -32600            -32601

`DemoConversation` does no I/O: lines in, lines out, the time given by the caller. In `serve` a thread reads; the main
thread answers and times slow calls. A thread is used instead of select, because Windows cannot select on a pipe.
"""

import json
import math
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from hearth import __version__

MODERN_VERSION = "2026-07-28"
# Not 2025-03-26: a server of that revision must accept batches.
LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2024-11-05")
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
SERVER_INFO = {"name": "hearth-demo", "title": "Hearth's demo server", "version": __version__}
INSTRUCTIONS = "Four small tools that show whether agents share one server: add, count, slow, whoami."
# The list never changes within a version of the server; a client may cache it for an hour.
LIST_TTL_MS = 3_600_000

Message = dict[str, Any]

# A demo call that sleeps longer than a minute would exceed the timeout of any client.
SLOW_LIMIT_SECONDS = 60.0
SLOW_LIMIT_STEPS = 1000

_LOOKS_ONLY = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
_COUNTS = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}


def _tool(name: str, title: str, description: str, annotations: Message = _LOOKS_ONLY, **schema: Any) -> Message:
    schema = {"type": "object", "properties": {}, **schema}
    return {
        "name": name, "title": title, "description": description, "inputSchema": schema, "annotations": annotations,
    }  # fmt: skip


DEFINITIONS = (
    _tool(
        "add", "Add", "Add two numbers.",
        properties={"a": {"type": "number"}, "b": {"type": "number"}}, required=["a", "b"],
    ),
    _tool(
        "count", "Count",
        "Add one to the counter of this server process and say its value. Agents that share the process share the"
        " counter.",
        _COUNTS,
    ),
    _tool(
        "slow", "Slow", "Take some seconds, with progress on the way. Can be cancelled.",
        properties={
            "seconds": {"type": "number", "minimum": 0, "maximum": SLOW_LIMIT_SECONDS, "default": 1},
            "steps": {"type": "integer", "minimum": 1, "maximum": SLOW_LIMIT_STEPS, "default": 10},
        },
    ),
    _tool("whoami", "Who am I", "The process id of the server that answers."),
)  # fmt: skip


class BadArgumentsError(Exception):
    """Error for arguments that do not match the tool's schema; the model can read why and try again."""


def number(arguments: Mapping[str, Any], name: str, default: float | None = None) -> int | float:
    """Return one numeric argument. Raises BadArgumentsError; true and false are not numbers."""
    value = arguments.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadArgumentsError(f"{name!r} must be a number")
    return value


def slow_plan(arguments: Mapping[str, Any]) -> tuple[float, int]:
    """Return the seconds and steps of a `slow` call. Raises BadArgumentsError."""
    seconds, steps = number(arguments, "seconds", 1), number(arguments, "steps", 10)
    if not 0 <= seconds <= SLOW_LIMIT_SECONDS:
        raise BadArgumentsError(f"'seconds' must be from 0 to {SLOW_LIMIT_SECONDS:g}")
    if not 1 <= steps <= SLOW_LIMIT_STEPS or steps != int(steps):
        raise BadArgumentsError(f"'steps' must be a whole number from 1 to {SLOW_LIMIT_STEPS}")
    return float(seconds), int(steps)


# --- the conversation


class RpcError(Exception):
    """Error answer to a request."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.body: Message = {"code": code, "message": message}
        if data is not None:
            self.body["data"] = data


class SlowCall:
    """Running `slow` call."""

    def __init__(self, request: Message, modern: bool, now: float, seconds: float, steps: int) -> None:
        self.id = request["id"]
        self.modern = modern
        self.token = _meta(request).get("progressToken")
        self.steps = steps
        self.done = 0
        self._started = now
        self._interval = seconds / steps

    def due(self) -> float:
        """Return the time of the next step."""
        return self._started + self._interval * (self.done + 1)


class DemoConversation:
    """Conversation with one client on one pair of pipes."""

    def __init__(self) -> None:
        self._count = 0
        self._initialized = False
        self._running: dict[str, SlowCall] = {}
        self._subscriptions: set[str] = set()
        self._out: list[bytes] = []

    def data_to_send(self) -> bytes:
        """Return the lines to write now."""
        lines, self._out = self._out, []
        return b"".join(lines)

    def next_due(self) -> float:
        """Return the time at which `advance` has something to do; infinity if no call is running."""
        return min((call.due() for call in self._running.values()), default=math.inf)

    def advance(self, now: float) -> None:
        """Do every step of slow calls that is due."""
        for key, call in list(self._running.items()):
            while call.done < call.steps and call.due() <= now:
                call.done += 1
                self._progress(call)
            if call.done == call.steps:
                del self._running[key]
                self._answer(call.id, _finish(_text(f"{call.steps} steps done"), call.modern))

    def receive_line(self, line: bytes, now: float) -> None:
        """Handle one line from the client."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            # No id: null is not an id in any revision of MCP.
            self._write({"error": {"code": -32700, "message": "this line is not JSON"}})
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            if not (isinstance(message, dict) and ("result" in message or "error" in message)):
                self._write({"error": {"code": -32600, "message": "this is not a JSON-RPC message"}})
        elif "id" not in message:
            self._notification(message)
        else:
            self._request(message, now)

    def _notification(self, message: Message) -> None:
        if message["method"] == "notifications/cancelled":
            key = _key(_params(message).get("requestId"))
            self._running.pop(key, None)
            self._subscriptions.discard(key)

    def _request(self, request: Message, now: float) -> None:
        if isinstance(request["id"], bool) or not isinstance(request["id"], str | int | float):
            self._write({"error": {"code": -32600, "message": "an id is a string or a number"}})
            return
        try:
            result = self._dispatch(request, now)
        except RpcError as error:
            self._write({"id": request["id"], "error": error.body})
        else:
            if result is not None:
                self._answer(request["id"], result)

    def _dispatch(self, request: Message, now: float) -> Message | None:
        key = _key(request["id"])
        if key in self._running or key in self._subscriptions:
            raise RpcError(-32600, f"a request with the id {key} is still open")
        if VERSION_KEY in _meta(request):
            return self._modern(request, now)
        return self._legacy(request, now)

    def _modern(self, request: Message, now: float) -> Message | None:
        meta, method = _meta(request), request["method"]
        if meta[VERSION_KEY] != MODERN_VERSION:
            data = {"requested": meta[VERSION_KEY], "supported": [MODERN_VERSION]}
            raise RpcError(-32022, f"protocol version {meta[VERSION_KEY]} is not spoken here", data)
        if not isinstance(meta.get(CAPABILITIES_KEY), dict):
            raise RpcError(-32602, f"_meta lacks {CAPABILITIES_KEY}")
        if method == "server/discover":
            known = {"supportedVersions": [MODERN_VERSION], "capabilities": {"tools": {}}}
            return _cacheable({**known, "instructions": INSTRUCTIONS})
        if method == "tools/list":
            return _cacheable(_list_tools(request))
        if method == "tools/call":
            return self._call(request, True, now)
        if method == "subscriptions/listen":
            self._listen(request)
            return None
        raise RpcError(-32601, f"{method} is not a method of {MODERN_VERSION} that this server has")

    def _legacy(self, request: Message, now: float) -> Message | None:
        method = request["method"]
        if method == "initialize":
            return self._initialize(request)
        if method == "ping":
            return {}
        if method == "server/discover":
            raise RpcError(-32602, f"_meta lacks {VERSION_KEY} and {CAPABILITIES_KEY}")
        if not self._initialized:
            raise RpcError(-32600, f"{method} came before initialize")
        if method == "tools/list":
            return _list_tools(request)
        if method == "tools/call":
            return self._call(request, False, now)
        raise RpcError(-32601, f"this server has no method {method}")

    def _initialize(self, request: Message) -> Message:
        if self._initialized:
            raise RpcError(-32600, "initialize came twice")
        asked = _params(request).get("protocolVersion")
        if not isinstance(asked, str):
            raise RpcError(-32602, "initialize needs a protocolVersion")
        self._initialized = True
        return {
            "protocolVersion": asked if asked in LEGACY_VERSIONS else LEGACY_VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": SERVER_INFO,
            "instructions": INSTRUCTIONS,
        }

    def _call(self, request: Message, modern: bool, now: float) -> Message | None:
        name, arguments = _params(request).get("name"), _params(request).get("arguments", {})
        if not isinstance(arguments, dict):
            raise RpcError(-32602, "arguments must be an object")
        try:
            if name == "slow":
                self._running[_key(request["id"])] = SlowCall(request, modern, now, *slow_plan(arguments))
                return None
            text = self._text_of(name, arguments)
        except BadArgumentsError as error:
            # A tool that could not run is a result, so that the model reads the reason.
            return _finish(_text(str(error)) | {"isError": True}, modern)
        return _finish(_text(text), modern)

    def _text_of(self, name: object, arguments: Mapping[str, Any]) -> str:
        """Return the text of a tool that answers at once. Raises BadArgumentsError and RpcError."""
        if name == "add":
            try:
                return str(number(arguments, "a") + number(arguments, "b"))
            except (OverflowError, ValueError) as error:
                raise BadArgumentsError("these numbers are too large to add") from error
        if name == "count":
            self._count += 1
            return str(self._count)
        if name == "whoami":
            return str(os.getpid())
        raise RpcError(-32602, f"there is no tool {name!r}: try add, count, slow or whoami")

    def _listen(self, request: Message) -> None:
        if not isinstance(_params(request).get("notifications"), dict):
            raise RpcError(-32602, "subscriptions/listen needs notifications")
        self._subscriptions.add(_key(request["id"]))
        # Nothing here ever changes, so the honoured subset is empty.
        params = {"_meta": {SUBSCRIPTION_KEY: request["id"]}, "notifications": {}}
        self._write({"method": "notifications/subscriptions/acknowledged", "params": params})

    def _progress(self, call: SlowCall) -> None:
        if isinstance(call.token, str | int):
            params = {"progressToken": call.token, "progress": call.done, "total": call.steps}
            self._write({"method": "notifications/progress", "params": params})

    def _answer(self, request_id: object, result: Message) -> None:
        self._write({"id": request_id, "result": result})

    def _write(self, message: Message) -> None:
        self._out.append(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")


def _params(message: Message) -> Message:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _meta(message: Message) -> Message:
    meta = _params(message).get("_meta")
    return meta if isinstance(meta, dict) else {}


def _key(request_id: object) -> str:
    """Return an id as a dictionary key: 1 and "1" are two ids."""
    return json.dumps(request_id)


def _list_tools(request: Message) -> Message:
    if "cursor" in _params(request):
        raise RpcError(-32602, "this list has one page: there is no such cursor")
    return {"tools": list(DEFINITIONS)}


def _text(text: str) -> Message:
    return {"content": [{"type": "text", "text": text}]}


def _finish(result: Message, modern: bool) -> Message:
    return {**result, "resultType": "complete", "_meta": {SERVER_KEY: SERVER_INFO}} if modern else result


def _cacheable(result: Message) -> Message:
    return _finish({**result, "ttlMs": LIST_TTL_MS, "cacheScope": "public"}, True)


# --- standard input and output


def _read_lines(lines: "queue.SimpleQueue[bytes | None]") -> None:
    for line in sys.stdin.buffer:
        if line.strip():
            lines.put(line)
    lines.put(None)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def serve() -> None:
    """Answer until the input ends."""
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    # Daemon thread: a reader that is blocked on a pipe must not keep a finished server alive.
    threading.Thread(target=_read_lines, args=(lines,), daemon=True).start()
    conversation = DemoConversation()
    while True:
        wait = conversation.next_due() - time.monotonic()
        try:
            line = lines.get(timeout=None if math.isinf(wait) else max(0.0, wait))
        except queue.Empty:
            conversation.advance(time.monotonic())
        else:
            if line is None:
                return
            conversation.receive_line(line, time.monotonic())
            conversation.advance(time.monotonic())
        _write(conversation.data_to_send())


def main() -> None:
    """Run the server until its input ends."""
    # In a terminal, Ctrl-C should end the server without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        serve()
    except BrokenPipeError:
        # The reader of the answers has closed the pipe, so there is nothing to report to.
        os._exit(0)


if __name__ == "__main__":
    main()
