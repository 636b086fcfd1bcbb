"""Reader of a server's messages with a budget for each turn of the event loop.

A server that floods its output would leave no time for others: handling the messages of one read takes 20 ms. Beyond
the budget the rest waits for the next turn, and the server blocks on its pipe.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from itertools import chain

from hearth.wire.lines import Item, LineDecoder

# Messages, and the bytes that they came in.
Portion = tuple[list[Item], bytes]

# Messages of one server in one turn: about half a millisecond's work, and still enough to share system calls.
TURN_MESSAGES = 32


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
