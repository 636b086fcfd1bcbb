"""A server that lets calls pile up and answers the newest first, to see how many it is given at a time.

    crowded_server.py NUMBER

Tool: `wait`. As soon as NUMBER calls wait, or nothing else came for a moment, the newest is answered with
{most, mine} as JSON text: the most that ever waited at a time, and the arguments of the call.
"""

import json
import select
import sys

import stdio

TOOLS = [stdio.described("wait")]
# Whoever is late comes after the next answer.
MOMENT_SECONDS = 0.05


number, most = int(sys.argv[1]), 0
waiting: list[stdio.Message] = []
messages: list[stdio.Message] | None = []
while messages is not None:
    if len(waiting) >= number or (waiting and not select.select([0], [], [], MOMENT_SECONDS)[0]):
        request = waiting.pop()
        state = {"most": most, "mine": stdio.arguments(request)}
        stdio.send(stdio.result(request, stdio.text(json.dumps(state))))
        continue
    messages = stdio.poll(None)
    for request in messages or ():
        if request.get("method") == "tools/call":
            waiting.append(request)
        else:
            stdio.reply(request, "crowded", TOOLS)
    most = max(most, len(waiting))
