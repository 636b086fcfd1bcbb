"""A legacy server of revision 2025-03-26 that says everything in arrays.

Tools, all of them read-only: `say` {text} answers with the text, after a progress notification in the same array if
there is a token; of `pair` {text}, two calls are answered in one array, the later first. Behind each answer stands an
element that is no message.
"""

import json

import stdio

TOOLS = [stdio.described(name, readOnlyHint=True) for name in ("say", "pair")]
REVISION = "2025-03-26"
_waiting: list[stdio.Message] = []


def answered(request: stdio.Message) -> list[stdio.Message]:
    """The messages that a line is answered with, together."""
    if request.get("method") != "tools/call":
        answer = stdio.handshake(request, "batching", TOOLS)
        if answer and request["method"] == "initialize":
            answer["result"]["protocolVersion"] = REVISION
        return [answer] if answer else []
    said = stdio.result(request, stdio.text(stdio.arguments(request)["text"]))
    if request["params"]["name"] == "pair":
        _waiting.insert(0, said)
        return [_waiting.pop(0), _waiting.pop(0)] if len(_waiting) == 2 else []
    token = (request["params"].get("_meta") or {}).get("progressToken")
    if token is None:
        return [said]
    return [stdio.notice("notifications/progress", {"progressToken": token, "progress": 1}), said]


for line in stdio.raw_lines():
    messages = answered(json.loads(line))
    if messages:
        stdio.write(json.dumps([*messages, "no message"]).encode() + b"\n")
