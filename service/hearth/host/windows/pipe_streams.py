"""Client's end of a named pipe, with the methods of a socket: connect, send, receive, each with a time limit.

A pipe is opened for overlapped I/O: on any other handle Windows makes a write wait for a read that another thread has
begun. An operation that is late is not cancelled but kept for the next call, so that no byte is lost.
Imported by the bridge: standard library only.
"""

import sys

assert sys.platform == "win32", "imported on Windows only"

import _winapi  # noqa: E402
from time import monotonic  # noqa: E402

from hearth import sids  # noqa: E402

# All listening instances may be taken for a moment; a daemon whose loop runs has made others by then.
BUSY_SECONDS = 1.0
# A larger write is split: after a failed one, it is unknown how much was read.
WRITE_BYTES = 64 * 1024
# The daemon may identify the client, and must not act in its name (CreateFile: SECURITY_SQOS_PRESENT and
# SECURITY_IDENTIFICATION).
_IDENTIFICATION = 0x0010_0000 | 0x0001_0000


class Silence(BlockingIOError, TimeoutError):
    """Timeout of a read. A socket with SO_RCVTIMEO raises one of its bases, a socket with a timeout the other."""


def connect(path: str) -> "PipeStream":
    """Connect to the pipe of that name, which must be this user's own. Raises OSError.

    FileNotFoundError: no process listens. BlockingIOError: too many clients wait.
    """
    handle = _open(path)
    # Any user may make a pipe with this name, and let every user in.
    if sids.owner(handle) != sids.own():
        _winapi.CloseHandle(handle)
        raise PermissionError(1, "belongs to another user; whoever made that pipe is not Hearth's daemon", path)
    return PipeStream(handle)


def _open(path: str) -> int:
    access, flags = _winapi.GENERIC_READ | _winapi.GENERIC_WRITE, _winapi.FILE_FLAG_OVERLAPPED | _IDENTIFICATION
    deadline = monotonic() + BUSY_SECONDS
    while True:
        try:
            return _winapi.CreateFile(
                path, access, 0, _winapi.NULL, _winapi.OPEN_EXISTING, flags, _winapi.NULL
            )  # fmt: skip
        except PermissionError as exc:
            advice = "access is denied; a daemon that was started as administrator has to be stopped there: hearth stop"
            raise PermissionError(13, advice, path) from exc
        except OSError as exc:
            if exc.winerror != _winapi.ERROR_PIPE_BUSY:
                raise
            left = deadline - monotonic()
            if left <= 0:
                raise BlockingIOError(11, "does not accept connections: too many wait", path) from exc
        try:
            _winapi.WaitNamedPipe(path, max(1, int(left * 1000)))
        except OSError as exc:
            if exc.winerror != _winapi.ERROR_SEM_TIMEOUT:
                raise


class PipeStream:
    """Connection to a pipe. One thread may read while another writes; `hang_up` ends the waits of both."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._milliseconds = _winapi.INFINITE
        self._reading: _winapi.Overlapped | None = None
        self._writing: _winapi.Overlapped | None = None
        self._hung_up = False

    def settimeout(self, seconds: float | None) -> None:
        """Set the time after which `recv` raises Silence."""
        self._milliseconds = _winapi.INFINITE if seconds is None else max(1, int(seconds * 1000))

    def recv(self, size: int) -> bytes:
        """Return received bytes; empty at the end. Raises Silence, and OSError after `hang_up`."""
        try:
            if self._reading is None:
                self._reading, _ = _winapi.ReadFile(self._handle, size, overlapped=True)
            reading = self._reading
            if self._hung_up:
                reading.cancel()
            if _winapi.WaitForSingleObject(reading.event, self._milliseconds) == _winapi.WAIT_TIMEOUT:
                raise Silence(11, "nothing came in time")
            self._reading = None
            _, problem = reading.GetOverlappedResult(True)
        except BrokenPipeError:
            return b""
        if problem == _winapi.ERROR_OPERATION_ABORTED:
            raise ConnectionAbortedError(103, "it was hung up")
        return reading.getbuffer() or b""

    def send(self, data: "bytes | memoryview") -> int:
        """Send a part of the data, however long that takes; return its size. Raises OSError.

        A write that was begun and then failed counts as sent: the daemon may have read all of it. The next call raises.
        """
        part = data if len(data) <= WRITE_BYTES else memoryview(data)[:WRITE_BYTES]
        self._check()
        writing, _ = _winapi.WriteFile(self._handle, part, overlapped=True)
        self._writing = writing
        if self._hung_up:
            writing.cancel()
        try:
            writing.GetOverlappedResult(True)
        except OSError:
            self._hung_up = True
        return len(part)

    def sendall(self, data: bytes) -> None:
        """Send all data. Raises OSError."""
        sent = 0
        while sent < len(data):
            sent += self.send(memoryview(data)[sent:])

    def send_now(self, data: bytes) -> None:
        """Send a few bytes without waiting until they are read. Raises OSError, also while former bytes still wait."""
        self._check()
        if self._writing and _winapi.WaitForSingleObject(self._writing.event, 0) == _winapi.WAIT_TIMEOUT:
            raise BlockingIOError(11, "it does not read")
        self._writing, _ = _winapi.WriteFile(self._handle, data, overlapped=True)

    def _check(self) -> None:
        if self._hung_up:
            raise BrokenPipeError(32, "it was hung up")

    def hang_up(self) -> None:
        """Wake every waiting call, in any thread."""
        # In this order: a call that begins meanwhile checks the flag afterwards.
        self._hung_up = True
        for pending in (self._reading, self._writing):
            if pending:
                pending.cancel()

    def close(self) -> None:
        """Close the connection. No thread may read or write after that."""
        self.hang_up()
        for pending in (self._reading, self._writing):
            # The kernel may write into its memory until the operation is complete.
            if pending:
                _settle(pending)
        self._reading = self._writing = None
        handle, self._handle = self._handle, 0
        if handle:
            _winapi.CloseHandle(handle)


def _settle(pending: "_winapi.Overlapped") -> None:
    try:
        pending.GetOverlappedResult(True)
    except OSError:
        pass
