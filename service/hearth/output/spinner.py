"""Spinner for long operations: on a terminal that can erase a line, and only after a second."""

import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Iterator
from types import TracebackType

# A shorter operation needs no spinner; one that flashes up is worse than none.
PATIENCE_SECONDS = 1.0
FRAME_SECONDS = 0.1
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES = "|/-\\"
CLEAR_LINE = "\r\x1b[K"


class Spinner:
    """Spinner that shows a text beside a turning mark on stderr."""

    def __init__(self, text: str, patience: float = PATIENCE_SECONDS) -> None:
        self.text = text
        self._patience = patience
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Spinner":
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._thread = threading.Thread(target=self._turn, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Show nothing while something else is written to the terminal."""
        self._stop()
        try:
            yield
        finally:
            self._over.clear()
            self.__enter__()

    def _stop(self) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()

    def tell(self, text: str) -> None:
        """Set the text to show from now on."""
        self.text = text

    def _turn(self) -> None:
        if self._over.wait(self._patience):
            return
        utf8 = (sys.stderr.encoding or "").lower().replace("-", "") == "utf8"
        for frame in itertools.cycle(FRAMES if utf8 else PLAIN_FRAMES):
            sys.stderr.write(f"{CLEAR_LINE}{frame} {self.text}")
            sys.stderr.flush()
            if self._over.wait(FRAME_SECONDS):
                break
        sys.stderr.write(CLEAR_LINE)
        sys.stderr.flush()
