"""A legacy server that keeps every line it was sent, byte for byte.

    recording_server.py FILE

FILE gets each line of stdin with a line feed. Tools, none annotated: `echo` answers with the text `heard`; `hold` never
answers; `about` answers with a JSON document of what the process was given: `fds`, what each of its descriptors is,
`env`, `cwd`, `group` and `pid`.
"""

import json
import os
import sys

import stdio

# Deeply nested arguments are what tests send here.
sys.setrecursionlimit(20_000)

TOOLS = [stdio.described(name) for name in ("echo", "hold", "about")]


def descriptors() -> dict[str, str]:
    """What each of this process's descriptors is."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            # The one that listed them.
            continue
    return found


def about() -> str:
    """What this process was given."""
    found = {"fds": descriptors(), "env": dict(os.environ), "cwd": os.getcwd(), "group": os.getpgid(0)}
    return json.dumps({**found, "pid": os.getpid()})


def answer(request: stdio.Message) -> stdio.Message | None:
    """What a request gets."""
    if request.get("method") != "tools/call":
        return stdio.handshake(request, "recording", TOOLS)
    return stdio.called(
        request, {"echo": lambda _: stdio.text("heard"), "hold": lambda _: None, "about": lambda _: stdio.text(about())}
    )


record = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.set_inheritable(record, False)
for line in stdio.raw_lines():
    os.write(record, line + b"\n")
    reply = answer(json.loads(line.decode("utf-8", "surrogateescape")))
    if reply is not None:
        stdio.send(reply)
