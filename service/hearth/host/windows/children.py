"""Child processes on Windows: pipes that the Proactor can wait for, and a job object that ends all descendants."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hearth.errors import UpstreamError
from hearth.host.windows import command_lines

log = logging.getLogger(__name__)

if sys.platform == "win32":
    from asyncio import windows_utils

    from hearth.host.windows import jobs

    # No window opens for a server, and Ctrl-C in the terminal of `hearth serve` reaches only the daemon.
    _FLAGS = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP | jobs.SUSPENDED

    class Child:
        """Started program in a job of its own, with the daemon's ends of its three pipes."""

        def __init__(self, process: "windows_utils.Popen[bytes]", job: jobs.Job) -> None:
            self._process = process
            self._job = job
            self.pid = process.pid
            # PipeHandles, which the loop accepts as files.
            self.stdin: Any = process.stdin
            self.stdout: Any = process.stdout
            self.stderr: Any = process.stderr

        @property
        def handle(self) -> int:
            """Handle of the process."""
            return jobs.handle_of(self._process)

        def wait(self) -> int:
            """Return the exit code; call it when the process has ended."""
            return self._process.wait()

        def terminate(self) -> None:
            """End every process of the job: Windows has no way to ask a program without a window to exit."""
            self._job.terminate()

        def kill(self) -> None:
            """End every process of the job."""
            self._job.terminate()

        def clear(self) -> None:
            """Close the job, which ends any process that is left."""
            self._job.close()

    def spawn(
        name: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        cwd: str,
        limits: Mapping[str, str] = MappingProxyType({}),
    ) -> Child:
        """Start a server's program on three pipes, in a job of its own. Raises UpstreamError with the reason.

        `limits` are those of a control group, which Windows does not have.
        """
        if limits:
            log.warning("limits not in force: server=%s limits=%s: Windows has no control groups", name, [*limits])
        try:
            environment = command_lines.folded(environment)
            return _spawn(_line(argv, environment, cwd), environment, cwd)
        except (OSError, ValueError) as exc:
            raise UpstreamError(f"its command {argv[0]!r} could not be started: {exc}") from exc

    def _line(argv: Sequence[str], environment: Mapping[str, str], cwd: str) -> str:
        if not os.path.isdir(cwd):
            raise UpstreamError(f"its folder {cwd} does not exist (key cwd)")
        program = command_lines.find(argv[0], environment, cwd)
        if program is None and os.path.dirname(argv[0]):
            raise UpstreamError(f"its command {os.path.join(cwd, argv[0])!r} does not exist")
        if program is None:
            path = environment.get("PATH", "")
            raise UpstreamError(f"its command {argv[0]!r} was not found on the daemon's PATH ({path})")
        shell = os.environ.get("COMSPEC") or r"C:\Windows\System32\cmd.exe"
        return command_lines.line(program, argv[1:], shell)

    def _spawn(line: str, environment: Mapping[str, str], cwd: str) -> Child:
        pipe = subprocess.PIPE
        process: windows_utils.Popen[bytes] = windows_utils.Popen(
            line, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=cwd, creationflags=_FLAGS
        )
        try:
            job = jobs.let_run(process)
        except OSError:
            for end in (process.stdin, process.stdout, process.stderr):
                if end:
                    end.close()
            raise
        return Child(process, job)

    class ExitWatch:
        """Watch that calls back in the loop when a child has ended."""

        def __init__(self, child: Child, ended: Callable[[], None]) -> None:
            proactor: Any = asyncio.get_running_loop()._proactor  # type: ignore[attr-defined]
            # The loop waits for its own subprocesses in the same way.
            self._waiting: asyncio.Future[bool] = proactor.wait_for_handle(child.handle)
            self._ended = ended
            self._waiting.add_done_callback(self._tell)

        def _tell(self, done: "asyncio.Future[bool]") -> None:
            if not done.cancelled():
                self._ended()

        def close(self) -> None:
            """Stop watching."""
            if not self._waiting.done():
                self._waiting.cancel()
