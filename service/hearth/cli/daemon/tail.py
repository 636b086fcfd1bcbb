"""The end of a log file, and what is added to it, over rotations."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from hearth.cli.daemon import log_lines
from hearth.errors import HearthError
from hearth.host import open_files

BLOCK_BYTES = 64 * 1024
# Nothing portable wakes us when a file grows; a quarter of a second reads as at once.
POLL_SECONDS = 0.25


class LogSelection(NamedTuple):
    """Which lines of a log to print, and in which form: the last `lines` of those since `begin`."""

    follow: bool
    lines: int
    begin: float | None = None
    as_json: bool = False


def show(path: str, wanted: LogSelection) -> None:
    """Print the last lines of a file and, where asked to, what is added, for ever. Raises HearthError."""
    output = sys.stdout.buffer
    convert: Callable[[bytes], bytes] = bytes
    if wanted.as_json:
        convert = log_lines.JsonLineFormat()
    elif sys.stdout.isatty():
        convert = log_lines.TerminalText()
    file = _open(path, wanted.follow)
    recent = last_lines(file, wanted.lines)
    recent = _from_predecessor(path, wanted.lines - recent.count(b"\n")) + recent
    if wanted.begin is not None:
        recent = log_lines.since(recent, wanted.begin)
    if wanted.as_json and not wanted.follow and recent and not recent.endswith(b"\n"):
        # A line that is still being written is complete as far as this run goes.
        recent += b"\n"
    output.write(convert(recent))
    output.flush()
    if not wanted.follow:
        file.close()
        return
    for data in follow(path, file):
        output.write(convert(data))
        output.flush()


def _open(path: str, wait: bool) -> BinaryIO:
    while True:
        try:
            return open(path, "rb", opener=open_files.open_to_read)
        except FileNotFoundError as exc:
            if not wait:
                raise HearthError(f"{path} is gone") from exc
            time.sleep(POLL_SECONDS)
        except OSError as exc:
            raise HearthError(f"cannot read {path}: {exc.strerror}") from exc


def _from_predecessor(path: str, count: int) -> bytes:
    """The last lines of the file that was rotated away last; a fresh one has few."""
    if count <= 0:
        return b""
    try:
        with open(f"{path}.1", "rb") as file:
            return last_lines(file, count)
    except OSError:
        return b""


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
            file = _open(path, wait=True)
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
