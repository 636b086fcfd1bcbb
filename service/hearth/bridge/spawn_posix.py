"""Other programs, started without fork: a thread may hold any lock at that moment. Knows nothing of what they do."""

import os
import sys
from errno import EAGAIN
from time import monotonic, sleep

from hearth.bridge.client_io import is_ready

assert sys.platform != "win32", "Windows has `spawn_windows`"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# More than a program that has something to say writes; the rest is not kept.
_OUTPUT_LIMIT_BYTES = 64 * 1024
_LOOK_SECONDS = 0.002
# Ended programs that nobody waited for; each is asked again when the next one is started.
_unreaped: set[int] = set()


class PosixChild:
    """A program in a session of its own, whose standard error, and on demand output, is read through a pipe."""

    def __init__(
        self,
        command: list[str],
        environment: "Mapping[str, str]",
        stdout: bool = False,
        numbered: bool = False,
        told: bytes = b"",
    ) -> None:
        """Start it. Raises OSError.

        `numbered`: it also gets the pipe's number as its last argument. `told`: its standard input, of which no more
        may be than a pipe holds.
        """
        _reap()
        self.output = b""
        self._reader, writer = os.pipe()
        source = None
        try:
            source = _pipe_with(told) if told else None
            if numbered:
                os.set_inheritable(writer, True)
                command = [*command, str(writer)]
            self._pid = _spawn(command, environment, source, writer, stdout)
        except BaseException:
            os.close(self._reader)
            raise
        finally:
            os.close(writer)
            if source is not None:
                os.close(source)
        _unreaped.add(self._pid)

    def read(self, deadline: float, enough: bytes | None = None) -> bool:
        """Collect its output until the line `enough` or the end. False: neither came in time."""
        while (left := deadline - monotonic()) > 0:
            if not is_ready(self._reader, for_output=False, seconds=left):
                break
            data = os.read(self._reader, 4096)
            self.output = (self.output + data)[-_OUTPUT_LIMIT_BYTES:]
            if not data or (enough is not None and enough in self.output.splitlines()):
                return True
        return False

    def exit_code(self, deadline: float) -> int | None:
        """Return how it ended; None if it has not in time, and then it is killed."""
        while (status := _look(self._pid)) is None:
            if monotonic() > deadline:
                self.kill()
                return None
            sleep(_LOOK_SECONDS)
        return status

    def kill(self) -> None:
        """End it, if it has not ended."""
        if _look(self._pid) is None:
            os.kill(self._pid, 9)

    def close(self) -> None:
        """Read no more of it."""
        os.close(self._reader)
        _reap()


def run(command: list[str], environment: "Mapping[str, str]", seconds: float) -> tuple[int, str]:
    """Run a short command; its exit code and everything that it said. Not to be had or not in time: -1."""
    deadline = monotonic() + seconds
    try:
        child = PosixChild(command, environment, stdout=True)
    except OSError as exc:
        return -1, f"{command[0]}: {exc.strerror}"
    try:
        child.read(deadline)
        code = child.exit_code(deadline)
    finally:
        child.close()
    if code is None:
        return -1, f"`{' '.join(command)}` did not end within {seconds:g} s"
    return code, child.output.decode("utf-8", "replace").strip()


def _reap() -> None:
    for pid in list(_unreaped):
        _look(pid)


def _look(pid: int) -> int | None:
    """Return the exit code, or None while it runs."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        # SIGCHLD is set to be ignored: the kernel reaps, and nobody learns the code.
        found, status = pid, 0
    if found == 0:
        return None
    _unreaped.discard(pid)
    return os.waitstatus_to_exitcode(status)


def _pipe_with(data: bytes) -> int:
    """Return a pipe with those bytes and then its end. No process reads yet: what does not fit is an error."""
    source, writer = os.pipe()
    try:
        os.set_blocking(writer, False)
        if os.write(writer, data) < len(data):
            raise BlockingIOError(EAGAIN, "what it is to be told does not fit into a pipe")
    except BaseException:
        os.close(source)
        raise
    finally:
        os.close(writer)
    return source


def _spawn(command: list[str], environment: "Mapping[str, str]", source: int | None, output: int, stdout: bool) -> int:
    from _signal import SIGINT, SIGPIPE  # type: ignore[import-not-found]

    to_null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    from_null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    actions = [
        (os.POSIX_SPAWN_DUP2, source, 0) if source is not None else from_null,
        (os.POSIX_SPAWN_DUP2, output, 1) if stdout else to_null,
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    # Signals that a thread of ours waits for are kept from all the others, and must not be kept from the program.
    signals: dict[str, Any] = {"setsigdef": (SIGINT, SIGPIPE), "setsigmask": ()}
    try:
        return os.posix_spawnp(command[0], command, environment, file_actions=actions, setsid=True, **signals)
    except NotImplementedError:
        # Older macOS: the daemon makes a session of its own a moment later.
        return os.posix_spawnp(command[0], command, environment, file_actions=actions, **signals)
