"""A legacy server whose slowness and whose tools are the test's to choose.

    gated_server.py LEDGER NAME TOOLS [GATE [METHOD]]

Each start appends `NAME PID` to LEDGER. TOOLS is a file with the names of its tools, read whenever they are listed; any
tool answers NAME. While somebody else holds a lock on the file GATE, it answers nothing; with METHOD, everything but
that.
"""

import fcntl
import os
import sys
import threading

import stdio


def wait_at(gate: str) -> None:
    """Return when nobody holds the gate."""
    with open(gate) as file:
        fcntl.flock(file, fcntl.LOCK_SH)


def main() -> None:
    """Answer until stdin ends."""
    stdio.limit_lifetime()
    ledger, name, tools, *rest = sys.argv[1:]
    with open(ledger, "a") as file:
        file.write(f"{name} {os.getpid()}\n")
    gate, held = (rest[0] if rest else None), (rest[1] if len(rest) > 1 else None)
    if gate and not held:
        wait_at(gate)
    for request in stdio.messages():
        if request.get("method") == "tools/call":
            stdio.send(stdio.result(request, stdio.text(name)))
            continue
        with open(tools) as file:
            listed = [stdio.described(tool) for tool in file.read().split()]
        answer = stdio.handshake(request, name, listed)
        if answer and request["method"] == "initialize":
            answer["result"]["instructions"] = f"This is {name}."
        if answer and gate and request["method"] == held:
            threading.Thread(target=send_late, args=(gate, answer), daemon=True).start()
        elif answer:
            stdio.send(answer)


def send_late(gate: str, answer: stdio.Message) -> None:
    """Answer when the gate is open; whoever asks meanwhile is answered before."""
    wait_at(gate)
    stdio.send(answer)


main()
