"""Processes with a variable in their environment, which their descendants inherit: wherever they are by now."""

import contextlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

# Variable in the environment of every MCP server that a daemon starts; its value is the server's name.
SERVER_MARK = "HEARTH_SERVER"
# Between two looks for processes that were told to end.
_LOOK_SECONDS = 0.02


def started_with(pid: int, variable: str) -> str | None:
    """Return the value of a variable in the environment that a process was started with; None if it is not known."""
    import psutil

    value: str | None = None
    with contextlib.suppress(psutil.Error, OSError, ValueError):
        value = psutil.Process(pid).environ().get(variable)
    return value


def find(variable: str, value: str) -> list[int]:
    """Return every process that was started with this variable in its environment."""
    return [process.pid for process in _marked(variable, value)]


def kill_marked(variable: str, value: str, seconds: float) -> list[int]:
    """Kill every process that was started with this variable in its environment; return those left after that time.

    Reaches descendants that have left their process group and session, whichever parent they have by now. Blocks.
    """
    import psutil

    deadline = time.monotonic() + seconds
    while left := _marked(variable, value):
        if time.monotonic() > deadline:
            return [process.pid for process in left]
        for process in left:
            with contextlib.suppress(psutil.Error):
                # Compares the start time first: the pid may have a new owner.
                process.kill()
        time.sleep(_LOOK_SECONDS)
    return []


def _marked(variable: str, value: str) -> "list[psutil.Process]":
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(variable) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
