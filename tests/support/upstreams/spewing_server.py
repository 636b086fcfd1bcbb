"""A server with bad manners: garbage between its good lines, answers given twice, answers to nobody.

Tool: `echo` {text} (read-only). Every good answer is true; a reader that skips the rest gets all of them.
"""

import json

import stdio

GARBAGE = (
    b"Debug: listening on stdio\n"
    b"\n"
    b"\r\n"
    b"null\n"
    b'"a string"\n'
    b"[]\n"
    b'{"no": "jsonrpc"}\n'
    b'{"jsonrpc": "2.0"}\n'
    b'{"jsonrpc": "2.0", "id": "nobody", "result": {}}\n'
    b'{"jsonrpc": "2.0", "id": 987654321, "result": {}}\n'
    b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}}\n'
    b'{"jsonrpc": "2.0", "id": {"an": "object"}, "result": {}}\n'
    b'{"jsonrpc": "2.0", "method": "notifications/never/heard/of", "params": [1]}\n'
    b'{"jsonrpc": "2.0", "method":"notifications/progress","params": {"progressToken": 99, "progress": 1}}\n'
    b'{"jsonrpc": "2.0", "method": 7}\n'
    b"\x00\xff\xfe not even text\n"
    b'{"cut off": \n'
)
TOOLS = [stdio.described("echo", readOnlyHint=True)]


def answered(request: stdio.Message) -> stdio.Message | None:
    """The good answer."""
    if request.get("method") == "tools/call":
        return stdio.called(request, {"echo": stdio.echo})
    return stdio.handshake(request, "spewing", TOOLS)


stdio.write(GARBAGE)
for line in stdio.raw_lines():
    answer = answered(json.loads(line))
    if answer is not None:
        good = json.dumps(answer).encode() + b"\n"
        twice = json.dumps(stdio.error(answer, -32603, "answered before")).encode() + b"\n"
        stdio.write(GARBAGE + good + GARBAGE + twice)
