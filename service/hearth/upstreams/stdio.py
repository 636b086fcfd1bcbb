"""Connection to a server that runs as a child process and speaks MCP on its standard streams.

`MessageReader` reads messages with a budget for each turn of the event loop. A server that floods its output would
leave no time for others: handling the messages of one read takes 20 ms. Beyond the budget the rest waits for the next
turn, and the server blocks on its pipe.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from hearth.errors import HearthError, MessageError, UpstreamBusy, UpstreamError
from hearth.mcp import messages
from hearth.upstreams.child_process import Process, describe_exit
from hearth.upstreams.connection import Connection, Owner, Waiter
from hearth.wire import json
from hearth.wire.lines import Item, LineDecoder
from hearth.wire.values import RawBytes
from hearth.write_batch import WRITE_BATCH

log = logging.getLogger(__name__)

# Messages, and the bytes that they came in.
Portion = tuple[list[Item], bytes]

# Messages of one server in one turn: about half a millisecond's work, and still enough to share system calls.
TURN_MESSAGES = 32
# Consecutive lines without a message: more than a banner with warnings has, few enough to be read in a moment.
GARBAGE_LIMIT = 10_000
# Characters of a line that is no message, in the log and in the status: enough to recognise it.
STRAY_CHARACTERS = 200
# Between the end of a pipe and the end of the process that had it.
EXIT_SECONDS = 2.0


def stray_mark(protocol: str) -> str:
    """Return the words that precede a stray line in the cause of a failure."""
    return f"printed to stdout, which is for {protocol} only: "


# For `hearth doctor`, which looks for it in the failures of servers.
STRAY_MARK = stray_mark("MCP")


def cut(data: bytes, start: int, lines: int) -> int:
    """Find the end of so many lines, or of the data."""
    for _ in range(lines):
        start = data.find(b"\n", start) + 1
        if not start:
            return len(data)
    return start


def pieces(data: bytes, lines: int) -> Iterator[bytes]:
    """Yield the data in pieces of so many lines."""
    if data.count(b"\n") <= lines:
        yield data
        return
    start = 0
    while start < len(data):
        end = cut(data, start, lines)
        yield data[start:end]
        start = end


class MessageReader:
    """Reader of one server's output. `take` gets messages and the bytes that they came in, a budget's worth at a time.

    `hold` is called to pause the reading of the pipe (True), and to resume it (False).
    """

    def __init__(self, limit: int, take: Callable[[list[Item], bytes], None], hold: Callable[[bool], None]) -> None:
        self._decoder = LineDecoder(limit)
        self._take = take
        self._hold = hold
        self._budget = TURN_MESSAGES
        # Messages that were read beyond the budget.
        self._portions: Iterator[Portion] = iter(())
        self._is_waiting = False
        self._is_taking = False

    def receive(self, data: bytes) -> None:
        """Take bytes, and handle what is within the budget."""
        if self._is_waiting:
            # A transport may have read once more before it was paused.
            self._portions = chain(self._portions, self._split(data))
        elif data.count(b"\n") <= self._budget:
            items = self._decoder.receive_data(data)
            if len(items) <= self._budget:
                self._take(items, data)
            else:
                self._begin(self._share(items, data))
        else:
            self._begin(self._split(data))

    def release(self) -> None:
        """Handle the waiting messages, without a budget from now on: the server has exited, so little can follow."""
        self._budget = sys.maxsize
        # Inside `take`, the waiting messages follow the current portion.
        if self._is_waiting and not self._is_taking:
            self._finish()

    def close(self) -> None:
        """Drop the waiting messages; a paused pipe stays paused."""
        self._portions = iter(())
        self._is_waiting = False

    def _split(self, data: bytes) -> Iterator[Portion]:
        for piece in pieces(data, self._budget):
            yield from self._share(self._decoder.receive_data(piece), piece)

    def _share(self, items: list[Item], data: bytes) -> Iterator[Portion]:
        """Yield messages in portions; an array on one line may have many."""
        yield items[: self._budget], data
        for start in range(self._budget, len(items), self._budget):
            yield items[start : start + self._budget], b""

    def _begin(self, portions: Iterator[Portion]) -> None:
        self._portions = portions
        self._is_waiting = True
        self._hold(True)
        self._turn()

    def _turn(self) -> None:
        """Handle one portion; the next one waits for the next turn of the loop."""
        portion = next(self._portions, None)
        if portion is None:
            self._go_on()
            return
        asyncio.get_running_loop().call_soon(self._turn)
        self._is_taking = True
        try:
            self._take(*portion)
        finally:
            self._is_taking = False
        if self._budget == sys.maxsize:
            self._finish()

    def _finish(self) -> None:
        for portion in self._portions:
            self._take(*portion)
        self._go_on()

    def _go_on(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._hold(False)


class StdioConnection(Connection):
    """Connection to one process, from its start to its exit. `limits`: bytes of one message, bytes queued for stdin."""

    _where = " on its stdout"
    # Values for the files of its control group, if it has one.
    group_limits: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self, name: str, owner: Owner, launch: tuple[Sequence[str], Mapping[str, str], str], limits: tuple[int, int]
    ) -> None:
        super().__init__(name, owner)
        self._launch = launch
        message_limit, self._queue_limit = limits
        self._garbage_in_a_row = 0
        self._is_flooding = False
        self._is_greeted = False
        self._intake = MessageReader(message_limit, self._receive, self._hold)
        subject = f"{self.peer} {name!r}"
        self._process = Process(name, self._intake.receive, self._exited, self._lost, self._masked, subject)

    @property
    def pid(self) -> int:  # type: ignore[override]  # a constant for connections without a process
        """Pid of the server; 0 before its start."""
        return self._process.pid

    @property
    def last_words(self) -> tuple[str, ...]:  # type: ignore[override]
        """Last lines of its stderr; before the handshake, also a line of its stdout that was no message."""
        stray = (stray_mark(self.protocol) + self.stray,) if self.stray and not self._is_greeted else ()
        return (*self._process.stderr, *stray)

    def _masked(self, text: str) -> str:
        # The mask is set after the connection is made, so it is looked up with each line.
        return self.mask(text)

    async def open(self) -> None:
        """Start the server's process. Raises UpstreamError."""
        argv, environment, cwd = self._launch
        await self._process.start(argv, environment, cwd, self.group_limits)

    async def stop(self) -> None:
        """Stop the process, by the bounded sequence."""
        await self._process.stop()

    def greeted(self, era: str, version: str) -> None:
        """Note that the server speaks MCP: from now on, stray lines on its stdout do not explain a failed start."""
        self._is_greeted = True

    def disregard(self, problem: HearthError) -> None:
        """Keep the offending line for `hearth logs NAME`, and log it cut and masked."""
        line = problem.line if isinstance(problem, MessageError) else b""
        if not line:
            super().disregard(problem)
            return
        text = self._process.stray(line, self.protocol)
        shown = text if len(text) <= STRAY_CHARACTERS else f"{text[:STRAY_CHARACTERS]}…"
        self.stray_lines += 1
        self.stray = self.stray or shown
        self.warn_limited(f"not {self.protocol}{self._where}: {problem} line={shown!r}")

    def request(self, method: bytes, params: RawBytes, waiter: Waiter) -> int:
        """Send a request as the base class does, with one function call less: every call takes this path."""
        number = self._next_id
        line = b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}\n' % (number, method, params)
        self._process.write(line, self._queue_limit)
        self._next_id = number + 1
        self._waiting[number] = waiter
        return number

    def notify(self, method: str, params: RawBytes | None = None) -> None:
        """Send a notification, regardless of the queue's limit: cancellations come this way."""
        try:
            self._process.write(messages.notification(method, params) + b"\n")
        except UpstreamError:
            pass

    def answer(self, payload: bytes, cause: int | None = None) -> None:
        """Answer a request of the server; drop the answer if the server does not read and the queue is full."""
        try:
            self._process.write(payload + b"\n", self._queue_limit)
        except UpstreamBusy as problem:
            self.disregard(problem)
        except UpstreamError:
            # The server is gone.
            pass

    async def why_lost(self) -> UpstreamError:
        """Return why nothing can be sent: wait briefly for the exit, which tells most."""
        if self._is_flooding:
            return self._ended(0)
        try:
            async with asyncio.timeout(EXIT_SECONDS):
                await self._process.exited.wait()
        except TimeoutError:
            return UpstreamError(f"{self.peer} {self.name!r} closed its input")
        return self._ended(self._process.exit_code or 0)

    def _receive(self, items: list[Item], data: bytes) -> None:
        self.heard = True
        WRITE_BATCH.begin()
        try:
            self._take_all(items)
        finally:
            WRITE_BATCH.end()
        if items and isinstance(items[-1], json.Message):
            self._garbage_in_a_row = 0
        else:
            self._note_garbage(len(items) or (len(data) if data.isspace() else 0))

    def _note_garbage(self, count: int) -> None:
        """Count lines that were no message; stop a server that floods, as it would leave no time for the others."""
        self._garbage_in_a_row += count
        if self._garbage_in_a_row > GARBAGE_LIMIT and not self._is_flooding:
            self._is_flooding = True
            subject = {"upstream": self.name}
            log.warning("flood of lines on stdout that are not %s: stopping it", self.protocol, extra=subject)
            self._intake.close()
            self._process.abandon()

    def _hold(self, held: bool) -> None:
        self._process.hold_output(held)

    def _lost(self) -> None:
        if self._process.exited.is_set():
            self._intake.release()
        self._owner.lost(self)

    def _exited(self, code: int) -> None:
        self._end(self._ended(code), f"it ended by itself ({describe_exit(code)})")

    def _ended(self, code: int) -> UpstreamError:
        subject = f"{self.peer} {self.name!r}"
        if self._is_flooding:
            return UpstreamError(f"{subject} floods its stdout with what is not {self.protocol}, and was ended")
        return UpstreamError(f"{subject} ended ({describe_exit(code)}) before it answered")
