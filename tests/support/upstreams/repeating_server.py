"""A server that asks twice by the same id, in one breath, and again when it has its answer.

Tool: `ask` asks two questions by one id, and a third by the same id when the first answer has come. It answers with all
that came back until then, as a JSON array.
"""

import json

import stdio

TOOLS = [stdio.described("ask")]


def question(words: str) -> stdio.Message:
    """One that every client of 2025-06-18 can be asked."""
    params = {"message": words, "requestedSchema": {"type": "object", "properties": {}}}
    return {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}


call: stdio.Message = {}
answers: list[stdio.Message] = []
for message in stdio.messages():
    if message.get("method") == "tools/call":
        call, answers = message, []
        stdio.write(b"".join(json.dumps(question(words)).encode() + b"\n" for words in ("first", "second")))
    elif "method" not in message:
        answers.append(message)
        if len(answers) == 1:
            stdio.send(question("third"))
        else:
            stdio.send(stdio.result(call, stdio.text(json.dumps(answers))))
    else:
        stdio.reply(message, "repeating", TOOLS)
