"""Lines of log files: since when, and as JSON. Pure: bytes in, bytes out.

The daemon's log and those of servers begin their lines with the local time, `2026-11-18 09:30:00,123`. A line without
one continues the line before it.
"""

import codecs
import json
import re
import time
from datetime import datetime, timedelta

from hearth import control_chars

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:,(\d{3}))?")
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_UNITS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "day": 86400, "days": 86400, "w": 604800}
_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d")
_CLOCK = ("%H:%M:%S", "%H:%M")


def moment(text: str, now: float) -> float:
    """Return the seconds since 1970 that a text such as `10m`, `09:30` or `2026-11-18` means. Raises ValueError."""
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
    """Return the time that a line begins with, in seconds since 1970; None for a line without one."""
    found = _STAMP.match(line)
    if found is None:
        return None
    try:
        seconds = time.mktime(time.strptime(found[1].decode(), "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None
    return seconds + int(found[2] or 0) / 1000


def since(data: bytes, begin: float) -> bytes:
    """Return the lines from the first one that is not older than a moment."""
    lines = data.splitlines(keepends=True)
    for index, line in enumerate(lines):
        at = stamp(line)
        if at is not None and at >= begin:
            return b"".join(lines[index:])
    return b""


def document(line: bytes) -> bytes:
    """Return a line as an object of JSON on one line: `time`, null where the line has none, and `text`."""
    found = _STAMP.match(line)
    text = line[found.end() :] if found else line
    return entry(stamp(line), text.decode("utf-8", "replace").strip("\r\n").removeprefix(" " if found else ""))


def entry(at: float | None, text: str) -> bytes:
    """Return what is said at a time as an object of JSON on one line."""
    shown = None if at is None else datetime.fromtimestamp(at).astimezone().isoformat(timespec="milliseconds")
    return json.dumps({"time": shown, "text": text}).encode() + b"\n"


class TerminalText:
    """A converter from pieces of a log, cut anywhere, to text that does not steer a terminal."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def __call__(self, data: bytes) -> bytes:
        """Return the characters that are complete with these bytes, unsafe ones replaced."""
        return control_chars.replaced(self._decoder.decode(data)).encode()


class JsonLineFormat:
    """A converter from pieces of a log, cut anywhere, to lines of JSON."""

    def __init__(self) -> None:
        self._rest = b""

    def __call__(self, data: bytes) -> bytes:
        """Return the lines that are complete with these bytes as JSON."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return b"".join(map(document, lines))
