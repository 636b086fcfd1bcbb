"""What the terminal can show, and that there is something to write to."""

import io
import os
import shutil
import sys
from collections.abc import Mapping

from hearth import control_chars

# Wide enough for every column; beyond it, lines are hard to read.
WIDEST_COLUMNS = 140


def open_what_is_closed() -> None:
    """Give closed standard streams the null device, as `hearth stop >&-` wants: done, and nothing said.

    Also because the next socket would get the number of the closed stream.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest number that is free is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # They stay open until the end.
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def take_any_text() -> None:
    """Have what no encoding has, half a surrogate pair from a server, say, printed as an escape, as on stderr.

    In JSON that is the escape of JSON itself. On a terminal, what would steer it is replaced.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                setattr(sys, name, GuardedStream(stream))
            else:
                stream.reconfigure(errors="backslashreplace")


class GuardedStream(io.TextIOWrapper):
    """A text stream to a terminal that writes no control characters but Hearth's own.

    Verbs clean what they print of servers; this is for what they miss, which a server could use as a weapon.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        # The buffer has one owner: the former stream would close it when it is collected.
        encoding = stream.encoding
        stream.flush()
        super().__init__(
            stream.detach(),
            encoding=encoding,
            errors="backslashreplace",
            line_buffering=True,
        )

    def write(self, text: str) -> int:
        """Write a text; return its length."""
        super().write(control_chars.guarded(text))
        return len(text)


def shows_colour(environ: Mapping[str, str]) -> bool:
    """Return whether colour may be shown, if there is a terminal."""
    # https://no-color.org: any value that is not empty.
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def width() -> int:
    """Return the columns to write in; generous when nobody looks, so that `hearth sessions | grep` works."""
    if not sys.stdout.isatty():
        return 10_000
    return min(shutil.get_terminal_size().columns, WIDEST_COLUMNS)


def shows_unicode() -> bool:
    """Return whether box-drawing characters can be printed."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
