"""Terminal of the command line: its standard streams, its abilities, protection from control characters, a spinner."""

import contextlib
import io
import itertools
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping

from hearth import masking

# Wide enough for every column; beyond it, lines are hard to read.
WIDEST_COLUMNS = 140
# A shorter operation needs no spinner; one that flashes up is worse than none.
PATIENCE_SECONDS = 1.0
FRAME_SECONDS = 0.1
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES = "|/-\\"
CLEAR_LINE = "\r\x1b[K"


def open_what_is_closed() -> None:
    """Open the null device for closed standard streams, so that `hearth stop >&-` works and prints nothing.

    Otherwise the next socket would get the descriptor of the closed stream.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # The streams stay open until the process exits.
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def take_any_text() -> None:
    """Print characters that cannot be encoded, such as half a surrogate pair from a server, as escapes, as stderr does.

    In JSON, the result is a JSON escape. On a terminal, control characters are replaced.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                setattr(sys, name, GuardedStream(stream))
            else:
                stream.reconfigure(errors="backslashreplace")


class GuardedStream(io.TextIOWrapper):
    """Text stream to a terminal that writes no control characters but Hearth's own.

    Commands clean the texts of servers that they print; this stream catches what they miss, which a server could use
    for an attack.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        # The buffer has one owner: the former stream would close it on garbage collection.
        encoding = stream.encoding
        stream.flush()
        super().__init__(stream.detach(), encoding=encoding, errors="backslashreplace", line_buffering=True)

    def write(self, text: str) -> int:
        """Write a text; return its length."""
        super().write(masking.guarded(text))
        return len(text)


def shows_colour(environ: Mapping[str, str]) -> bool:
    """Tell whether colour may be shown, if there is a terminal."""
    # https://no-color.org: any value that is not empty disables colour.
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def width() -> int:
    """Return the width of the output in columns; large without a terminal, so that `hearth sessions | grep` works."""
    if not sys.stdout.isatty():
        return 10_000
    return min(shutil.get_terminal_size().columns, WIDEST_COLUMNS)


def shows_unicode() -> bool:
    """Tell whether box-drawing characters can be printed."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


class Spinner:
    """Spinner for long operations: a text beside a turning mark on stderr.

    Shown on a terminal that can erase a line, and only after a second.
    """

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

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Show nothing while something else is written to the terminal."""
        self.__exit__()
        try:
            yield
        finally:
            self._over.clear()
            self.__enter__()

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
