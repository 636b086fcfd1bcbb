"""A server that speaks 2026-07-28 only: no handshake, no session, `_meta` on every request.

    modern_server.py [FILE] [--backwards]

FILE gets every line that was received. With --backwards the first two requests are answered in reverse.
Tools: `echo` {text} (read-only), `grow` (adds a tool and tells the subscribers), `whoami` (the `_meta` that
came with the call, as text), `wait` (with a progress token: one progress notice; never answers: for
cancellation), `shape` (its output is an array, which no legacy client may see), `ask` (wants input first, and answers
with what it was given, as JSON text). `initialize` is refused with -32022.
"""

import json
import sys
from collections.abc import Iterator

import stdio

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
INFO = {"name": "modern", "version": "1"}
CACHE = {"ttlMs": 0, "cacheScope": "private"}


class Server:
    """The tool list, and who listens to its changes."""

    def __init__(self) -> None:
        self.tools = [
            stdio.described("echo", readOnlyHint=True),
            stdio.described("grow"),
            stdio.described("whoami", readOnlyHint=True),
            stdio.described("wait", readOnlyHint=True),
            {**stdio.described("shape", readOnlyHint=True), "outputSchema": {"type": "array"}},
            stdio.described("ask", readOnlyHint=True),
        ]
        self.listeners: list[object] = []

    def handle(self, request: stdio.Message) -> None:
        method, params = request.get("method", ""), request.get("params") or {}
        if method == "notifications/cancelled":
            self.listeners = [key for key in self.listeners if key != params.get("requestId")]
        if "id" not in request or not method:
            return
        refusal = refused(request, method, params)
        if refusal is not None:
            stdio.send(refusal)
        else:
            self.answer(request, method, params)

    def answer(self, request: stdio.Message, method: str, params: stdio.Message) -> None:
        if method == "server/discover":
            capabilities = {"tools": {"listChanged": True}}
            stdio.send(complete(request, {"supportedVersions": [VERSION], "capabilities": capabilities, **CACHE}))
        elif method == "tools/list":
            stdio.send(complete(request, {"tools": self.tools, **CACHE}))
        elif method == "tools/call":
            self.call(request, params)
        elif method == "subscriptions/listen":
            self.listen(request, params)
        else:
            stdio.send(stdio.error(request, -32601, f"Method not found: {method}"))

    def listen(self, request: stdio.Message, params: stdio.Message) -> None:
        wanted = bool(params.get("notifications", {}).get("toolsListChanged"))
        honoured = {"toolsListChanged": True} if wanted else {}
        stdio.send(tagged("notifications/subscriptions/acknowledged", request["id"], {"notifications": honoured}))
        if wanted:
            self.listeners.append(request["id"])

    def call(self, request: stdio.Message, params: stdio.Message) -> None:
        name, given = params.get("name"), params.get("arguments") or {}
        if name == "wait":
            token = params["_meta"].get("progressToken")
            if token is not None:
                stdio.send(stdio.notice("notifications/progress", {"progressToken": token, "progress": 1}))
            return
        if name == "grow":
            self.grow()
        if name == "shape":
            stdio.send(complete(request, {**stdio.text("[1,2]"), "structuredContent": [1, 2]}))
            return
        if name == "ask" and "inputResponses" not in params:
            asked = {"message": "Really?", "requestedSchema": {"type": "object", "properties": {}}}
            question = {"method": "elicitation/create", "params": asked}
            stdio.send(stdio.result(request, {"resultType": "input_required", "inputRequests": {"q": question}}))
            return
        words = {
            "echo": str(given.get("text", "")),
            "grow": "grown",
            "whoami": json.dumps(params["_meta"]),
            "ask": json.dumps(params.get("inputResponses")),
        }.get(str(name))
        if words is None and any(tool["name"] == name for tool in self.tools):
            words = str(name)
        if words is None:
            stdio.send(stdio.error(request, -32602, f"Unknown tool: {name}"))
        else:
            stdio.send(complete(request, stdio.text(words)))

    def grow(self) -> None:
        self.tools.append(stdio.described(f"grown_{len(self.tools)}", readOnlyHint=True))
        for key in self.listeners:
            stdio.send(tagged("notifications/tools/list_changed", key, {}))


def refused(request: stdio.Message, method: str, params: stdio.Message) -> stdio.Message | None:
    """The error for a request of another era or without its envelope, None for a good one."""
    meta = params.get("_meta") or {}
    asked = params.get("protocolVersion") if method == "initialize" else meta.get(PREFIX + "protocolVersion")
    if method == "initialize" or asked not in (None, VERSION):
        data = {"supported": [VERSION], "requested": str(asked)}
        return stdio.error(request, -32022, f"Unsupported protocol version: {asked}", data)
    if asked is None or PREFIX + "clientCapabilities" not in meta:
        return stdio.error(request, -32602, "params._meta must carry protocolVersion and clientCapabilities")
    return None


def complete(request: stdio.Message, value: stdio.Message) -> stdio.Message:
    """The answer to a request, with what every modern result carries."""
    return stdio.result(request, {"resultType": "complete", "_meta": {PREFIX + "serverInfo": INFO}, **value})


def tagged(method: str, listener: object, params: stdio.Message) -> stdio.Message:
    """A notification that belongs to one listen stream."""
    return stdio.notice(method, {**params, "_meta": {PREFIX + "subscriptionId": listener}})


def lines() -> Iterator[bytes]:
    """What comes in, in the order in which it is to be answered."""
    received = stdio.raw_lines()
    if "--backwards" in sys.argv:
        first, second = next(received), next(received)
        yield from (second, first)
    yield from received


server = Server()
files = [word for word in sys.argv[1:] if not word.startswith("--")]
record = open(files[0], "ab", buffering=0) if files else None  # noqa: SIM115 - until the end
for line in lines():
    if record:
        record.write(line + b"\n")
    server.handle(json.loads(line))
