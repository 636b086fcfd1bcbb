"""A server that lets calls pile up and answers the newest first, to see how many it is given at a time.

    crowded_server.py NUMBER

Tool: `wait`. As soon as NUMBER calls wait, or nothing else came for a moment, the newest is answered with
{most, mine} as JSON text: the most that ever waited at a time, and the arguments of the call.
"""

import json
import os
import select
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import stdio

TOOLS = [stdio.described("wait")]
# Whoever is late comes after the next answer.
MOMENT_SECONDS = 0.05


def main() -> None:
    """Serve until stdin ends."""
    stdio.limit_lifetime()
    number = int(sys.argv[1])
    waiting: list[stdio.Message] = []
    most, rest = 0, b""
    while True:
        if len(waiting) >= number or (waiting and not select.select([0], [], [], MOMENT_SECONDS)[0]):
            request = waiting.pop()
            state = {"most": most, "mine": stdio.arguments(request)}
            stdio.send(stdio.result(request, stdio.text(json.dumps(state))))
            continue
        chunk = os.read(0, stdio.CHUNK_BYTES)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        for request in map(json.loads, lines):
            if request.get("method") == "tools/call":
                waiting.append(request)
            elif (reply := stdio.handshake(request, "crowded", TOOLS)) is not None:
                stdio.send(reply)
        most = max(most, len(waiting))


main()
