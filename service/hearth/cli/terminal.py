"""What the terminal can show."""

import shutil
import sys

# Wide enough for every column; beyond it, lines are hard to read.
WIDEST_COLUMNS = 140


def width() -> int:
    """The columns to write in; generous when nobody looks, so that `hearth sessions | grep` works."""
    if not sys.stdout.isatty():
        return 10_000
    return min(shutil.get_terminal_size().columns, WIDEST_COLUMNS)


def shows_unicode() -> bool:
    """Whether box-drawing characters can be printed."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
