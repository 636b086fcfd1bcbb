"""Reader of a server's stderr: split into lines, secrets masked, bounded whatever the volume.

The last lines are kept in memory for the error that names the server, all lines on disk (`host.line_files`). A flood is
still read, so that the server does not block, but only its beginning and its end are kept; a flood beyond
FLOOD_READ_BYTES is slowed down.
"""

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Callable
from typing import cast

from hearth import masking
from hearth.host.line_files import FILES

log = logging.getLogger(__name__)

# Kept in memory, for the error that names the server.
RING_LINES = 50
RING_CHARACTERS = 1000
# Kept on disk. A stack trace is long because of its number of lines, not their length.
LINE_CHARACTERS = 4000
# A secret of up to this length is still recognized as a whole at the end of the kept part.
MARGIN_BYTES = 4096
_RAW_BYTES = LINE_CHARACTERS + MARGIN_BYTES
# Lines kept in a burst, and lines per second kept in the long run: a line costs some microseconds of the loop.
BURST_LINES = 4000
LINES_PER_SECOND = 1000
# A long line counts as several: 1 MB at once, 256 kB a second.
BYTES_PER_LINE = 256
# In a flood: the interval of reports of dropped lines, the bytes kept of its end, and the bytes read per interval.
FLOOD_SECONDS = 0.5
FLOOD_END_BYTES = 4096
FLOOD_READ_BYTES = 8 * 1024 * 1024

# Escape sequences for colours.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Stderr(asyncio.Protocol):
    """Reader of one process's stderr. `mask` removes secrets from a line before it is kept anywhere."""

    def __init__(
        self, name: str, pid: int, ring: deque[str], mask: Callable[[str], str], ended: Callable[[], None]
    ) -> None:
        self._name = name
        self._pid = pid
        self._ring = ring
        self._mask = mask
        self._ended = ended
        self._transport: asyncio.ReadTransport | None = None
        self._paused = False
        self._rest = b""
        # Whether the current line has lost its beginning.
        self._torn = False
        self._allowance = float(BURST_LINES)
        self._counted_at = time.monotonic()
        self._flood: Flood | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Take a chunk of stderr."""
        if self._flood:
            self._flood.add(data)
            if self._flood.size > FLOOD_READ_BYTES and self._transport and not self._paused:
                self._paused = True
                self._transport.pause_reading()
            return
        if self._torn:
            _, ended, data = data.partition(b"\n")
            self._torn = not ended
        *lines, rest = (self._rest + data).split(b"\n")
        # An endless line is cut with each chunk.
        self._rest = rest[: _RAW_BYTES + 1]
        kept = self._spend(len(lines), len(data))
        self._keep(lines[:kept])
        if kept < len(lines) or self._allowance < 0:
            self._flood = Flood()
            self._flood.add(b"".join(line + b"\n" for line in lines[kept:]) + self._rest)
            self._rest = b""
            asyncio.get_running_loop().call_later(FLOOD_SECONDS, self._end_flood)

    def _spend(self, lines: int, size: int) -> int:
        """Return how many lines may be kept now."""
        now = time.monotonic()
        self._allowance = min(BURST_LINES, self._allowance + (now - self._counted_at) * LINES_PER_SECOND)
        self._counted_at = now
        kept = min(lines, max(0, int(self._allowance)))
        self._allowance -= max(kept, size / BYTES_PER_LINE)
        return kept

    def _end_flood(self) -> None:
        flood, self._flood = self._flood, None
        if flood is None:
            return
        lines, self._rest, self._torn = flood.end()
        left_out = flood.lines - len(lines)
        if left_out:
            self._write([f"… {left_out} lines were left out: too many at once"])
        self._keep(lines)
        if self._paused and self._transport and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def stray(self, line: bytes, protocol: str) -> str:
        """Keep a line of stdout that is no message of the protocol, marked as such; return it cut and masked.

        Return an empty text if there are too many: masking takes time.
        """
        if not self._spend(1, len(line)):
            return ""
        text = self._text(line)
        self._write([f"stdout, not {protocol}: {text}"])
        return text

    def _keep(self, lines: list[bytes]) -> None:
        texts = [self._text(line) for line in lines]
        self._ring.extend(text[:RING_CHARACTERS] for text in texts[-RING_LINES:])
        self._write(texts)

    def _write(self, texts: list[str]) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f",{int(now * 1000) % 1000:03d}"
        FILES.append(self._name, [f"{stamp} [{self._pid}] {text}" for text in texts])
        if log.isEnabledFor(logging.DEBUG):
            for text in texts:
                log.debug("stderr: %s", text[:RING_CHARACTERS], extra={"upstream": self._name})

    def _text(self, line: bytes) -> str:
        # Colours are removed first: a secret may be written in colours.
        text = self._mask(_COLOURS.sub("", line[:_RAW_BYTES].decode("utf-8", "replace")))
        if len(line) > _RAW_BYTES:
            # The cut may have split a secret, which begins at most this many bytes before it.
            text = text[: max(0, len(text) - MARGIN_BYTES)]
        cut = len(line) > _RAW_BYTES or len(text) > LINE_CHARACTERS
        text = masking.UNSAFE.sub(" ", text[:LINE_CHARACTERS]).rstrip()
        return f"{text}…" if cut else text

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the stream, with or without a final line end."""
        self._end_flood()
        if self._rest:
            self._keep([self._rest])
            self._rest = b""
        self._ended()


class Flood:
    """Flood of lines, which are only counted except for the last ones."""

    def __init__(self) -> None:
        self.lines = 0
        self.size = 0
        self._end = b""

    def add(self, data: bytes) -> None:
        """Take a chunk of the flood."""
        self.lines += data.count(b"\n")
        self.size += len(data)
        self._end = (self._end + data)[-FLOOD_END_BYTES:] if len(data) < FLOOD_END_BYTES else data[-FLOOD_END_BYTES:]

    def end(self) -> tuple[list[bytes], bytes, bool]:
        """Return the last lines, the unfinished line, and whether the unfinished line has lost its beginning."""
        *lines, rest = self._end.split(b"\n")
        if self.size <= FLOOD_END_BYTES:
            return lines, rest, False
        # The first line has lost its beginning: half of a secret would not be recognized.
        return lines[1:], rest if lines else b"", not lines
