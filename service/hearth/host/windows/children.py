"""Child processes on Windows: their command line, pipes that the Proactor can wait for, and a job object that ends all
descendants.

Windows starts a program by one line of text and by the file with its extension. `npx` and similar programs are scripts
there (`npx.cmd`), which only cmd.exe can run. cmd.exe receives a line instead of arguments and parses it in its own
language, so each argument is quoted such that it arrives unchanged.
"""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hearth.errors import UpstreamError
from hearth.host.processes import Program

log = logging.getLogger(__name__)

# Extensions of files that cmd.exe runs; the system itself runs everything else.
SCRIPT_ENDINGS = (".bat", ".cmd")
# Extensions to try if the environment has no PATHEXT.
_USUAL_ENDINGS = ".COM;.EXE;.BAT;.CMD"
# Characters without a special meaning in cmd.exe. (A caret inside quotes has none either, outside it has one.)
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#$*+-./:?@\\_")
# An empty expression inside the percent signs, which cmd.exe would otherwise pair with the next one.
_PERCENT = "%%cd:~,%"


def folded(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with upper-case names; of two names that become equal, the last one's value."""
    return {name.upper(): value for name, value in environment.items()}


def find(program: str, environment: Mapping[str, str], cwd: str) -> str | None:
    """Find the file of a program by the PATH and the PATHEXT of its environment; None if there is none.

    Unlike shutil.which it does not search the daemon's own folder first, and completes a path as well.
    """
    endings = [ending for ending in environment.get("PATHEXT", _USUAL_ENDINGS).split(";") if ending]
    if program.lower().endswith(tuple(ending.lower() for ending in endings)):
        endings = [""]
    folders = [cwd] if os.path.dirname(program) else environment.get("PATH", "").split(os.pathsep)
    files = (os.path.join(folder, program + ending) for folder in folders if folder for ending in endings)
    return next(filter(os.path.isfile, files), None)


def line_to_run(program: str, arguments: Sequence[str], shell: str) -> str:
    """Return the command line that runs this file; `shell` is the path of cmd.exe.

    Raises ValueError for an argument that no line can carry.
    """
    if not program.lower().endswith(SCRIPT_ENDINGS):
        return subprocess.list2cmdline([program, *arguments])
    words = " ".join([f'"{program}"', *map(quoted_for_script, arguments)])
    # Extensions on, delayed expansion (`!`) off, no AutoRun; cmd.exe strips the outermost quotes of the line.
    return f'"{shell}" /e:ON /v:OFF /d /c "{words}"'


def quoted_for_script(argument: str) -> str:
    """Quote an argument so that it arrives unchanged in a script's program. Raises ValueError."""
    if any(character in argument for character in "\r\n\0"):
        raise ValueError(f"the argument {argument!r} has a line end, which a script (.cmd) cannot be given")
    if argument and _PLAIN.issuperset(argument) and not argument.endswith("\\"):
        return argument
    quoted, backslashes = "", 0
    for character in argument:
        if character == "\\":
            backslashes += 1
        else:
            if character == '"':
                # Backslashes before a quote are doubled for the program; the quote itself is doubled for cmd.exe.
                quoted += "\\" * backslashes + '"'
            backslashes = 0
        quoted += _PERCENT if character == "%" else character
    return '"' + quoted + "\\" * backslashes + '"'


if sys.platform == "win32":
    from asyncio import windows_utils

    from hearth.host.windows import processes

    # No window opens for a server, and Ctrl-C in the terminal of `hearth serve` reaches only the daemon.
    _FLAGS = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP | processes.SUSPENDED

    class Child:
        """Started program in a job of its own, with the daemon's ends of its three pipes."""

        def __init__(self, process: "windows_utils.Popen[bytes]", job: processes.Job) -> None:
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
            return processes.handle_of(self._process)

        def wait(self) -> int:
            """Return the exit code; call it when the process has ended."""
            return self._process.wait()

        def terminate(self) -> None:
            """End every process of the job: Windows has no way to ask a program without a window to exit."""
            self._job.terminate()

        kill = terminate

        def clear(self) -> None:
            """Close the job, which ends any process that is left."""
            self._job.close()

    def spawn(name: str, program: Program, limits: Mapping[str, str] = MappingProxyType({})) -> Child:
        """Start a server's program on three pipes, in a job of its own. Raises UpstreamError with the reason.

        `limits` are those of a control group, which Windows does not have.
        """
        if limits:
            log.warning("limits not in force: server=%s limits=%s: Windows has no control groups", name, [*limits])
        try:
            environment = folded(program.environment)
            return _spawn(_line(program.argv, environment, program.cwd), environment, program.cwd)
        except (OSError, ValueError) as exc:
            raise UpstreamError(f"its command {program.argv[0]!r} could not be started: {exc}") from exc

    def _line(argv: Sequence[str], environment: Mapping[str, str], cwd: str) -> str:
        if not os.path.isdir(cwd):
            raise UpstreamError(f"its folder {cwd} does not exist (key cwd)")
        program = find(argv[0], environment, cwd)
        if program is None and os.path.dirname(argv[0]):
            raise UpstreamError(f"its command {os.path.join(cwd, argv[0])!r} does not exist")
        if program is None:
            path = environment.get("PATH", "")
            raise UpstreamError(f"its command {argv[0]!r} was not found on the daemon's PATH ({path})")
        return line_to_run(program, argv[1:], os.environ.get("COMSPEC") or r"C:\Windows\System32\cmd.exe")

    def _spawn(line: str, environment: Mapping[str, str], cwd: str) -> Child:
        pipe = subprocess.PIPE
        process: windows_utils.Popen[bytes] = windows_utils.Popen(
            line, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=cwd, creationflags=_FLAGS
        )
        try:
            job = processes.let_run(process)
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
