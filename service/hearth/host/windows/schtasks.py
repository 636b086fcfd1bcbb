"""The Task Scheduler of Windows, asked through `schtasks.exe`. Knows nothing of what a task is for."""

import os
from subprocess import CompletedProcess

from hearth.errors import HearthError
from hearth.host import commands
from hearth.host.windows.task import scheduler

# It answers in a tenth of a second; a scheduler that is busy with a logon takes longer.
LIMIT_SECONDS = 30


class Schtasks:
    """The Task Scheduler. `problem` says why it cannot be used, or is None."""

    def __init__(self) -> None:
        self.problem = None if os.path.exists(scheduler()) else f"{scheduler()} is not there"

    def knows(self, name: str) -> bool:
        """Whether there is such a task, and it is this user's to see."""
        return self._run("/query", "/tn", name).returncode == 0

    def create(self, name: str, path: str) -> None:
        """Register what the file says, in the place of what was there. Raises HearthError with what was said."""
        self._do(*command_to_create(name, path)[1:])

    def delete(self, name: str) -> None:
        """Forget the task; what runs goes on. Raises HearthError with what was said."""
        self._do(*command_to_delete(name)[1:])

    def _do(self, *arguments: str) -> None:
        done = self._run(*arguments)
        if done.returncode != 0:
            raise HearthError(f"`schtasks {' '.join(arguments)}` failed: {commands.said(done)}")

    def _run(self, *arguments: str) -> CompletedProcess[str]:
        return commands.ask([scheduler(), *arguments], LIMIT_SECONDS)


def command_to_create(name: str, path: str) -> list[str]:
    """What registers the task. /f: it replaces the former one without asking."""
    return ["schtasks", "/create", "/tn", name, "/xml", path, "/f"]


def command_to_delete(name: str) -> list[str]:
    """What forgets the task."""
    return ["schtasks", "/delete", "/tn", name, "/f"]
