"""Lines in, answers out: what the small MCP servers in this folder share.

Standard library only, started with `python -E -s -S`. Blocking and single-threaded, so that a server's
behaviour is what its own file says and nothing else. Not for `swift_server.py`, which trades clarity
for speed.
"""

import json
import os
import select
import signal
from collections.abc import Callable, Iterator
from typing import Any

Message = dict[str, Any]
Tool = Callable[[Message], Message | None]

LEGACY_VERSION = "2025-11-25"
CHUNK_BYTES = 1 << 16
# A server that a broken test loses ends by itself; longer than any test's own limit.
LIFETIME_SECONDS = 600

_unfinished = b""


def limit_lifetime() -> None:
    """Let SIGALRM end this process when a test has forgotten it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LIFETIME_SECONDS)


def raw_lines() -> Iterator[bytes]:
    """Every line of stdin, without its end, until EOF."""
    limit_lifetime()
    rest = b""
    while chunk := os.read(0, CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole


def messages() -> Iterator[Message]:
    """Every message of stdin until EOF."""
    return map(json.loads, raw_lines())


def poll(seconds: float | None) -> list[Message] | None:
    """The messages that come next, none if nothing comes within so many seconds; None at EOF."""
    global _unfinished
    limit_lifetime()
    if not select.select([0], [], [], seconds)[0]:
        return []
    chunk = os.read(0, CHUNK_BYTES)
    *lines, _unfinished = (_unfinished + chunk).split(b"\n")
    return [json.loads(line) for line in lines] if chunk else None


def write(data: bytes) -> None:
    """All of data to stdout, however small the pipe."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def send(message: Message) -> None:
    """One message, as one line."""
    write(json.dumps(message).encode() + b"\n")


def result(request: Message, value: Message) -> Message:
    """The answer to a request."""
    return {"jsonrpc": "2.0", "id": request["id"], "result": value}


def error(request: Message, code: int, text: str, data: Message | None = None) -> Message:
    """The refusal of a request."""
    detail: Message = {"code": code, "message": text}
    if data is not None:
        detail["data"] = data
    return {"jsonrpc": "2.0", "id": request["id"], "error": detail}


def notice(method: str, params: Message | None = None) -> Message:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


def text(words: str) -> Message:
    """A tool's result that consists of words."""
    return {"content": [{"type": "text", "text": words}]}


def described(name: str, **annotations: bool) -> Message:
    """A tool as tools/list shows it; it takes any object."""
    tool: Message = {"name": name, "description": f"test tool {name}", "inputSchema": {"type": "object"}}
    if annotations:
        tool["annotations"] = annotations
    return tool


def arguments(request: Message) -> Message:
    """The arguments of a tools/call."""
    given: Message = request["params"].get("arguments") or {}
    return given


def handshake(request: Message, name: str, tools: list[Message]) -> Message | None:
    """A legacy server's answer to anything but a tools/call; None for what has no answer."""
    method = request.get("method")
    if "id" not in request or method is None:
        return None
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        info = {"name": name, "version": "1"}
        return result(request, {"protocolVersion": LEGACY_VERSION, "capabilities": capabilities, "serverInfo": info})
    if method == "ping":
        return result(request, {})
    if method == "tools/list":
        return result(request, {"tools": tools})
    return error(request, -32601, f"Method not found: {method}")


def send_if(answer: Message | None) -> None:
    """Send an answer, where there is one."""
    if answer is not None:
        send(answer)


def reply(request: Message, name: str, tools: list[Message]) -> None:
    """Answer anything but a tools/call."""
    send_if(handshake(request, name, tools))


def echo(request: Message) -> Message:
    """The tool of that name."""
    return text(str(arguments(request).get("text")))


def note(path: str, words: object) -> None:
    """Append a line to a file."""
    with open(path, "a") as ledger:
        ledger.write(f"{words}\n")


def serve(name: str, tools: list[Message], behaviour: dict[str, Tool]) -> None:
    """A legacy server until EOF. A tool takes the request and returns its result, or None if it answered."""
    for request in messages():
        if request.get("method") == "tools/call":
            send_if(called(request, behaviour))
        else:
            reply(request, name, tools)


def called(request: Message, behaviour: dict[str, Tool]) -> Message | None:
    """Run the tool that a tools/call names."""
    tool = behaviour.get(request["params"]["name"])
    if tool is None:
        return error(request, -32602, f"Unknown tool: {request['params']['name']}")
    value = tool(request)
    return None if value is None else result(request, value)
