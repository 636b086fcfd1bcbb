"""A legacy server that asks back, whatever clients have declared.

Tool: `ask` {method} sends a request of that method and answers with what came back, as JSON text.
"""

import json

import stdio

TOOLS = [stdio.described("ask")]


waiting: dict[object, stdio.Message] = {}
for number, message in enumerate(stdio.messages()):
    if message.get("method") == "tools/call":
        question = f"question-{number}"
        waiting[question] = message
        method = stdio.arguments(message).get("method", "ping")
        stdio.send({"jsonrpc": "2.0", "id": question, "method": method, "params": {}})
    elif "method" not in message and message.get("id") in waiting:
        stdio.send(stdio.result(waiting.pop(message["id"]), stdio.text(json.dumps(message))))
    else:
        stdio.reply(message, "asking", TOOLS)
