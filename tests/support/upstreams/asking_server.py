"""A legacy server that asks back, whatever clients have declared.

Tool: `ask` {method} sends a request of that method and answers with what came back, as JSON text.
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import stdio

TOOLS = [stdio.described("ask")]


def main() -> None:
    """Serve until stdin ends."""
    stdio.limit_lifetime()
    waiting: dict[object, stdio.Message] = {}
    for number, line in enumerate(stdio.raw_lines()):
        message = json.loads(line)
        if message.get("method") == "tools/call":
            question = f"question-{number}"
            waiting[question] = message
            method = stdio.arguments(message).get("method", "ping")
            stdio.send({"jsonrpc": "2.0", "id": question, "method": method, "params": {}})
        elif "method" not in message and message.get("id") in waiting:
            stdio.send(stdio.result(waiting.pop(message["id"]), stdio.text(json.dumps(message))))
        elif (reply := stdio.handshake(message, "asking", TOOLS)) is not None:
            stdio.send(reply)


main()
