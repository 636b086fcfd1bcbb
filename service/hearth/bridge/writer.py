"""Everything that is written to the daemon. One lock is held over each write and over each renumbering of the ledger.

Any thread may call; `block` and `beat` never wait for the lock, because whoever holds it may be stuck in a daemon that
does not read. Closing frees such a writer. Knows nothing of standard input.
"""

from _thread import allocate_lock, start_new_thread
from time import monotonic

from hearth.bridge import connector, jsonlite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hearth.bridge.connector import Stream
    from hearth.bridge.ledger import Ledger

# The socket's buffer is empty after connecting and holds at least this: writing it cannot wait for the daemon.
_SURE_BYTES = 32 * 1024
# Longer than a heartbeat takes to be sent.
_END_SECONDS = 0.1


class Uplink:
    """The way from the ledger to whichever daemon is there."""

    def __init__(self, ledger: "Ledger") -> None:
        self._ledger = ledger
        self._lock = allocate_lock()
        self._sock: Stream | None = None  # where lines go; None while no daemon takes any
        self._ended = False
        self.spoke_at = 0.0
        # Of the lines that wait for a daemon.
        self.parked_bytes = 0

    def submit(self, lines: list[bytes]) -> bool:
        """Enter lines into the ledger and send them; False if they wait there for a daemon."""
        with self._lock:
            sock = self._sock
            if sock is not None:
                self._transmit(sock, self._ledger.add(lines))
                return True
            self._ledger.park(lines)
            self.parked_bytes += sum(map(len, lines))
        return False

    def _transmit(self, sock: "Stream", frames: list[bytes]) -> None:
        """Write frames, and note how many the kernel took whole: only those can have been acted upon."""
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        size, sent = len(data), 0
        try:
            while sent < size:
                sent += sock.send(memoryview(data)[sent:] if sent else data)
        except OSError:
            # Bytes behind half a frame would be read as its rest. Answers may still be on their way.
            self._sock = None
            connector.hang_up(sock, writing_only=True)
        self.spoke_at = monotonic()
        if sent == size:
            self._ledger.written += len(frames)
            return
        for frame in frames:
            sent -= len(frame)
            if sent < 0:
                return
            self._ledger.written += 1

    def open(self, sock: "Stream", hello: bytes) -> None:
        """Greet a daemon and send what is owed to it; when that is much, in a thread, so that this one can read."""
        self._lock.acquire()
        frames = self._ledger.reopen()
        self.parked_bytes = 0
        self._sock = sock
        self._say(sock, hello)
        if sum(map(len, frames)) > _SURE_BYTES:
            try:
                start_new_thread(self._catch_up, (sock, frames))
                return
            except RuntimeError:
                # No thread can be started; waiting is better than never giving the lock back.
                pass
        self._catch_up(sock, frames)

    def _catch_up(self, sock: "Stream", frames: list[bytes]) -> None:
        """Send the frames of earlier times, then give back the lock that `open` took."""
        try:
            if frames:
                self._transmit(sock, frames)
            if self._ended:
                self._say(sock, jsonlite.GOODBYE)
        finally:
            self._lock.release()

    def end(self) -> None:
        """Tell this daemon, and every later one, that the client's input has ended; without waiting for it."""
        self._ended = True
        # A holder of the lock for longer is sending what `open` found waiting, and says it behind that.
        if self._lock.acquire(True, _END_SECONDS):
            try:
                if self._sock is not None:
                    connector.send_now(self._sock, jsonlite.GOODBYE)
            except OSError:
                # The daemon does not read, or is gone: answers are delivered all the same.
                pass
            finally:
                self._lock.release()

    def tell(self, sock: "Stream", frame: bytes) -> None:
        """Send a frame that is no line, also to a daemon that takes no more lines. One that is gone gets nothing."""
        with self._lock:
            self._say(sock, frame)

    def _say(self, sock: "Stream", frame: bytes) -> None:
        try:
            # All of it: a pipe takes a large frame in parts.
            sock.sendall(frame)
        except OSError:
            # The daemon is gone; the reader notices.
            pass

    def block(self) -> None:
        """Send no more lines: the daemon looks at none, and what comes now waits for the next one."""
        self._sock = None

    def beat(self, sock: "Stream") -> None:
        """Send a heartbeat, unless somebody is speaking, which says as much."""
        if self._sock is sock and self._lock.acquire(False):
            try:
                connector.send_now(sock, jsonlite.HEARTBEAT)
                self.spoke_at = monotonic()
            except OSError:
                pass
            finally:
                self._lock.release()

    def close(self, sock: "Stream") -> tuple[list[str], list[bytes]]:
        """Close the connection; return what `Ledger.closed` says about it."""
        self._sock = None
        connector.hang_up(sock)
        with self._lock:
            sock.close()
            return self._ledger.closed()
