"""The client's side as plain descriptors, without buffers that a thread could be caught in. Knows bytes only."""

import os
import sys
from os import read, write

INPUT, OUTPUT, ERRORS = 0, 1, 2
# Enough for a hundred messages at once. With 64 KiB a busy bridge is no faster, and 3 MB larger.
CHUNK_BYTES = 16 * 1024
# When poll(2) says that a pipe can be written there is room for so much (PIPE_BUF); more could block.
_REMARK_BYTES = 512


class ClientGone(Exception):
    """Nobody reads standard output any more."""


def make_whole() -> None:
    """Open what the client left closed, so that no socket gets the number of standard error."""
    if sys.platform == "win32":
        import msvcrt

        # Line ends are the messages' own business.
        for descriptor in (INPUT, OUTPUT):
            msvcrt.setmode(descriptor, os.O_BINARY)
    for descriptor in (INPUT, OUTPUT, ERRORS):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def read_input() -> bytes:
    """What the client sent; empty at the end."""
    while True:
        try:
            return read(INPUT, CHUNK_BYTES)
        except BlockingIOError:
            # Some clients hand over descriptors that do not block.
            from hearth.bridge.ready import is_ready

            is_ready(INPUT, for_output=False)
        except OSError:
            return b""


def write_output(data: bytes) -> None:
    """Write everything, however long the client takes. Raises ClientGone."""
    left = memoryview(data)
    while left:
        try:
            left = left[write(OUTPUT, left) :]
        except BlockingIOError:
            from hearth.bridge.ready import is_ready

            is_ready(OUTPUT, for_output=True)
        except OSError as exc:
            raise ClientGone from exc


def remark(text: str) -> None:
    """Say something on standard error, unless nobody reads it: trouble must not be made worse by telling it."""
    said = f"hearth bridge: {text}".encode("utf-8", "replace")[: _REMARK_BYTES - 1] + b"\n"
    try:
        from hearth.bridge.ready import write_if_ready

        write_if_ready(ERRORS, said)
    except (OSError, ImportError):
        pass
