"""A server that cannot stop talking.

    flooding_server.py

Tools: `flood` {kind, count} sends that many notices of a kind, as fast as they are taken, then answers; `forever`
{kind} sends them until it is ended. Kinds: `message`, `progress` (with the call's token), `list_changed`, `updated`,
`cancelled` (of requests that never were), `unknown`, `question` (requests to the client and progress behind them; the
answers are counted and told by `flood`), `other` (answers to nothing). `echo` {text} is answered.
"""

import json
from collections.abc import Iterator

import stdio

TOOLS = [stdio.described(name) for name in ("echo", "flood", "forever")]
# So many bytes in one write: more than a pipe holds.
BURST_BYTES = 1 << 18


def said(kind: str, request: stdio.Message, number: int) -> stdio.Message:
    """One of very many."""
    token = (request["params"].get("_meta") or {}).get("progressToken", 0)
    if kind == "question":
        params = {"message": str(number), "requestedSchema": {"type": "object", "properties": {}}}
        return {"jsonrpc": "2.0", "id": f"q{number}", "method": "elicitation/create", "params": params}
    if kind == "other":
        return {"jsonrpc": "2.0", "id": 10**9 + number, "result": {}}
    method, params = {
        "message": ("notifications/message", {"level": "error", "data": f"message {number} " + "x" * 100}),
        "progress": ("notifications/progress", {"progressToken": token, "progress": number}),
        "list_changed": ("notifications/tools/list_changed", {}),
        "updated": ("notifications/resources/updated", {"uri": f"test://{number}"}),
        "cancelled": ("notifications/cancelled", {"requestId": number}),
        "unknown": ("notifications/of/nothing", {"number": number}),
    }[kind]
    return stdio.notice(method, params)


def pour(messages: Iterator[stdio.Message]) -> None:
    """Write them in large pieces."""
    piece = bytearray()
    for message in messages:
        piece += json.dumps(message).encode() + b"\n"
        if len(piece) > BURST_BYTES:
            stdio.write(bytes(piece))
            piece.clear()
    stdio.write(bytes(piece))


def pour_forever(message: stdio.Message) -> None:
    """Write one message as fast as it is taken: the other side, not this one, sets the pace."""
    line = json.dumps(message).encode() + b"\n"
    piece = line * (BURST_BYTES // len(line))
    while True:
        stdio.write(piece)


asking: stdio.Message | None = None
answers: list[stdio.Message] = []
for message in stdio.messages():
    if "method" not in message:
        answers.append(message)
        if asking and len(answers) == stdio.arguments(asking)["count"]:
            refused = sum("error" in answer for answer in answers)
            stdio.send(stdio.result(asking, stdio.text(f"{len(answers)} answers, {refused} of them errors")))
    elif message["method"] != "tools/call":
        stdio.reply(message, "flooding", TOOLS)
    elif message["params"]["name"] == "echo":
        stdio.send(stdio.result(message, stdio.echo(message)))
    else:
        given = stdio.arguments(message)
        if message["params"]["name"] == "forever":
            pour_forever(said(given["kind"], message, 0))
        pour(said(given["kind"], message, number) for number in range(given["count"]))
        asking, answers = message, []
        if given["kind"] == "question":
            stdio.send(said("progress", message, given["count"]))
        else:
            stdio.send(stdio.result(message, stdio.text(f"{given['count']} times")))
