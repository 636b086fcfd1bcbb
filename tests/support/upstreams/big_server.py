"""A server with awkward answers: huge, pretty-printed, or in JSON that careful parsers dislike.

Tools, all read-only: `big` {bytes} answers with that many characters; `pretty` answers over several lines,
with CR LF; `surrogate` has a lone surrogate escape in its text; `invalid` a byte that is no UTF-8; `seen`
gives the request's line back as it came, as text (bytes that are no UTF-8 as backslash escapes); `verbatim`
{json} takes the text `json` as its result, unchecked, so that a test can make any answer that it likes.
"""

import json

import stdio

TOOLS = [
    stdio.described(name, readOnlyHint=True) for name in ("big", "pretty", "surrogate", "invalid", "seen", "verbatim")
]


def content(words: bytes) -> bytes:
    """A tool's result around words that are JSON already, quotes included."""
    return b'{"content":[{"type":"text","text":' + words + b"}]}"


def outcome(request: stdio.Message, line: bytes) -> bytes:
    """The raw JSON of a call's result."""
    name, given = request["params"]["name"], stdio.arguments(request)
    if name == "big":
        return content(b'"' + b"x" * int(given.get("bytes", 1 << 20)) + b'"')
    if name == "surrogate":
        return content(rb'"lone \ud800 surrogate"')
    if name == "invalid":
        return content(b'"no \xff UTF-8"')
    if name == "seen":
        return content(json.dumps(line.decode("utf-8", "backslashreplace")).encode())
    if name == "verbatim":
        return str(given.get("json", "{}")).encode()
    return json.dumps(stdio.text("pretty"), indent=2).replace("\n", "\r\n").encode()


def answer(request: stdio.Message, line: bytes) -> bytes:
    """A whole answer to a call, as bytes."""
    raw_id, raw_result = json.dumps(request["id"]).encode(), outcome(request, line)
    if request["params"]["name"] == "pretty":
        return b'{\r\n  "jsonrpc": "2.0",\r\n  "id": ' + raw_id + b',\r\n  "result": ' + raw_result + b"\r\n}\r\n"
    return b'{"jsonrpc":"2.0","id":' + raw_id + b',"result":' + raw_result + b"}\n"


known = {tool["name"] for tool in TOOLS}
for line in stdio.raw_lines():
    request = json.loads(line.decode("utf-8", "surrogateescape"))
    if request.get("method") == "tools/call" and request["params"]["name"] in known:
        stdio.write(answer(request, line))
    elif request.get("method") == "tools/call":
        stdio.send(stdio.error(request, -32602, f"Unknown tool: {request['params']['name']}"))
    else:
        stdio.reply(request, "big", TOOLS)
