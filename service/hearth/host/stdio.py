"""Standard input and output as an MCP client passes them: pipes, sockets, files or a terminal.

Reads and writes are blocking calls, each from a thread of its own: the event loop cannot wait for a file, and
non-blocking mode would also affect every other process that has the stream open. This module handles bytes only.
"""

import errno
import os
import sys

INPUT, OUTPUT, ERRORS = 0, 1, 2
# Capacity of a pipe.
CHUNK_BYTES = 64 * 1024


class Streams:
    """Standard streams that were taken over. The user of each descriptor closes it, so none is used after its close."""

    def __init__(self, input: int, output: int, client: int | None = None) -> None:
        self._input = input
        self.output = output
        # Process at the other end, as far as it is known.
        self.client = client
        # Error that kept an answer from being written, other than a closed reader: a full disk.
        self.failure: OSError | None = None

    def fileno(self) -> int:
        """Return the output descriptor."""
        return self.output

    def read(self) -> bytes:
        """Return bytes from the client; empty at the end of the stream, whatever caused it."""
        while True:
            try:
                return os.read(self._input, CHUNK_BYTES)
            except BlockingIOError:
                _wait(self._input, for_output=False)
            except OSError:
                # The terminal was closed, or the connection was reset.
                return b""

    def write(self, data: bytes | memoryview) -> None:
        """Write all bytes, however long the client takes. Raises OSError when the reader is gone."""
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self.output, left) :]
            except BlockingIOError:
                _wait(self.output, for_output=True)
            except OSError as exc:
                if not _is_unread(exc):
                    self.failure = exc
                raise

    def close_input(self) -> None:
        """Close the input."""
        os.close(self._input)

    def close_output(self) -> None:
        """Close the output; the client sees end of file."""
        os.close(self.output)


def say(sentence: str) -> None:
    """Write a line to standard error; ignore a failure, which in Python's own stream could end the process."""
    if sys.stderr is None:
        # Standard error was closed at start: its number may belong to another file by now.
        return
    try:
        os.write(ERRORS, sentence.encode("utf-8", "backslashreplace") + b"\n")
    except OSError:
        pass


def take() -> Streams:
    """Take over the standard streams; other output of this process or its children then goes to standard error."""
    for descriptor in (INPUT, OUTPUT, ERRORS):
        try:
            os.fstat(descriptor)
        except OSError:
            # The parent process has closed this one; the next file opened would get its number.
            os.open(os.devnull, os.O_RDWR)
    taken = Streams(os.dup(INPUT), os.dup(OUTPUT), os.getppid())
    if sys.platform == "win32":
        import msvcrt

        # No translation of line ends: they are part of the messages.
        for descriptor in (taken._input, taken.output):
            msvcrt.setmode(descriptor, os.O_BINARY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, INPUT)
    os.close(nothing)
    os.dup2(ERRORS, OUTPUT)
    return taken


def _is_unread(problem: OSError) -> bool:
    """Tell whether the error means that the reader is gone. The C library of Windows reports EINVAL for that."""
    if isinstance(problem, BrokenPipeError | ConnectionResetError):
        return True
    return sys.platform == "win32" and problem.errno == errno.EINVAL


def _wait(descriptor: int, for_output: bool) -> None:
    """Wait until a descriptor is ready that another process has made non-blocking."""
    if sys.platform == "win32":
        raise OSError("a pipe that does not block")
    import select

    waiter = select.poll()
    waiter.register(descriptor, select.POLLOUT if for_output else select.POLLIN)
    waiter.poll()
