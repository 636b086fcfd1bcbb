"""A server that closes one of its pipes and lives on: nobody can talk with it any longer.

    closing_server.py [FILE]

FILE gets a line `PID` at every start. Tools: `echo` {text} (read-only); `close_output` closes its stdout before
it answers; `close_input` answers, then closes its stdin. Either way a signal ends it, and nothing else.
"""

import os
import signal
import sys

import stdio

TOOLS = [
    stdio.described("echo", readOnlyHint=True),
    *(stdio.described(name) for name in ("close_output", "close_input")),
]


def close_output(request: stdio.Message) -> None:
    """No answer will come."""
    os.close(1)
    signal.pause()


def close_input(request: stdio.Message) -> None:
    """One answer more, then none."""
    stdio.send(stdio.result(request, stdio.text("closing")))
    os.close(0)
    signal.pause()


for path in sys.argv[1:]:
    stdio.note(path, os.getpid())
stdio.serve("closing", TOOLS, {"echo": stdio.echo, "close_output": close_output, "close_input": close_input})
