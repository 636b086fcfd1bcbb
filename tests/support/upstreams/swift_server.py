"""The echo server with every trick: it costs so little that only the chain in front of it is left to measure.

One parse per chunk, however many requests the chunk holds, and answers put together as text. Same tools as
`echo_server.py`: `echo` {text} (read-only) and `add` {a, b} (idempotent).
"""

import json
import os
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

# More than a pipe (64 KiB) and a socket buffer (208 KiB) hold by default: one read takes all that is there.
CHUNK_BYTES = 1 << 20
TOOLS = (
    '{"tools":['
    '{"name":"echo","description":"Gives the text back.","inputSchema":{"type":"object","properties":'
    '{"text":{"type":"string"}},"required":["text"]},"annotations":{"readOnlyHint":true}},'
    '{"name":"add","description":"Adds two numbers.","inputSchema":{"type":"object","properties":'
    '{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]},"annotations":{"idempotentHint":true}}]}'
)
WELCOME = '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"swift","version":"1"}}'
STEADY = {"initialize": WELCOME, "tools/list": TOOLS, "ping": "{}"}

decode = json.JSONDecoder().decode


def requests(chunk: str) -> list[Any]:
    """All messages of a chunk of whole lines in one parse; a line that is no JSON is left out."""
    try:
        return decode("[" + chunk[:-1].replace("\n", ",") + "]")
    except ValueError:
        return [message for line in chunk.splitlines() for message in one(line)]


def one(line: str) -> list[Any]:
    """The message of a line, or none."""
    try:
        return [decode(line)]
    except ValueError:
        return []


def failure(code: int, words: str) -> str:
    """The `error` member of an answer."""
    return f'"error":{{"code":{code},"message":{quoted(words)}}}'


def content(words: str) -> str:
    """The `result` member of a tools/call."""
    return '"result":{"content":[{"type":"text","text":' + words + "}]}"


def outcome(message: Any) -> str:
    """The `result` or `error` member for a request."""
    method = message["method"]
    try:
        if method == "tools/call":
            params = message["params"]
            name, given = params["name"], params["arguments"]
            if name == "echo":
                return content(quoted(given["text"]))
            if name == "add":
                return content(quoted(str(given["a"] + given["b"])))
            return failure(-32602, f"Unknown tool: {name}")
    except (KeyError, TypeError) as exc:
        return failure(-32602, f"bad params: {exc!r}")
    if method in STEADY:
        return '"result":' + STEADY[method]
    return failure(-32601, f"Method not found: {method}")


def answers(chunk: str) -> str:
    """The answers to a chunk of whole lines."""
    lines = []
    for message in requests(chunk):
        if type(message) is dict and "id" in message and "method" in message:
            key = message["id"]
            shown = str(key) if type(key) is int else json.dumps(key)
            lines.append('{"jsonrpc":"2.0","id":' + shown + "," + outcome(message) + "}\n")
    return "".join(lines)


def main() -> None:
    """Answer until stdin ends."""
    rest = b""
    while chunk := os.read(0, CHUNK_BYTES):
        if rest:
            chunk = rest + chunk
        end = chunk.rfind(b"\n") + 1
        rest = chunk[end:]
        if end:
            view = memoryview(answers(chunk[:end].decode("utf-8", "replace")).encode())
            while view:
                view = view[os.write(1, view) :]


main()
