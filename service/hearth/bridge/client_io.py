"""Client's side of the bridge: its descriptors without buffers, its lines, and the writer of whole lines.

Descriptors are plain: a buffer would be one more thing that a thread could be caught in. The meaning of a line is the
daemon's business.
"""

import os
import sys
from _thread import allocate_lock, start_new_thread
from os import read, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hearth.faults import Seams

INPUT, OUTPUT, ERRORS = 0, 1, 2
# Enough for a hundred messages at once. With 64 KiB a busy bridge is no faster, and 3 MB larger.
CHUNK_BYTES = 16 * 1024
# When poll(2) says that a pipe can be written there is room for so much (PIPE_BUF); more could block.
_REMARK_BYTES = 512

# The id of a request stands in its first or last bytes; between them is what made it large.
HEAD_BYTES = 4096
TAIL_BYTES = 1024


def make_whole() -> None:
    """Open what the client left closed, so that no socket gets the number of standard error."""
    if sys.platform == "win32":
        import msvcrt

        # Line ends are the messages' own business.
        for descriptor in (INPUT, OUTPUT):
            msvcrt.setmode(descriptor, os.O_BINARY)
    for descriptor in (INPUT, OUTPUT, ERRORS):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def read_input() -> bytes:
    """Return bytes of the client; empty at the end."""
    while True:
        try:
            return read(INPUT, CHUNK_BYTES)
        except BlockingIOError:
            # Some clients hand over descriptors that do not block.
            is_ready(INPUT, for_output=False)
        except OSError:
            return b""


def write_output(data: bytes) -> None:
    """Write everything, however long the client takes. Raises OSError when it is gone."""
    left = memoryview(data)
    while left:
        try:
            left = left[write(OUTPUT, left) :]
        except BlockingIOError:
            is_ready(OUTPUT, for_output=True)


def log_stderr(text: str) -> None:
    """Say something on standard error, unless nobody reads it: trouble must not be made worse by telling it."""
    said = f"hearth bridge: {text}".encode("utf-8", "replace")[: _REMARK_BYTES - 1] + b"\n"
    try:
        write_if_ready(ERRORS, said)
    except (OSError, ImportError):
        pass


if sys.platform != "win32":

    def is_ready(descriptor: int, for_output: bool, seconds: float | None = None) -> bool:
        """Wait until something can be read (or written), without a limit when `seconds` is None."""
        # Seldom needed: descriptors of a client block by themselves.
        from select import POLLIN, POLLOUT, poll

        waiter = poll()
        waiter.register(descriptor, POLLOUT if for_output else POLLIN)
        return bool(waiter.poll(None if seconds is None else seconds * 1000))

    def write_if_ready(descriptor: int, data: bytes) -> None:
        """Write a few bytes, or nothing if that had to wait. Raises OSError."""
        if is_ready(descriptor, for_output=True, seconds=0):
            os.write(descriptor, data)

else:
    _writing = allocate_lock()

    def is_ready(descriptor: int, for_output: bool, seconds: float | None = None) -> bool:
        """Return at once: pipes cannot be waited for here; they block by themselves."""
        return True

    def write_if_ready(descriptor: int, data: bytes) -> None:
        """Write a few bytes, in a thread that may wait for ever; nothing while another one waits."""
        if _writing.acquire(False):
            start_new_thread(_write, (descriptor, data))

    def _write(descriptor: int, data: bytes) -> None:
        try:
            os.write(descriptor, data)
        except OSError:
            pass
        finally:
            _writing.release()


class LineSplitter:
    """Turns chunks into lines, whatever the chunks' borders. Lines over the limit are skipped, noted in `oversize`."""

    __slots__ = ("_head", "_limit", "_parts", "_size", "_tail", "oversize")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Of the line that has not ended: joined once, at its end.
        self._parts: list[bytes] = []
        self._size = 0
        # Of a line that is being skipped; empty when none is.
        self._head = b""
        self._tail = b""
        # (first bytes, last bytes) of each line that was skipped, for whoever answers it.
        self.oversize: list[tuple[bytes, bytes]] = []

    def receive_data(self, data: bytes) -> list[bytes]:
        """Take bytes; return the lines they complete, without line ends and without blank ones."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and (self._parts or self._head):
            self._hold(lines[0])
            lines[0] = self._take()
        if rest:
            self._hold(rest)
        return self._clean(lines)

    def receive_eof(self) -> list[bytes]:
        """Tell that the stream ended; the last line needs no line end."""
        return self._clean([self._take()])

    def _clean(self, lines: "Iterable[bytes]") -> list[bytes]:
        kept = []
        for line in lines:
            if line[-1:] == b"\r":
                line = line[:-1]
            if not line or line.isspace():
                continue
            if len(line) > self._limit:
                self.oversize.append((line[:HEAD_BYTES], line[-TAIL_BYTES:]))
                continue
            kept.append(line)
        return kept

    def _hold(self, part: bytes) -> None:
        if self._head:
            self._tail = (self._tail + part)[-TAIL_BYTES:]
            return
        self._parts.append(part)
        self._size += len(part)
        # One more byte than the limit: it may be the carriage return.
        if self._size > self._limit + 1:
            line = b"".join(self._parts)
            self._head, self._tail = line[:HEAD_BYTES], line[-TAIL_BYTES:]
            self._parts.clear()
            self._size = 0

    def _take(self) -> bytes:
        if self._head:
            self.oversize.append((self._head, self._tail.rstrip()))
            self._head = self._tail = b""
            return b""
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line


class Client:
    """Writer to the client. When the client is gone, so is the reason to live."""

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
                write_output(data)
        except OSError:
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
        """Return whether nothing is on its way to the client."""
        return not self.delivering and not self._asides

    def _write_half(self, seams: "Seams", data: bytes) -> bytes:
        """Hit the fault seam in the middle of a write; return the bytes that are left."""
        middle = len(data) // 2 if seams.armed("bridge-mid-write") else 0
        write_output(data[:middle])
        seams.hit("bridge-mid-write")
        return data[middle:]
