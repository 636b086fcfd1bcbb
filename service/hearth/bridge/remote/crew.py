"""Threads and what they wait for: so many at once, others after them, and somebody who waits for the last.

Knows nothing of what they do.
"""

from _thread import allocate_lock, start_new_thread

from hearth.bridge import client_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[], None]

# Requests that are asked at the same time, each on a connection of its own; others wait for their turn.
WORKERS_LIMIT = 128


class Gate:
    """Closed until somebody opens it, once and for ever."""

    __slots__ = ("_lock",)

    def __init__(self, is_open: bool = False) -> None:
        self._lock = allocate_lock()
        if not is_open:
            self._lock.acquire()

    def open(self) -> None:
        """Let everybody through."""
        try:
            self._lock.release()
        except RuntimeError:
            pass  # it is open

    def wait(self, seconds: float = -1) -> bool:
        """Wait until it is open; False if it is not in time."""
        if not self._lock.acquire(True, seconds):
            return False
        self._lock.release()
        return True


class Crew:
    """Runs work in threads. What may go on for ever is not to be counted: nobody could wait for its end."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._waiting: list[tuple[Work, int]] = []
        self._active = 0
        self._news = allocate_lock()
        # Of what waits for its turn.
        self.waiting_bytes = 0

    def start(self, work: "Work", size: int = 0) -> None:
        """Have it done, as soon as there is a place. `size`: bytes that it holds until then."""
        with self._lock:
            if self._active >= WORKERS_LIMIT:
                self._waiting.append((work, size))
                self.waiting_bytes += size
                return
            self._active += 1
        self._begin(work)

    def start_now(self, work: "Work") -> None:
        """Have it done past all that wait: a place may be free only once it is done."""
        with self._lock:
            self._active += 1
        self._begin(work)

    def _begin(self, work: "Work") -> None:
        try:
            start_new_thread(self._run, (work,))
        except RuntimeError:
            # No thread is to be had; waiting is better than never.
            self._run(work)

    def start_apart(self, work: "Work") -> None:
        """Have it done at once, by somebody who is not waited for. Raises RuntimeError if no thread is to be had."""
        start_new_thread(self.do, (work,))

    def _run(self, work: "Work") -> None:
        while True:
            self.do(work)
            with self._lock:
                if not self._waiting or self._active > WORKERS_LIMIT:
                    self._active -= 1
                    break
                work, size = self._waiting.pop(0)
                self.waiting_bytes -= size
        try:
            self._news.release()
        except RuntimeError:
            pass  # told already

    def do(self, work: "Work") -> None:
        """Do it here and now, whatever comes of it."""
        try:
            work()
        except Exception as exc:
            # It must not die of it: its client would lose every tool.
            client_io.remark(f"an error of the bridge itself, going on: {type(exc).__name__}: {exc}")

    def is_idle(self) -> bool:
        """Whether everything is done."""
        return not self._active

    def rest(self, seconds: float) -> None:
        """Wait for news, at most so long."""
        self._news.acquire(True, max(0.0, seconds))


class Lane:
    """Work that is done in the order in which it was given, one after the other."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._lock = allocate_lock()
        self._waiting: list[tuple[Work, int]] = []
        self._is_busy = False
        # Of what waits for its turn.
        self.waiting_bytes = 0

    def put(self, work: "Work", size: int) -> None:
        """Do it after what was put before. `size`: bytes that it holds until then."""
        with self._lock:
            self._waiting.append((work, size))
            self.waiting_bytes += size
            if self._is_busy:
                return
            self._is_busy = True
        self._crew.start_now(self._run)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_busy = False
                    return
                work, size = self._waiting.pop(0)
                self.waiting_bytes -= size
            self._crew.do(work)
