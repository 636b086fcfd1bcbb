"""A server whose answers are larger than anybody takes, written as different libraries write them.

Tools, each {bytes}: `first` has the id before its result, `last` behind it, `pretty` is written over several lines.
`log` sends a message of that size and answers; `echo` {text}.
"""

import json

import stdio

TOOLS = [stdio.described(name) for name in ("echo", "first", "last", "pretty", "log")]


def answer(request: stdio.Message) -> bytes:
    """The answer to a call, and what comes before it."""
    name, given = request["params"]["name"], stdio.arguments(request)
    words = "x" * int(given.get("bytes", 0))
    if name == "log":
        logged = stdio.notice("notifications/message", {"level": "error", "data": words})
        return json.dumps(logged).encode() + b"\n" + json.dumps(stdio.result(request, stdio.text("logged"))).encode()
    if name == "last":
        return json.dumps({"result": stdio.text(words), "jsonrpc": "2.0", "id": request["id"]}).encode()
    if name == "pretty":
        parts = [words[at : at + 1000] for at in range(0, len(words), 1000)]
        content = [{"type": "text", "text": part} for part in parts]
        return json.dumps(stdio.result(request, {"content": content}), indent=1).encode()
    return json.dumps(stdio.result(request, stdio.text(words or str(given.get("text"))))).encode()


for request in stdio.messages():
    if request.get("method") == "tools/call":
        stdio.write(answer(request) + b"\n")
    else:
        stdio.reply(request, "huge", TOOLS)
