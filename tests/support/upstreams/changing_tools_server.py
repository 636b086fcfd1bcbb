"""A server that describes its tools as a file says: what it said first need not be what it says next.

    changing_tools_server.py FILE

FILE is a JSON object of names and descriptions, read at each tools/list. Besides, there is `turn`, which sends
list_changed. Each tool answers with its own name.
"""

import json
import sys

import stdio

CHANGED = stdio.notice("notifications/tools/list_changed")


def tools() -> list[stdio.Message]:
    """The tools as the file has them now."""
    with open(sys.argv[1], encoding="utf-8") as file:
        described = json.load(file)
    return [{**stdio.described(name), "description": text} for name, text in {**described, "turn": "turns"}.items()]


for request in stdio.messages():
    if request.get("method") == "tools/call":
        stdio.send(stdio.result(request, stdio.text(request["params"]["name"])))
        if request["params"]["name"] == "turn":
            stdio.send(CHANGED)
    else:
        stdio.reply(request, "changing_tools", tools())
