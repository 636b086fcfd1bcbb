"""Child processes on pipes, each in a process group of its own that can be ended reliably.

Where control groups are available, `linux.cgroup_child` starts the children, so that descendants that leave their
process group are ended as well.

This does not use the loop's own subprocess support: uvloop gives children socketpairs instead of pipes
(`echo > /dev/stdout` fails on them), leaks inheritable descriptors and refuses process groups. On Windows a job object
takes the place of the group: `windows.children`.
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import IO, Protocol

from hearth.errors import UpstreamError
from hearth.host import process_setup
from hearth.host.processes import Program

log = logging.getLogger(__name__)

PIPE_BYTES = 256 * 1024


class Starter(Protocol):
    """Protocol for a starter that holds a program and its descendants together better than a process group does."""

    @property
    def containment(self) -> str:
        """Name of the means that holds them together, for people."""

    def spawn(self, name: str, program: Program, limits: Mapping[str, str]) -> "Child | None":
        """Start the program within `limits`; return None if it must be started without containment. Raises OSError."""


_STARTERS: list[Starter] = []


def use(starter: Starter) -> None:
    """Start programs through this starter from now on."""
    _STARTERS[:] = [starter]


def containment() -> str:
    """Return the name, for people, of the means that holds a server and its descendants together."""
    if sys.platform == "win32":
        return "job objects"
    return _STARTERS[-1].containment if _STARTERS else "process groups"


if sys.platform == "win32":
    from hearth.host.windows.children import Child, ExitWatch, spawn

else:

    class Child:
        """Started program, leader of a process group, with the daemon's ends of its three pipes."""

        def __init__(self, pid: int, pipes: tuple[IO[bytes], IO[bytes], IO[bytes]], wait: Callable[[], int]) -> None:
            self.pid = pid
            self.stdin, self.stdout, self.stderr = pipes
            # Reaps the process; returns its exit code, or the negated signal number.
            self.wait = wait

        def terminate(self) -> None:
            """Ask every process of the group to end."""
            _signal_group(self.pid, signal.SIGTERM)

        def kill(self) -> None:
            """Kill every process of the group. Call it before the leader is reaped, which frees its pid for reuse."""
            _signal_group(self.pid, signal.SIGKILL)

        def clear(self) -> None:
            """Clean up after the process was reaped; nothing to do for a process group."""

    def _signal_group(pid: int, number: signal.Signals) -> None:
        try:
            os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def spawn(name: str, program: Program, limits: Mapping[str, str] = MappingProxyType({})) -> Child:
        """Start a server's program on three pipes as leader of a new group. Raises UpstreamError with the reason.

        `limits` are written to the files of its control group, where it has one.
        """
        try:
            starter = _STARTERS[-1] if _STARTERS else None
            child = starter.spawn(name, program, limits) if starter else None
            if child is None:
                if limits:
                    log.warning("limits not in force: server=%s limits=%s: no control group", name, [*limits])
                child = _spawn(program)
        except (OSError, ValueError) as exc:
            raise UpstreamError(_cannot_start(program, exc)) from exc
        _widen(child)
        return child

    def _spawn(program: Program) -> Child:
        with process_setup.core_dumps_restored():
            child = subprocess.Popen(
                program.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(program.environment),
                cwd=program.cwd,
                process_group=0,
                bufsize=0,
            )
        assert child.stdin and child.stdout and child.stderr
        return Child(child.pid, (child.stdin, child.stdout, child.stderr), child.wait)

    def _widen(child: Child) -> None:
        """Enlarge the pipes for bursts: with the usual 64 KiB, both sides take turns instead of working at once."""
        if sys.platform != "linux":
            return
        import fcntl

        for end in (child.stdin, child.stdout):
            try:
                fcntl.fcntl(end.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            except OSError:
                # This user has used up its share of pipe memory; the usual size is good enough.
                return

    def _cannot_start(program: Program, exc: Exception) -> str:
        command = program.argv[0]
        if not isinstance(exc, FileNotFoundError):
            return f"its command {command!r} could not be started: {exc}"
        if exc.filename == program.cwd:
            return f"its folder {program.cwd} does not exist (key cwd)"
        if not os.path.dirname(command):
            return f"its command {command!r} was not found on the daemon's PATH ({program.environment.get('PATH', '')})"
        path = os.path.join(program.cwd, command)
        if os.path.exists(path):
            return f"its command {command!r} could not be started: the interpreter in its first line does not exist"
        return f"its command {path!r} does not exist"

    def _wait_unreaped(pid: int) -> None:
        """Wait in this thread until the child has ended; it stays unreaped, so that its group can still be killed."""
        if sys.platform != "darwin":
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            return
        # Python before 3.13 has no waitid on macOS.
        import select

        queue = select.kqueue()
        try:
            ends = select.kevent(
                pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD | select.KQ_EV_ONESHOT, select.KQ_NOTE_EXIT
            )
            queue.control([ends], 1)
        except OSError:
            # The child ended before it could be watched.
            pass
        finally:
            queue.close()

    class ExitWatch:
        """Watch that calls back in the loop when a child has ended, and does not reap it."""

        def __init__(self, child: Child, ended: Callable[[], None]) -> None:
            pid = child.pid
            self._loop = asyncio.get_running_loop()
            self._ended = ended
            self._handle = -1
            try:
                if sys.platform == "linux":
                    self._handle = os.pidfd_open(pid)
            except OSError:
                # A kernel before 5.3, or a sandbox that forbids it.
                pass
            if self._handle >= 0:
                self._loop.add_reader(self._handle, ended)
            else:
                # Not a thread of the loop's executor: those are few, and a server may run for days.
                threading.Thread(target=self._wait, args=(pid,), daemon=True).start()

        def _wait(self, pid: int) -> None:
            _wait_unreaped(pid)
            try:
                self._loop.call_soon_threadsafe(self._ended)
            except RuntimeError:
                # The loop is closed: the callback is no longer needed.
                pass

        def close(self) -> None:
            """Stop watching."""
            if self._handle >= 0:
                self._loop.remove_reader(self._handle)
                os.close(self._handle)
                self._handle = -1


__all__ = ["PIPE_BYTES", "Child", "ExitWatch", "Program", "Starter", "containment", "spawn", "use"]
