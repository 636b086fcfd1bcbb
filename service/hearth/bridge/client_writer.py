"""Everything that is written to the client, whole lines only. Any thread may deliver; `idle` tells when all is out."""

import os
from _thread import allocate_lock, start_new_thread

from hearth.bridge import client_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hearth.faults import Seams


class Client:
    """The one that reads our standard output. When it is gone, so is the reason to live."""

    def __init__(self, seams: "Seams | None", after_first: "Callable[[], None]") -> None:
        """`after_first` is called once, in a thread of its own, when the first lines are out."""
        self._lock = allocate_lock()
        self._seams = seams
        self._after_first: Callable[[], None] | None = after_first
        # Set by the thread that carries down from before it takes a line out of the ledger until the answer is out.
        self.delivering = False
        self._asides: dict[int, bytes] = {}

    def deliver(self, lines: list[bytes]) -> None:
        """Write lines, however long the client takes to read them."""
        if not lines:
            return
        lines.append(b"")
        data = b"\n".join(lines)
        try:
            with self._lock:
                if self._seams:
                    data = self._write_half(self._seams, data)
                client_io.write_output(data)
        except client_io.ClientGone:
            os._exit(0)
        if self._after_first:
            start_new_thread(self._after_first, ())
            self._after_first = None

    def deliver_aside(self, line: bytes, then: "Callable[[], None]") -> None:
        """Deliver in a thread of its own: a client that does not read must not stop its own way up."""
        self._asides[id(line)] = line
        start_new_thread(self._deliver_aside, (line, then))

    def _deliver_aside(self, line: bytes, then: "Callable[[], None]") -> None:
        self.deliver([line])
        del self._asides[id(line)]
        then()

    def idle(self) -> bool:
        """Whether nothing is on its way to the client."""
        return not self.delivering and not self._asides

    def _write_half(self, seams: "Seams", data: bytes) -> bytes:
        """The fault seam in the middle of a write; what is left to be written."""
        middle = len(data) // 2 if seams.armed("bridge-mid-write") else 0
        client_io.write_output(data[:middle])
        seams.hit("bridge-mid-write")
        return data[middle:]
