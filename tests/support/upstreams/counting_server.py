"""A legacy server that keeps the count: each execution of a tool appends one line `TOOL KEY` to a file.

    counting_server.py FILE [DELAY_MS]

Tools: `read` (read-only), `put` (idempotent), `once` (no annotation). Arguments of each: `key`; optional
`delay` in milliseconds (instead of DELAY_MS) and `steps`, the number of progress notifications that a call
with a progress token sends, spread over the delay. Calls run at the same time and are answered when they
are due, so out of order where delays differ. The line is written when the call begins. A cancelled call
appends `cancelled KEY` and has no answer. A start of the server appends `started PID`.
"""

import heapq
import json
import os
import sys
import time

import stdio

TOOLS = [
    stdio.described("read", readOnlyHint=True),
    stdio.described("put", idempotentHint=True),
    stdio.described("once"),
]
NAMES = {tool["name"] for tool in TOOLS}


class Ledger:
    """The file of counts. O_APPEND makes each line whole, also when two servers share it."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def add(self, what: str, key: object) -> None:
        os.write(self._file, f"{what} {key}\n".encode())


class Calls:
    """The calls that have begun and are not due yet."""

    def __init__(self, ledger: Ledger, delay_ms: float) -> None:
        self._ledger = ledger
        self._delay_ms = delay_ms
        self._timers: list[tuple[float, int, object, stdio.Message]] = []
        self._keys: dict[object, object] = {}
        self._count = 0

    def begin(self, request: stdio.Message) -> None:
        given = stdio.arguments(request)
        name, key, now = request["params"]["name"], given.get("key", ""), time.monotonic()
        self._ledger.add(name, key)
        self._keys[request["id"]] = key
        delay = given.get("delay", self._delay_ms) / 1000
        for when, message in self._progress(request, given.get("steps", 0), delay):
            self._at(now + when, request["id"], message)
        self._at(now + delay, request["id"], stdio.result(request, stdio.text(f"{name} {key}")))

    def cancel(self, key: object) -> None:
        if key in self._keys:
            self._ledger.add("cancelled", self._keys.pop(key))

    def due(self) -> list[stdio.Message]:
        """What is to be sent now; what belongs to a cancelled call is left out."""
        found, now = [], time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, _, key, message = heapq.heappop(self._timers)
            if key in self._keys:
                found.append(message)
                if "result" in message:
                    del self._keys[key]
        return found

    def wait(self) -> float | None:
        """Seconds until something is due, None when nothing ever will be."""
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _at(self, when: float, key: object, message: stdio.Message) -> None:
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, key, message))

    def _progress(self, request: stdio.Message, steps: int, delay: float) -> list[tuple[float, stdio.Message]]:
        token = (request["params"].get("_meta") or {}).get("progressToken")
        if token is None:
            return []
        return [
            (
                delay * step / (steps + 1),
                stdio.notice("notifications/progress", {"progressToken": token, "progress": step, "total": steps}),
            )
            for step in range(1, steps + 1)
        ]


def handle(request: stdio.Message, calls: Calls) -> stdio.Message | None:
    """Take one message; return the answer that can be given at once."""
    method = request.get("method")
    if method == "tools/call":
        if request["params"]["name"] not in NAMES:
            return stdio.error(request, -32602, f"Unknown tool: {request['params']['name']}")
        calls.begin(request)
        return None
    if method == "notifications/cancelled":
        calls.cancel(request["params"].get("requestId"))
        return None
    return stdio.handshake(request, "counting", TOOLS)


ledger = Ledger(sys.argv[1])
ledger.add("started", os.getpid())
calls = Calls(ledger, float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
messages: list[stdio.Message] | None = []
# Calls that run when stdin ends are forgotten, as by a server that exits.
while messages is not None:
    out = calls.due()
    if not out:
        messages = stdio.poll(calls.wait())
        out = [answer for message in messages or () if (answer := handle(message, calls)) is not None]
    if out:
        stdio.write(b"".join(json.dumps(message).encode() + b"\n" for message in out))
