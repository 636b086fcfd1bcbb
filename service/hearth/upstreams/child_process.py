"""Child process on the event loop: its output, its input, and its reliable termination."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from hearth.errors import UpstreamBusy, UpstreamError
from hearth.faults import SEAMS
from hearth.host import children
from hearth.upstreams.stderr import RING_LINES, Stderr
from hearth.write_batch import BufferedWriter

log = logging.getLogger(__name__)

# After the end of its input a server gets this long to exit by itself …
EOF_GRACE_SECONDS = 2.0
# … and this long after SIGTERM. Both must fit into TimeoutStopSec of the unit, after the drain.
TERM_GRACE_SECONDS = 3.0
# Time for which a dead child's output may stay open, held by a process that left its group.
LAST_WORDS_SECONDS = 1.0
# The same for its stderr alone, which helpers that stay behind often hold open.
STDERR_SECONDS = 0.1


class Process:
    """Child process. `on_output` gets its stdout in chunks, `on_exit` its exit code, once.

    `on_lost` is called when a pipe to it has ended: its exit follows. `mask` removes secrets from its stderr. `subject`
    names it in errors; empty: a server of that name.
    """

    def __init__(
        self,
        name: str,
        on_output: Callable[[bytes], None],
        on_exit: Callable[[int], None],
        on_lost: Callable[[], None],
        mask: Callable[[str], str],
        subject: str = "",
    ) -> None:
        self.name = name
        self._subject = subject or f"server {name!r}"
        self.stderr: deque[str] = deque(maxlen=RING_LINES)
        self.exited = asyncio.Event()
        self._on_output = on_output
        self._on_exit = on_exit
        self._on_lost = on_lost
        self._mask = mask
        self._child: children.Child | None = None
        self._stdin: BufferedWriter | None = None
        self._stderr: Stderr | None = None
        self._readers: list[asyncio.ReadTransport] = []
        self._output: asyncio.ReadTransport | None = None
        self._watch: children.ExitWatch | None = None
        self._connecting: asyncio.Future[None] | None = None
        self._stopping: asyncio.Future[None] | None = None
        self._input_ended = False
        self._output_ended = False
        self._stderr_ended = False
        self.exit_code: int | None = None
        self._code: int | None = None
        self._late: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        """Pid of the child, and of its process group; 0 before the start."""
        return self._child.pid if self._child else 0

    async def start(
        self, argv: Sequence[str], environment: Mapping[str, str], cwd: str, limits: Mapping[str, str]
    ) -> None:
        """Start the program. Raises UpstreamError with the reason if it cannot be started."""
        if SEAMS:
            SEAMS.hit("before-exec")
        self._child = children.spawn(self.name, children.Program(argv, environment, cwd), limits)
        log.info("process started pid=%d", self._child.pid, extra={"upstream": self.name})
        # Shielded: a start that is cancelled half way would leave pipes without an owner and a child without a watcher.
        # Connecting takes only a few turns of the loop.
        self._connecting = asyncio.ensure_future(self._connect_pipes(self._child))
        await asyncio.shield(self._connecting)

    async def _connect_pipes(self, child: children.Child) -> None:
        loop = asyncio.get_running_loop()
        # First: a line of the output may have to be kept with those of stderr.
        said = self._stderr = Stderr(self.name, child.pid, self.stderr, self._mask, self._end_of_stderr)
        out, _ = await loop.connect_read_pipe(lambda: _Output(self), child.stdout)
        self._readers = [out]
        err, _ = await loop.connect_read_pipe(lambda: said, child.stderr)
        stdin, _ = await loop.connect_write_pipe(lambda: _Input(self._end_of_input), child.stdin)
        self._stdin = BufferedWriter(stdin)
        self._readers.append(err)
        self._watch = children.ExitWatch(child, self._reap)

    def _reap(self) -> None:
        if self._child is None or self.exited.is_set():
            return
        # The leader is a zombie until it is waited for, so its group id cannot have been reused yet.
        self._child.kill()
        code = self.exit_code = self._child.wait()
        self._child.clear()
        log.info("process ended pid=%d %s", self._child.pid, describe_exit(code), extra={"upstream": self.name})
        if self._watch:
            self._watch.close()
        self.exited.set()
        # asyncio's own transport fails to abort after its end.
        if self._stdin and not self._input_ended:
            self._stdin.transport.abort()
        # Its output must still be read; nothing can be sent to it.
        self._on_lost()
        self._code = code
        self._finish_soon()

    def _finish_soon(self) -> None:
        """Finish after the exit: output that is still in the pipes comes first."""
        if self._late:
            self._late.cancel()
        if self._output_ended and self._stderr_ended:
            self._finish()
        else:
            patience = STDERR_SECONDS if self._output_ended else LAST_WORDS_SECONDS
            self._late = asyncio.get_running_loop().call_later(patience, self._finish)

    def _end_of_input(self) -> None:
        self._input_ended = True
        self._lost_touch()

    def _end_of_output(self) -> None:
        self._output_ended = True
        if self._code is not None:
            self._finish_soon()
        else:
            self._lost_touch()

    def _end_of_stderr(self) -> None:
        self._stderr_ended = True
        if self._code is not None and self._output_ended:
            self._finish_soon()

    def _lost_touch(self) -> None:
        """Stop a living child after the end of a pipe: no communication with it is possible any more."""
        if not self.exited.is_set() and self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop_if_it_lives())
            self._on_lost()

    async def _stop_if_it_lives(self) -> None:
        # When a child exits, the ends of its pipes are noticed first.
        if not await self._exits_within(LAST_WORDS_SECONDS):
            log.warning("process closed its input or output and lives on: stopping it", extra={"upstream": self.name})
            await self._stop()

    def _finish(self) -> None:
        code, self._code = self._code, None
        if code is None:
            return
        if self._late:
            self._late.cancel()
        for reader in self._readers:
            reader.close()
        self._on_exit(code)

    def stray(self, line: bytes, protocol: str) -> str:
        """Keep a line of its stdout that is no message of the protocol; return it cut and masked."""
        return self._stderr.stray(line, protocol) if self._stderr else ""

    def write(self, data: bytes, limit: int | None = None) -> None:
        """Queue bytes for the child's stdin. Raises UpstreamBusy if more than `limit` bytes are waiting already."""
        stdin = self._stdin
        if stdin is None or stdin.transport.is_closing():
            if stdin is not None:
                # Before the loop reports it: later callers need not try.
                self._lost_touch()
            raise UpstreamError(f"{self._subject} is not running")
        if limit is not None and stdin.waiting() > limit:
            raise UpstreamBusy(
                f"{self._subject} does not read its input: {limit} bytes are waiting (upstream_queue_limit)"
            )
        stdin.write(data)

    def hold_output(self, held: bool) -> None:
        """Pause reading the child's output, so that it blocks on its pipe; or resume."""
        output = self._output
        if output and not output.is_closing():
            if held:
                output.pause_reading()
            else:
                output.resume_reading()

    def abandon(self) -> None:
        """Stop reading the child's output, and stop the child."""
        if not self.exited.is_set() and self._stopping is None:
            self.hold_output(True)
            self._stopping = asyncio.ensure_future(self._stop())
            self._on_lost()

    async def stop(self) -> None:
        """Stop the child: close its stdin, wait, terminate its group, wait, kill it. Return when it is reaped."""
        if self._child is None or self.exited.is_set():
            return
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        assert self._child is not None
        if self._connecting:
            await self._connecting
        if self._stdin:
            self._stdin.flush()
            self._stdin.transport.close()
        for grace, escalate in ((EOF_GRACE_SECONDS, self._child.terminate), (TERM_GRACE_SECONDS, self._child.kill)):
            if await self._exits_within(grace):
                return
            escalate()
        await self.exited.wait()

    async def _exits_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        except TimeoutError:
            return False
        return True


def describe_exit(code: int) -> str:
    """Describe an exit code in words."""
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


class _Output(asyncio.Protocol):
    def __init__(self, process: Process) -> None:
        self.data_received = process._on_output  # type: ignore[assignment]  # one call less for each chunk
        self._process = process

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process._output = cast(asyncio.ReadTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._process._end_of_output()


class _Input(asyncio.BaseProtocol):
    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()
