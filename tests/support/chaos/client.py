"""A client with its bridge: sends lines, and records everything that comes back, in order, for whoever judges it.

The reader is a thread that never stops reading, unless it is told to: a test of a blocked output wants that.
"""

import json
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self

import pytest

from support.chaos.home import BRIDGE, Home
from support.kernel import BOUND_SECONDS

Message = dict[str, Any]
VERSION = "2025-11-25"


class Client:
    """One bridge's process and the conversation with it."""

    def __init__(
        self,
        home: Home,
        command: Sequence[str] = BRIDGE,
        environment: dict[str, str] | None = None,
        reading: bool = True,
    ) -> None:
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._ids = 0
        self._over = False
        self.received: list[Message] = []
        # Lines that were no JSON object: there must never be one.
        self.garbage: list[bytes] = []
        self.on_message: Callable[[Message], None] = lambda message: None
        with home.complaints.open("a") as complaints:
            self.process = subprocess.Popen(
                command,
                env=home.environment | (environment or {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                bufsize=0,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reading:
            self.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    @property
    def pid(self) -> int:
        """The bridge's pid."""
        return self.process.pid

    @property
    def output(self) -> int:
        """The descriptor from which the client reads."""
        assert self.process.stdout
        return self.process.stdout.fileno()

    def read(self) -> None:
        """Begin to read."""
        self._reader.start()

    def _read(self) -> None:
        # Buffered here and not by Popen: a test may look at the pipe before anybody reads it.
        with open(self.output, "rb", closefd=False) as lines:
            for line in lines:
                self._take(line)
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self.garbage.append(line)
            return
        self.on_message(message)
        with self._changed:
            self.received.append(message)
            self._changed.notify_all()

    # --- sending

    def send(self, *messages: Message) -> None:
        """Write messages, all at once."""
        self.write(b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages))

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin
        with self._sending:
            view = memoryview(data)
            while view:
                view = view[self.process.stdin.write(view) :]

    def request(self, method: str, **params: Any) -> int:
        """Send a request; return its id."""
        self._ids += 1
        self.send({"id": self._ids, "method": method, "params": params})
        return self._ids

    def call(self, tool: str, **arguments: Any) -> int:
        """Call a tool of the counting server; return the request's id."""
        return self.request("tools/call", name=f"counting__{tool}", arguments=arguments)

    def cancel(self, id: int | str) -> None:
        """Withdraw a request."""
        self.send({"method": "notifications/cancelled", "params": {"requestId": id}})

    def greet(self, **capabilities: Any) -> Message:
        """Open the session and wait; return the result of `initialize`."""
        return self.result(self.open(**capabilities))

    def open(self, **capabilities: Any) -> int:
        """Open the session as a legacy client does; return the id of `initialize`."""
        information = {"name": "chaos", "version": "1"}
        opening = self.request("initialize", protocolVersion=VERSION, capabilities=capabilities, clientInfo=information)
        self.send({"method": "notifications/initialized"})
        return opening

    # --- receiving

    def wait(self, wanted: Callable[[Message], bool], what: str) -> Message:
        """The first message, of all that ever came, which is wanted."""

        def found() -> Message | None:
            return next((message for message in self.received if wanted(message)), None)

        with self._changed:
            if not self._changed.wait_for(lambda: found() or self._over, BOUND_SECONDS):
                pytest.fail(f"not within {BOUND_SECONDS:g} s: {what}")
            message = found()
        assert message is not None, f"the bridge ended ({self.process.poll()}) instead of: {what}"
        return message

    def answer(self, id: int | str) -> Message:
        """The answer to a request."""
        return self.wait(lambda message: is_answer(message, id), f"an answer to {id!r}")

    def answers(self, id: int | str) -> list[Message]:
        """Every answer that came to a request; there should be one."""
        return [message for message in self.received if is_answer(message, id)]

    def result(self, id: int | str) -> Message:
        """The result of a request; an error fails the test."""
        answer = self.answer(id)
        assert "result" in answer, answer
        return answer["result"]

    def text(self, id: int | str) -> str:
        """The text that a call returned."""
        return self.result(id)["content"][0]["text"]

    def notice(self, method: str) -> Message:
        """The first notification, or question, of that method."""
        return self.wait(lambda message: message.get("method") == method, method)

    # --- the end

    def leave(self) -> int:
        """Close the bridge's input, take what it still delivers; return its exit code."""
        assert self.process.stdin
        self.process.stdin.close()
        code = self.process.wait(BOUND_SECONDS)
        self._reader.join(BOUND_SECONDS)
        return code

    def discard(self) -> None:
        """End the bridge without ceremony and bury it."""
        self.process.kill()
        self.process.wait()
        if self._reader.ident is not None:
            self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


def is_answer(message: Message, id: int | str) -> bool:
    """Whether that is an answer to the request of that id; `1` and `"1"` are two ids."""
    return "method" not in message and message.get("id") == id and type(message["id"]) is type(id)
