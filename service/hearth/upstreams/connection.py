"""JSON-RPC with one MCP server over one process: ids out, answers in, whatever else the server says.

Knows nothing of tools or sessions. Whoever asks gives a `Waiter`; it is told exactly once.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from hearth.errors import HearthError, MessageError, UpstreamError, WireError
from hearth.mcp import answers, eras
from hearth.turns import TURN
from hearth.upstreams.process import Process
from hearth.wire import json, values
from hearth.wire.lines import Item, LineDecoder
from hearth.wire.values import RawBytes

log = logging.getLogger(__name__)

# Garbage on stdout is a server's own business; after so many lines it is no longer news.
GARBAGE_REPORTS = 5
_ID_DIGITS = 19
# Between the end of a pipe and the end of the process that had it.
EXIT_SECONDS = 2.0


class Waiter(Protocol):
    """Waits for the answer to one request."""

    def answered(self, message: json.Message) -> None:
        """The server answered, with a result or an error."""

    def failed(self, problem: HearthError) -> None:
        """There will be no answer."""

    def progressed(self, params: json.Fields) -> None:
        """The server reported progress on the request."""


class Connection:
    """One conversation. `on_notification`, `on_lost` and `on_closed` are told what nobody asked for."""

    def __init__(
        self,
        name: str,
        limits: tuple[int, int],
        on_notification: Callable[[json.Message], None],
        on_closed: Callable[["Connection", int], None],
        on_lost: Callable[["Connection"], None],
    ) -> None:
        message_limit, self._queue_limit = limits
        self.name = name
        self.process = Process(name, self._receive, self._exited, lambda: on_lost(self))
        self._decoder = LineDecoder(message_limit)
        self._waiting: dict[int, Waiter] = {}
        self._standing: set[int] = set()
        self._next_id = 1
        self._garbage = 0
        self._on_notification = on_notification
        self._on_closed = on_closed

    async def open(self, argv: Sequence[str], environment: Mapping[str, str], cwd: str) -> None:
        """Start the server's process. Raises UpstreamError."""
        await self.process.start(argv, environment, cwd)

    @property
    def in_flight(self) -> int:
        """How many requests wait for an answer that is to come soon."""
        return len(self._waiting) - len(self._standing)

    def waiter(self, number: int) -> Waiter | None:
        """Who waits for the answer to that request."""
        return self._waiting.get(number)

    def reserve(self) -> int:
        """The id that the next request will have; its progress token too."""
        return self._next_id

    def stand(self, method: bytes, params: RawBytes, waiter: Waiter) -> None:
        """Ask for something that is answered only when it ends, such as a subscription."""
        self._standing.add(self.request(method, params, waiter))

    def request(self, method: bytes, params: RawBytes, waiter: Waiter) -> int:
        """Ask; `method` is raw JSON. Returns the id. Raises UpstreamError when the server does not take it."""
        number = self._next_id
        self.process.write(
            b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}\n' % (number, method, params),
            self._queue_limit,
        )
        self._next_id = number + 1
        self._waiting[number] = waiter
        return number

    def notify(self, method: str, params: RawBytes | None = None) -> None:
        """Tell; nothing comes back, and a server that is gone is told nothing."""
        try:
            self.process.write(answers.notification(method, params) + b"\n")
        except UpstreamError:
            pass

    async def lost(self) -> UpstreamError:
        """Why nothing can be written any more: of a server that has just ended, its exit says most."""
        try:
            async with asyncio.timeout(EXIT_SECONDS):
                await self.process.exited.wait()
        except TimeoutError:
            return UpstreamError(f"server {self.name!r} closed its input")
        return self._ended(self.process.exit_code or 0)

    def _ended(self, code: int) -> UpstreamError:
        return UpstreamError(f"server {self.name!r} ended ({describe_exit(code)}) before it answered")

    def forget(self, number: int) -> None:
        """Nobody is interested in that answer any longer; the server is not told."""
        self._waiting.pop(number, None)

    def cancel(self, number: int, reason: RawBytes | None) -> None:
        """Withdraw a request: nobody waits for its answer any more. Goes past the queue's limit."""
        if self._waiting.pop(number, None) is None:
            return
        params: dict[str, RawBytes] = {"requestId": b"%d" % number}
        if reason is not None:
            params["reason"] = reason
        self.notify("notifications/cancelled", json.join(params))

    def _receive(self, data: bytes) -> None:
        TURN.begin()
        try:
            self._handle(self._decoder.receive_data(data))
        finally:
            TURN.end()

    def _handle(self, items: list[Item]) -> None:
        for item in items:
            if not isinstance(item, json.Message):
                self._receive_unusable(item)
            elif item.method is None:
                id = item.id
                # Hearth's own ids are short decimal numbers; anything else was never asked.
                number = int(id) if id and id.isdigit() and len(id) < _ID_DIGITS else 0
                waiter = self._waiting.pop(number, None)
                if waiter is None:
                    # A second answer, one to a cancelled request, or one to nothing that was ever asked.
                    log.debug("an answer that nobody waits for", extra={"upstream": self.name})
                    continue
                self._standing.discard(number)
                waiter.answered(item)
            elif item.id is None:
                self._on_notification(item)
            else:
                self._receive_request(item)

    def _receive_unusable(self, problem: WireError) -> None:
        number = values.integer(problem.id) if isinstance(problem, MessageError) else None
        waiter = self._waiting.pop(number, None) if number is not None else None
        if waiter:
            waiter.failed(UpstreamError(f"server {self.name!r} gave an unusable answer: {problem}"))
        else:
            self._complain(problem)

    def _complain(self, problem: HearthError) -> None:
        self._garbage += 1
        if self._garbage <= GARBAGE_REPORTS:
            log.warning("not MCP on its stdout: %s", problem, extra={"upstream": self.name})

    def _receive_request(self, message: json.Message) -> None:
        assert message.id is not None
        if message.method == "ping":
            answer = answers.result(message.id, b"{}")
        else:
            answer = answers.error(
                message.id, eras.METHOD_NOT_FOUND, f"Hearth declared no capability for {message.method}"
            )
        try:
            self.process.write(answer + b"\n", self._queue_limit)
        except UpstreamError as problem:
            self._complain(problem)

    def _exited(self, code: int) -> None:
        waiting, self._waiting = self._waiting, {}
        problem = self._ended(code)
        for waiter in waiting.values():
            waiter.failed(problem)
        self._on_closed(self, code)


def describe_exit(code: int) -> str:
    """An exit code in words."""
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
