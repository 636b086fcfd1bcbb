"""Frames: `u32 total | u16 header length | header JSON | payload`, numbers big-endian.

`total` counts what follows it. The payload is a raw JSON-RPC line and is never part of the header's JSON: a
line spliced into an envelope could close it and forge the next one. No frame may exceed 2^28 bytes, so that
the first byte of a frame is 0x00 to 0x0f and never the first byte of another language on the socket.

The bridge imports this module, so it imports nothing but the error tree.
"""

from hearth.errors import FrameError, TooLarge

# Version 2 has `to` in `hello`. A bridge that needs nothing of it says 1, so that it can talk to an older daemon.
PROTOCOL_VERSION = 2
OLDEST_PROTOCOL_VERSION = 1
PREFIX_BYTES = 6
# A frame holds one JSON-RPC message; clients send files and pictures inline, seldom above tens of megabytes.
MESSAGE_LIMIT_BYTES = 64 * 1024 * 1024
# A header only names a message; larger data belongs in the payload.
HEADER_LIMIT_BYTES = 64 * 1024 - 1


def encode(header: bytes, payload: bytes = b"") -> bytes:
    """Encode one frame. Raises FrameError if the header's size does not fit its two bytes."""
    size = len(header)
    if size > HEADER_LIMIT_BYTES:
        raise FrameError(f"a header of {size} bytes is over the limit of {HEADER_LIMIT_BYTES}: {header[:80]!r}")
    # Both numbers in one integer: this runs for every message on either side, and halves the time.
    prefix = (size + len(payload) + 2) << 16 | size
    return b"".join((prefix.to_bytes(PREFIX_BYTES, "big"), header, payload))


class FrameDecoder:
    """Decoder of a byte stream into frames, wherever the chunks are cut."""

    __slots__ = ("_buffer", "_limit", "_needed")

    def __init__(self, limit: int = MESSAGE_LIMIT_BYTES) -> None:
        self._buffer = bytearray()  # the beginning of a frame
        self._limit = limit
        self._needed = PREFIX_BYTES  # below this size the buffer cannot hold a whole frame

    def receive_data(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Take bytes; return the (header, payload) pairs they complete.

        Raises FrameError or TooLarge; nothing sensible can follow on that stream.
        """
        if self._buffer:
            self._buffer += data
            # A large frame comes in many chunks: parse it only once it is complete.
            if len(self._buffer) < self._needed:
                return []
            data = bytes(self._buffer)
            self._buffer = bytearray()
        frames: list[tuple[bytes, bytes]] = []
        start, end = 0, len(data)
        needed = PREFIX_BYTES
        while end - start >= PREFIX_BYTES:
            prefix = int.from_bytes(data[start : start + PREFIX_BYTES], "big")
            total, header_size = prefix >> 16, prefix & 0xFFFF
            if header_size < 2 or not 0 <= total - header_size - 2 <= self._limit:
                raise self._refusal(total, header_size)
            needed = 4 + total
            if end - start < needed:
                break
            middle = start + PREFIX_BYTES + header_size
            stop = start + needed
            frames.append((data[start + PREFIX_BYTES : middle], data[middle:stop]))
            start, needed = stop, PREFIX_BYTES
        if start < end:
            self._buffer += data[start:]
        self._needed = needed
        return frames

    def _refusal(self, total: int, header_size: int) -> FrameError | TooLarge:
        if total > self._limit + header_size + 2:
            return TooLarge(f"a frame of {total} bytes is over the limit of {self._limit} (message_limit)")
        return FrameError(f"a frame of {total} bytes cannot hold a header of {header_size}")

    def receive_eof(self) -> None:
        """Tell the decoder that the stream ended. Raises FrameError in the middle of a frame."""
        if self._buffer:
            raise FrameError(f"the stream ended inside a frame, after {len(self._buffer)} bytes of it")
