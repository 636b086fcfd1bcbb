"""Client of Windows's Task Scheduler through `schtasks.exe`. Knows nothing about the purpose of a task."""

import os
from subprocess import CompletedProcess

from hearth.errors import HearthError
from hearth.host import commands
from hearth.host.windows.task import scheduler

# schtasks.exe answers in a tenth of a second; a scheduler that is busy with a logon takes longer.
LIMIT_SECONDS = 30


class Schtasks:
    """Task Scheduler. `problem` says why it cannot be used, or is None."""

    def __init__(self) -> None:
        self.problem = None if os.path.exists(scheduler()) else f"{scheduler()} is not there"

    def knows(self, name: str) -> bool:
        """Tell whether there is such a task that this user may see."""
        return self._run("/query", "/tn", name).returncode == 0

    def create(self, name: str, path: str) -> None:
        """Register the task in the file, in place of a former one. Raises HearthError with schtasks's message."""
        self._do(*command_to_create(name, path)[1:])

    def delete(self, name: str) -> None:
        """Delete the task; a running daemon continues. Raises HearthError with schtasks's message."""
        self._do(*command_to_delete(name)[1:])

    def _do(self, *arguments: str) -> None:
        done = self._run(*arguments)
        if done.returncode != 0:
            raise HearthError(f"`schtasks {' '.join(arguments)}` failed: {commands.said(done)}")

    def _run(self, *arguments: str) -> CompletedProcess[str]:
        return commands.ask([scheduler(), *arguments], LIMIT_SECONDS)


def command_to_create(name: str, path: str) -> list[str]:
    """Return the command that registers the task. /f replaces a former one without asking."""
    return ["schtasks", "/create", "/tn", name, "/xml", path, "/f"]


def command_to_delete(name: str) -> list[str]:
    """Return the command that deletes the task."""
    return ["schtasks", "/delete", "/tn", name, "/f"]
