"""Lines of log files: selection by time, conversion to JSON, and following a growing file.

Lines in the logs of the daemon and of servers begin with the local time, `2026-11-18 09:30:00,123`. A line without a
time continues the line before it.
"""

import codecs
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import BinaryIO, NamedTuple

from hearth import control_chars
from hearth.errors import HearthError
from hearth.host import open_files

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:,(\d{3}))?")
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_UNITS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "day": 86400, "days": 86400, "w": 604800}
_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d")
_CLOCK = ("%H:%M:%S", "%H:%M")

BLOCK_BYTES = 64 * 1024
# No portable notification exists for a file that grows; a quarter of a second appears immediate.
POLL_SECONDS = 0.25


class LogSelection(NamedTuple):
    """Selection of the log lines to print, and their form: the last `lines` lines since `begin`."""

    follow: bool
    lines: int
    begin: float | None = None
    as_json: bool = False


def moment(text: str, now: float) -> float:
    """Parse `10m`, `09:30`, `2026-11-18` and the like; return seconds since 1970. Raises ValueError."""
    text = text.strip()
    if (ago := _AGO.fullmatch(text)) and ago[2] in _UNITS:
        return now - float(ago[1]) * _UNITS[ago[2]]
    midnight = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        return (midnight - timedelta(days=text == "yesterday")).timestamp()
    for form in (*_FORMS, *_CLOCK):
        try:
            found = datetime.strptime(text, form)
        except ValueError:
            continue
        if form in _CLOCK:
            found = midnight.replace(hour=found.hour, minute=found.minute, second=found.second)
        return found.timestamp()
    raise ValueError(f"{text!r} is no time: say 10m, 2h, 3d, today, 09:30, 2026-11-18 or '2026-11-18 09:30'")


def stamp(line: bytes) -> float | None:
    """Return the time at the beginning of a line, in seconds since 1970; None for a line without a time."""
    found = _STAMP.match(line)
    if found is None:
        return None
    try:
        seconds = time.mktime(time.strptime(found[1].decode(), "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None
    return seconds + int(found[2] or 0) / 1000


def since(data: bytes, begin: float) -> bytes:
    """Return the lines from the first one that is not older than `begin`."""
    lines = data.splitlines(keepends=True)
    for index, line in enumerate(lines):
        at = stamp(line)
        if at is not None and at >= begin:
            return b"".join(lines[index:])
    return b""


def document(line: bytes) -> bytes:
    """Return a line as a JSON object on one line: `time`, null if the line has none, and `text`."""
    found = _STAMP.match(line)
    text = line[found.end() :] if found else line
    return entry(stamp(line), text.decode("utf-8", "replace").strip("\r\n").removeprefix(" " if found else ""))


def entry(at: float | None, text: str) -> bytes:
    """Return a time and a text as a JSON object on one line."""
    shown = None if at is None else datetime.fromtimestamp(at).astimezone().isoformat(timespec="milliseconds")
    return json.dumps({"time": shown, "text": text}).encode() + b"\n"


class TerminalText:
    """Converter from chunks of a log, split anywhere, to text without terminal control sequences."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def __call__(self, data: bytes) -> bytes:
        """Return the characters that these bytes complete, with unsafe ones replaced."""
        return control_chars.replaced(self._decoder.decode(data)).encode()


class JsonLineFormat:
    """Converter from chunks of a log, split anywhere, to lines of JSON."""

    def __init__(self) -> None:
        self._rest = b""

    def __call__(self, data: bytes) -> bytes:
        """Return the lines that these bytes complete, as JSON."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return b"".join(map(document, lines))


# --- following files


def show_file(path: str, wanted: LogSelection) -> None:
    """Print the last lines of a file and, if asked to follow, new lines without end. Raises HearthError."""
    output = sys.stdout.buffer
    convert: Callable[[bytes], bytes] = bytes
    if wanted.as_json:
        convert = JsonLineFormat()
    elif sys.stdout.isatty():
        convert = TerminalText()
    file = _open(path, wanted.follow)
    recent = last_lines(file, wanted.lines)
    recent = _from_predecessor(path, wanted.lines - recent.count(b"\n")) + recent
    if wanted.begin is not None:
        recent = since(recent, wanted.begin)
    if wanted.as_json and not wanted.follow and recent and not recent.endswith(b"\n"):
        # This run treats a line that is still being written as complete.
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
    """Return the last lines of the previous, rotated file, because a new file has few lines."""
    if count <= 0:
        return b""
    try:
        with open(f"{path}.1", "rb") as file:
            return last_lines(file, count)
    except OSError:
        return b""


def last_lines(file: BinaryIO, count: int) -> bytes:
    """Return the last lines of a file, and leave its position at the end."""
    position = file.seek(0, os.SEEK_END)
    found = b""
    # One line end more than lines, because the last line ends with one, too.
    while position and found.count(b"\n") <= count:
        step = min(BLOCK_BYTES, position)
        position = file.seek(position - step)
        found = file.read(step) + found
    file.seek(0, os.SEEK_END)
    return b"".join(found.splitlines(keepends=True)[-count:]) if count else b""


def follow(path: str, file: BinaryIO) -> Iterator[bytes]:
    """Yield new content of the file, without end. A rotated file is read to its end first."""
    while True:
        if data := file.read(BLOCK_BYTES):
            yield data
            continue
        if _was_replaced(path, file):
            # The file may have grown between the last read and this check.
            yield file.read()
            file.close()
            file = _open(path, wait=True)
            continue
        time.sleep(POLL_SECONDS)


def _was_replaced(path: str, file: BinaryIO) -> bool:
    try:
        now = os.stat(path)
    except OSError:
        # The rotation is between its two renames; the new file is created with the next line.
        return False
    mine = os.fstat(file.fileno())
    return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino) or now.st_size < file.tell()
