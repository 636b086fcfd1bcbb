"""A server that does not finish.

    stalling_server.py FILE

Tools: `never` is not answered; `plod` {steps, pause} reports progress `steps` times, `pause` seconds apart, and answers
then; `echo` {text}. FILE gets a line for each cancellation: the arguments of the call, as JSON.
"""

import json
import sys
import time

import stdio

TOOLS = [stdio.described(name) for name in ("echo", "never", "plod")]


class Plodding:
    """A call that makes progress."""

    def __init__(self, request: stdio.Message) -> None:
        self.request = request
        self.given = stdio.arguments(request)
        self.step = 0
        self.due = time.monotonic() + self.given["pause"]

    def go_on(self) -> None:
        """The next step, or the end."""
        self.step += 1
        self.due = time.monotonic() + self.given["pause"]
        if self.step > self.given["steps"]:
            stdio.send(stdio.result(self.request, stdio.text("arrived")))
        else:
            params = {"progressToken": self.request["params"]["_meta"]["progressToken"], "progress": self.step}
            stdio.send(stdio.notice("notifications/progress", params))

    @property
    def is_done(self) -> bool:
        return self.step > int(self.given["steps"])


class Server:
    """The calls that have not ended."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.open: dict[object, stdio.Message] = {}
        self.plodding: dict[object, Plodding] = {}

    def take(self, message: stdio.Message) -> None:
        method = message.get("method")
        if method == "notifications/cancelled":
            self.cancel(message["params"]["requestId"])
        elif method == "tools/call":
            self.call(message)
        else:
            stdio.reply(message, "stalling", TOOLS)

    def call(self, request: stdio.Message) -> None:
        name = request["params"]["name"]
        if name == "echo":
            stdio.send(stdio.result(request, stdio.echo(request)))
            return
        self.open[request["id"]] = request
        if name == "plod":
            self.plodding[request["id"]] = Plodding(request)

    def cancel(self, id: object) -> None:
        self.plodding.pop(id, None)
        request = self.open.pop(id, None)
        if request:
            stdio.note(self.path, json.dumps(stdio.arguments(request)))

    def plod(self) -> float | None:
        """Go on with what is due; the seconds until the next."""
        now = time.monotonic()
        for id, plodding in list(self.plodding.items()):
            if plodding.due <= now:
                plodding.go_on()
            if plodding.is_done:
                del self.plodding[id]
        return max(0.0, min(each.due for each in self.plodding.values()) - now) if self.plodding else None


server = Server(sys.argv[1])
while (messages := stdio.poll(server.plod())) is not None:
    for message in messages:
        server.take(message)
