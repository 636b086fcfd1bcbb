"""A server that answers up to a point and then never reads again, so that the pipe to it fills up.

    deaf_server.py [METHOD]

METHOD is the last one that it answers: `initialize` when nothing is given, `tools/list` to be found with
its tool first. Tool: `echo`. It does not notice the end of its stdin; a signal ends it.
"""

import signal
import sys

import stdio

TOOLS = [stdio.described("echo", readOnlyHint=True)]


last = sys.argv[1] if len(sys.argv) > 1 else "initialize"
for request in stdio.messages():
    answer = stdio.handshake(request, "deaf", TOOLS)
    if answer is not None:
        stdio.send(answer)
    if request.get("method") == last:
        signal.pause()
