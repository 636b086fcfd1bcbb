"""Short programs that are run within bounds: of time, and of the output that is kept. Blocks; call it in a thread."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hearth.errors import HearthError


class RunResult(NamedTuple):
    """Result of a program. `is_cut`: its output went over the limit, and it was killed."""

    exit_code: int
    output: bytes
    is_cut: bool
    is_late: bool


def run(
    argv: Sequence[str], folder: str, environment: Mapping[str, str], limit_seconds: float, limit_bytes: int
) -> RunResult:
    """Run a program and everything it starts, and return its exit code and output, standard error included.

    Raises HearthError if it cannot be started.
    """
    try:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A group of its own, so that whatever it has started ends with it.
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        raise HearthError(f"{argv[0]!r} cannot be run in {folder}: {exc}") from exc
    late = threading.Event()

    def expire() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(limit_seconds, expire)
    timer.daemon = True
    timer.start()
    assert process.stdout
    with process:
        try:
            # One byte more tells that there was more.
            output = process.stdout.read(limit_bytes + 1)
            if len(output) > limit_bytes:
                _kill(process)
            process.wait()
        finally:
            timer.cancel()
    return RunResult(process.returncode, output[:limit_bytes], len(output) > limit_bytes, late.is_set())


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if sys.platform == "win32":
        process.kill()
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
