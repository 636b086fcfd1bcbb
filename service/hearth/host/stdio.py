"""Standard input and output as an MCP client hands them over: pipes, sockets, files or a terminal.

They are read and written by calls that block, each from a thread of its own: the loop cannot wait for a file, and to
make them non-blocking would change them for everybody else who has them open. Knows bytes only.
"""

import errno
import os
import sys

INPUT, OUTPUT, ERRORS = 0, 1, 2
# As much as a pipe holds.
CHUNK_BYTES = 64 * 1024


class Streams:
    """What was taken over. Each descriptor is closed by whoever uses it, so that none is used after its end."""

    def __init__(self, input: int, output: int, client: int | None = None) -> None:
        self._input = input
        self.output = output
        # The process at the other end, as far as can be told.
        self.client = client
        # What kept an answer from being written, other than that nobody reads: a full disk.
        self.failure: OSError | None = None

    def fileno(self) -> int:
        """What is written to."""
        return self.output

    def read(self) -> bytes:
        """What the client sent; nothing at the end, whatever ended it."""
        while True:
            try:
                return os.read(self._input, CHUNK_BYTES)
            except BlockingIOError:
                _wait(self._input, for_output=False)
            except OSError:
                # A terminal that was closed, a connection that was reset.
                return b""

    def write(self, data: bytes | memoryview) -> None:
        """Write everything, however long the client takes. Raises OSError when nobody reads any more."""
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
        """Read nothing more."""
        os.close(self._input)

    def close_output(self) -> None:
        """Write nothing more; the client sees the end."""
        os.close(self.output)


def say(sentence: str) -> None:
    """Tell whoever reads standard error. Where nobody does, nothing ends of it, as Python would with its own stream."""
    if sys.stderr is None:
        # It was closed when we began: its number may be another file's by now.
        return
    try:
        os.write(ERRORS, sentence.encode("utf-8", "backslashreplace") + b"\n")
    except OSError:
        pass


def take() -> Streams:
    """Have them to oneself: whatever else this process or its children write goes to standard error from now on."""
    for descriptor in (INPUT, OUTPUT, ERRORS):
        try:
            os.fstat(descriptor)
        except OSError:
            # Whoever started us has closed it; the next file would get its number.
            os.open(os.devnull, os.O_RDWR)
    taken = Streams(os.dup(INPUT), os.dup(OUTPUT), os.getppid())
    if sys.platform == "win32":
        import msvcrt

        # Line ends are the messages' own business.
        for descriptor in (taken._input, taken.output):
            msvcrt.setmode(descriptor, os.O_BINARY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, INPUT)
    os.close(nothing)
    os.dup2(ERRORS, OUTPUT)
    return taken


def _is_unread(problem: OSError) -> bool:
    """Nobody reads any more. The C library of Windows calls that an invalid argument."""
    if isinstance(problem, BrokenPipeError | ConnectionResetError):
        return True
    return sys.platform == "win32" and problem.errno == errno.EINVAL


def _wait(descriptor: int, for_output: bool) -> None:
    """For one that somebody else has made non-blocking."""
    if sys.platform == "win32":
        raise OSError("a pipe that does not block")
    import select

    waiter = select.poll()
    waiter.register(descriptor, select.POLLOUT if for_output else select.POLLIN)
    waiter.poll()
