"""Waiting for a reason to go on, and leaving when there is none left: the client's input ended and nothing is owed."""

import os
from _thread import allocate_lock
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hearth.bridge.client_writer import Client
    from hearth.bridge.ledger import Ledger


class Waiting:
    """The end of a bridge, and what it waits for before that."""

    def __init__(self, ledger: "Ledger", client: "Client") -> None:
        self._ledger = ledger
        self._client = client
        self._news = allocate_lock()  # released when there is something new for who waits
        # The client's input ended.
        self.ended = False

    def wake(self) -> None:
        """A line waits for a daemon, or the client's input ended."""
        try:
            self._news.release()
        except RuntimeError:
            # Told already.
            pass

    def rest(self) -> None:
        """Wait until a line wants a daemon. Leaves when none can come any more."""
        while not self._ledger.table:
            self.leave_if_done()
            self._news.acquire()

    def pause(self, seconds: float) -> None:
        """Wait. Leaves when nothing is owed to a client whose input ended."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            self.leave_if_done()
            self._news.acquire(True, left)
        self.leave_if_done()

    def leave_if_done(self) -> None:
        """End the process if the client's input ended and it has got everything."""
        # The table first: an answer leaves it before it is written, and `delivering` is set before that.
        if self.ended and not self._ledger.table and self._client.idle():
            os._exit(0)
