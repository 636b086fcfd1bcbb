"""A request of ours on its way over HTTP, from the moment it is asked until nothing is read for it any more."""

import asyncio
from collections.abc import Callable

from hearth.wire import values
from hearth.wire.values import RawBytes

DISCOVER, INITIALIZE = "server/discover", "initialize"
LISTEN = "subscriptions/listen"


class Outgoing:
    """One request. `sent` once all of it has been written; `task` does the asking."""

    __slots__ = ("_on_done", "body", "method", "number", "params", "sent", "task")

    def __init__(self, number: int, method: RawBytes, params: RawBytes, on_done: Callable[[int], None]) -> None:
        self.number = number
        self.method = values.text(method) or ""
        self.params = params
        self.body = b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (number, method, params)
        self.sent = False
        self.task: asyncio.Task[None] | None = None
        self._on_done: Callable[[int], None] | None = on_done

    @property
    def is_opening(self) -> bool:
        """Whether it is one of those that find out what the server speaks."""
        return self.method in (DISCOVER, INITIALIZE)

    def was_sent(self) -> None:
        """All of it is in the hands of the kernel: it takes no room here any more."""
        self.sent = True
        self.finish()

    def finish(self) -> None:
        """It takes no room any more, whatever became of it."""
        done, self._on_done = self._on_done, None
        if done:
            done(len(self.body))

    def drop(self) -> None:
        """Nobody wants its answer."""
        if self.task:
            self.task.cancel()
