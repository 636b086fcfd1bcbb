"""The end of a log file, and what is added to it, over rotations."""

import os
import time
from collections.abc import Iterator
from typing import BinaryIO

BLOCK_BYTES = 64 * 1024
# Nothing portable wakes us when a file grows; a quarter of a second reads as at once.
POLL_SECONDS = 0.25


def last_lines(file: BinaryIO, count: int) -> bytes:
    """The last lines of a file; leaves the file at its end."""
    position = file.seek(0, os.SEEK_END)
    found = b""
    # One line end more than lines: the last line has its own.
    while position and found.count(b"\n") <= count:
        step = min(BLOCK_BYTES, position)
        position = file.seek(position - step)
        found = file.read(step) + found
    file.seek(0, os.SEEK_END)
    return b"".join(found.splitlines(keepends=True)[-count:]) if count else b""


def follow(path: str, file: BinaryIO) -> Iterator[bytes]:
    """What is added to the file from here on, for ever; a rotated one is read to its end first."""
    while True:
        if data := file.read(BLOCK_BYTES):
            yield data
            continue
        if _was_replaced(path, file):
            # Between the last read and the look it may have grown once more.
            yield file.read()
            file.close()
            file = open(path, "rb")  # noqa: SIM115  # it lives as long as the iteration
            continue
        time.sleep(POLL_SECONDS)


def _was_replaced(path: str, file: BinaryIO) -> bool:
    try:
        now = os.stat(path)
    except OSError:
        # Between the two renames of a rotation; the new file comes with the next line.
        return False
    mine = os.fstat(file.fileno())
    return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino) or now.st_size < file.tell()
