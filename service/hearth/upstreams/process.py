"""One child process on three pipes, in a process group of its own, and the certain way to end it.

Not the loop's own subprocess support: uvloop's hands children socketpairs instead of pipes (`echo > /dev/stdout`
fails on them), leaks inheritable descriptors and refuses process groups.
"""

import asyncio
import logging
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from hearth.errors import UpstreamBusy, UpstreamError
from hearth.faults import SEAMS

log = logging.getLogger(__name__)

# A server that was told that its input ended gets this long to finish by itself …
EOF_GRACE_SECONDS = 2.0
# … and this long after SIGTERM. Both must fit into TimeoutStopSec of the unit, after the drain.
TERM_GRACE_SECONDS = 3.0
# How long after its death a child's output may still be open, held by a process that left its group.
LAST_WORDS_SECONDS = 1.0
# What is kept of a server's stderr for the error that names it.
STDERR_LINES = 50
STDERR_LINE_BYTES = 1000


class Process:
    """A running child. `on_output` gets its stdout in chunks, `on_exit` its exit code, once."""

    def __init__(self, name: str, on_output: Callable[[bytes], None], on_exit: Callable[[int], None]) -> None:
        self.name = name
        self.stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self.exited = asyncio.Event()
        self._on_output = on_output
        self._on_exit = on_exit
        self._child: subprocess.Popen[bytes] | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._readers: list[asyncio.BaseTransport] = []
        self._pidfd = -1
        self._output_ended = False
        self._code: int | None = None
        self._late: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        """The child's pid, which is its process group's too; 0 before the start."""
        return self._child.pid if self._child else 0

    async def start(self, argv: Sequence[str], environment: Mapping[str, str], cwd: str) -> None:
        """Start the program. Raises UpstreamError with the reason when it cannot be."""
        if SEAMS:
            SEAMS.hit("before-exec")
        try:
            self._child = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                cwd=cwd,
                process_group=0,
                bufsize=0,
            )
        except (OSError, ValueError) as exc:
            raise UpstreamError(_cannot_start(argv[0], cwd, environment, exc)) from exc
        await self._connect_pipes(self._child)
        self._watch_exit(self._child.pid)

    async def _connect_pipes(self, child: subprocess.Popen[bytes]) -> None:
        loop = asyncio.get_running_loop()
        out, _ = await loop.connect_read_pipe(lambda: _Output(self._on_output, self._end_of_output), child.stdout)
        err, _ = await loop.connect_read_pipe(lambda: _Stderr(self.name, self.stderr), child.stderr)
        self._stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, child.stdin)
        self._readers = [out, err]

    def _watch_exit(self, pid: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._pidfd = os.pidfd_open(pid)
        except (AttributeError, OSError):
            # Elsewhere than on Linux, and on kernels before 5.3, a thread waits.
            loop.run_in_executor(None, self._wait_in_thread, loop)
            return
        loop.add_reader(self._pidfd, self._reap)

    def _wait_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        loop.call_soon_threadsafe(self._reap)

    def _reap(self) -> None:
        if self._child is None or self.exited.is_set():
            return
        # The leader is a zombie until it is waited for, so its group's number cannot belong to anybody else yet.
        self._signal_group(signal.SIGKILL)
        code = self._child.wait()
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self.exited.set()
        if self._stdin:
            self._stdin.abort()
        # What the child wrote before it died is still in the pipe and comes first.
        self._code = code
        if self._output_ended:
            self._finish()
        else:
            self._late = asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS, self._finish)

    def _end_of_output(self) -> None:
        self._output_ended = True
        if self._code is not None:
            self._finish()

    def _finish(self) -> None:
        code, self._code = self._code, None
        if code is None:
            return
        if self._late:
            self._late.cancel()
        for reader in self._readers:
            reader.close()
        self._on_exit(code)

    def write(self, data: bytes, limit: int | None = None) -> None:
        """Queue bytes for the child's stdin. Raises UpstreamBusy when more than `limit` bytes are waiting already."""
        if self._stdin is None or self._stdin.is_closing():
            raise UpstreamError(f"server {self.name!r} is not running")
        if limit is not None and self._stdin.get_write_buffer_size() > limit:
            raise UpstreamBusy(
                f"server {self.name!r} does not read its input: {limit} bytes are waiting (upstream_queue_limit)"
            )
        self._stdin.write(data)

    async def stop(self) -> None:
        """End the child: close its stdin, wait, terminate its group, wait, kill it. Returns when it is reaped."""
        if self._child is None or self.exited.is_set():
            return
        if self._stdin:
            self._stdin.close()
        for grace, number in ((EOF_GRACE_SECONDS, signal.SIGTERM), (TERM_GRACE_SECONDS, signal.SIGKILL)):
            if await self._exits_within(grace):
                return
            self._signal_group(number)
        await self.exited.wait()

    async def _exits_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        except TimeoutError:
            return False
        return True

    def _signal_group(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def _cannot_start(program: str, cwd: str, environment: Mapping[str, str], exc: Exception) -> str:
    if isinstance(exc, FileNotFoundError) and exc.filename == cwd:
        return f"its folder {cwd} does not exist (key cwd)"
    if isinstance(exc, FileNotFoundError):
        return f"its command {program!r} was not found on the daemon's PATH ({environment.get('PATH', '')})"
    return f"its command {program!r} could not be started: {exc}"


class _Output(asyncio.Protocol):
    def __init__(self, receive: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self.data_received = receive  # type: ignore[assignment]  # one call less for each chunk
        self._ended = ended

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()


class _Stderr(asyncio.Protocol):
    """Keeps the last lines; they reach the log at its most verbose level only, since they may carry anything."""

    def __init__(self, name: str, ring: deque[str]) -> None:
        self._name = name
        self._ring = ring
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:STDERR_LINE_BYTES]
        for line in lines:
            text = line[:STDERR_LINE_BYTES].decode("utf-8", "replace").rstrip()
            self._ring.append(text)
            log.debug("stderr: %s", text, extra={"upstream": self._name})
