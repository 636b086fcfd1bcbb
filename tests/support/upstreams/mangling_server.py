"""A server whose bytes are no text, and whose words are no MCP.

    mangling_server.py [METHOD JSON]

METHOD is answered with JSON in place of its result, unchecked, `\\xNN` in it being that byte. Tools: `notice` sends
notices with bytes that are no UTF-8 in each part of them, `question` requests like that, one of them by the id of the
call itself, and answers with [id, code] of each error that came back, as JSON; `echo` {text} is answered.
"""

import json
import sys

import stdio

TOOLS = [stdio.described(name) for name in ("echo", "notice", "question")]
BAD = b"\xff\xfe\xed\xa0\x80\xc0\xaf"
NOTICES = (
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"' + BAD + b'"}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/' + BAD + b'","params":{}}\n'
    b'{"jsonrpc":"2.0","' + BAD + b'":1,"method":"notifications/tools/list_changed"}\n' + BAD + b"\n"
)
QUESTIONS = (
    b'{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"' + BAD + b'"}}\n'
    b'{"jsonrpc":"2.0","id":"' + BAD + b'","method":"roots/list"}\n'
    b'{"jsonrpc":"2.0","id":"three","method":"' + BAD + b'"}\n'
    b'{"jsonrpc":"2.0","id":"last","method":"ping"}\n'
)


method, raw = sys.argv[1:] if len(sys.argv) > 1 else ("", "")
call: stdio.Message = {}
errors: list[list[object]] = []
for message in stdio.messages():
    if message.get("method") == method and "id" in message:
        result = raw.encode("latin-1", "replace").decode("unicode_escape").encode("latin-1")
        stdio.write(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (message["id"], result))
    elif message.get("method") == "tools/call":
        call = message
        if message["params"]["name"] == "question":
            stdio.write(QUESTIONS % message["id"])
            continue
        if message["params"]["name"] == "notice":
            stdio.write(NOTICES)
        stdio.send(stdio.result(message, stdio.echo(message)))
    elif "error" in message:
        errors.append([message["id"], message["error"]["code"]])
    elif message.get("id") == "last":
        found = [["mine" if id == call["id"] else id, code] for id, code in errors]
        stdio.send(stdio.result(call, stdio.text(json.dumps(found))))
    else:
        stdio.reply(message, "mangling", TOOLS)
