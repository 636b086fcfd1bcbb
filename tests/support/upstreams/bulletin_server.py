"""A server with one board that many watch.

    bulletin_server.py

The resource `test://board` can be subscribed to. Tools: `pin` {number, bytes} tells whoever watches that the board has
changed, with that number and so much ballast, then answers; `long` {bytes} answers with so long a text.
"""

import stdio

BOARD = "test://board"
TOOLS = [stdio.described(name, readOnlyHint=True) for name in ("pin", "long")]


def opened(request: stdio.Message) -> stdio.Message:
    """The answer to `initialize`."""
    capabilities = {"tools": {}, "resources": {"subscribe": True}}
    info = {"name": "bulletin", "version": "1"}
    found = {"protocolVersion": stdio.LEGACY_VERSION, "capabilities": capabilities, "serverInfo": info}
    return stdio.result(request, found)


def called(request: stdio.Message) -> stdio.Message:
    """The answer to a call, behind what it causes."""
    given, name = stdio.arguments(request), request["params"]["name"]
    ballast = "x" * int(given.get("bytes", 0))
    if name == "pin":
        meta = {"number": given["number"], "ballast": ballast}
        stdio.send(stdio.notice("notifications/resources/updated", {"uri": BOARD, "_meta": meta}))
    return stdio.result(request, stdio.text(ballast if name == "long" else "pinned"))


def answer(request: stdio.Message) -> stdio.Message | None:
    """The answer to one message; None for what has none."""
    method = request.get("method")
    if method == "initialize":
        return opened(request)
    if method == "tools/call":
        return called(request)
    if method == "resources/list":
        return stdio.result(request, {"resources": [{"uri": BOARD, "name": "board"}]})
    if method == "resources/templates/list":
        return stdio.result(request, {"resourceTemplates": []})
    if method in ("resources/subscribe", "resources/unsubscribe"):
        return stdio.result(request, {})
    return stdio.handshake(request, "bulletin", TOOLS)


for message in stdio.messages():
    stdio.send_if(answer(message))
