"""A legacy MCP server in plain Python: each line through json.loads, each answer through json.dumps.

Quick, because it reads big chunks and answers each with one write, but with no other trick: what a good
server costs at least. Tools: `echo` {text} (read-only) and `add` {a, b} (idempotent).
"""

import json
import os

import stdio

# More than a pipe (64 KiB) and a socket buffer (208 KiB) hold by default: one read takes all that is there.
CHUNK_BYTES = 1 << 20
TOOLS = [stdio.described("echo", readOnlyHint=True), stdio.described("add", idempotentHint=True)]


def answered(line: bytes) -> stdio.Message | None:
    """The answer to a line; None for a notification and for what is no JSON."""
    try:
        request = json.loads(line)
    except ValueError:
        return None
    if request.get("method") != "tools/call":
        return stdio.handshake(request, "echo", TOOLS)
    try:
        name, given = request["params"]["name"], request["params"]["arguments"]
        if name == "echo":
            return stdio.result(request, stdio.text(given["text"]))
        if name == "add":
            return stdio.result(request, stdio.text(str(given["a"] + given["b"])))
    except (KeyError, TypeError) as exc:
        return stdio.error(request, -32602, f"bad params: {exc!r}")
    return stdio.error(request, -32602, f"Unknown tool: {name}")


def main() -> None:
    """Answer until stdin ends."""
    rest = b""
    while chunk := os.read(0, CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        answers = [answer for line in lines if (answer := answered(line)) is not None]
        if answers:
            stdio.write("".join(json.dumps(answer) + "\n" for answer in answers).encode())


main()
