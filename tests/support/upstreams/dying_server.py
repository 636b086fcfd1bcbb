"""A server that dies in the middle of things.

    dying_server.py [FILE] [--on METHOD] [--behind METHOD]

FILE gets a line `PID` at every start. With --on the server exits, with words on stderr, as soon as it is
asked METHOD (`start`: at once); with --behind as soon as it has answered METHOD. Tools: `echo` {text} (read-only);
`die` exits with code 3 before its answer; `abort` is killed by SIGKILL; `half` writes half of its answer, then exits.
"""

import json
import os
import signal
import sys

import stdio

TOOLS = [stdio.described("echo", readOnlyHint=True), *(stdio.described(name) for name in ("die", "abort", "half"))]


def leave(words: str) -> None:
    """Exit with code 3, at once."""
    os.write(2, f"dying_server: {words}\n".encode())
    os._exit(3)


def call(request: stdio.Message) -> stdio.Message | None:
    """The tool's answer, where it lives to give one."""
    name = request["params"]["name"]
    if name == "die":
        leave("died in a call")
    if name == "abort":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "half":
        line = json.dumps(stdio.result(request, stdio.text("x" * 100))).encode()
        stdio.write(line[: len(line) // 2])
        leave("died in an answer")
    return stdio.called(request, {"echo": stdio.echo})


words = sys.argv[1:]
fatal = words.pop(words.index("--on") + 1) if "--on" in words else ""
last = words.pop(words.index("--behind") + 1) if "--behind" in words else ""
for path in (word for word in words if not word.startswith("--")):
    stdio.note(path, os.getpid())
if fatal == "start":
    leave("died at the start")
for request in stdio.messages():
    if request.get("method") == fatal:
        leave(f"died of {fatal}")
    answer = call(request) if request.get("method") == "tools/call" else stdio.handshake(request, "dying", TOOLS)
    stdio.send_if(answer)
    if request.get("method") == last:
        os._exit(0)
