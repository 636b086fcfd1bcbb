"""Frames: `u32 total | u16 header length | header JSON | payload`, numbers big-endian.

`total` counts what follows it. The payload is a raw JSON-RPC line and is never part of the header's JSON: a line
spliced into an envelope could close it and forge the next one. No frame may exceed 2^28 bytes, so that the
first byte of a frame is 0x00 to 0x0f and never the first byte of another language on the socket.

The bridge imports this module, so it imports nothing but the error tree.
"""

from hearth.errors import FrameError, TooLarge

PROTOCOL_VERSION = 1
OLDEST_PROTOCOL_VERSION = 1
PREFIX_BYTES = 6
# A frame holds one JSON-RPC message; clients send files and screenshots inline, seldom above tens of megabytes.
MESSAGE_LIMIT_BYTES = 64 * 1024 * 1024
# A header names a message; what needs more is a payload.
HEADER_LIMIT_BYTES = 64 * 1024 - 1


def encode(header: bytes, payload: bytes = b"") -> bytes:
    """One frame as bytes."""
    size = len(header)
    return b"%b%b%b%b" % (
        (size + len(payload) + 2).to_bytes(4, "big"),
        size.to_bytes(2, "big"),
        header,
        payload,
    )


class FrameDecoder:
    """Turns chunks of a byte stream into frames, whatever the chunks' borders."""

    __slots__ = ("_held", "_limit", "_missing", "_parts")

    def __init__(self, limit: int = MESSAGE_LIMIT_BYTES) -> None:
        self._limit = limit
        # Of the frame that is not complete. Joined once, when it can be: joining at each chunk takes time in
        # the square of the frame's size.
        self._parts: list[bytes] = []
        self._held = 0
        self._missing = 0

    def receive_data(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Take bytes; return the (header, payload) pairs they complete.

        Raises FrameError or TooLarge; nothing sensible can follow on that stream.
        """
        if self._parts:
            self._parts.append(data)
            self._held += len(data)
            if len(data) < self._missing:
                self._missing -= len(data)
                return []
            data = b"".join(self._parts)
        frames: list[tuple[bytes, bytes]] = []
        start, end = 0, len(data)
        stop = start + PREFIX_BYTES
        while stop <= end:
            total = int.from_bytes(data[start : start + 4], "big")
            header_size = int.from_bytes(data[start + 4 : stop], "big")
            if total > self._limit + header_size + 2:
                raise TooLarge(f"a frame of {total} bytes is over the limit of {self._limit} (message_limit)")
            if header_size < 2 or header_size + 2 > total:
                raise FrameError(f"a frame of {total} bytes cannot hold a header of {header_size}")
            middle = stop + header_size
            stop = start + 4 + total
            if stop > end:
                break
            frames.append((data[start + PREFIX_BYTES : middle], data[middle:stop]))
            start = stop
            stop = start + PREFIX_BYTES
        self._parts = [data[start:]] if start < end else []
        self._held = end - start
        self._missing = stop - end
        return frames

    def receive_eof(self) -> None:
        """Tell the decoder that the stream ended. Raises FrameError in the middle of a frame."""
        if self._parts:
            raise FrameError(f"the stream ended inside a frame, after {self._held} bytes of it")
