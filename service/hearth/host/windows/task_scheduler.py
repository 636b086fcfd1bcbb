"""Logon task: its XML, and a client of Windows's Task Scheduler, which is asked through `schtasks.exe`."""

import os
from subprocess import CompletedProcess

from hearth.errors import HearthError
from hearth.host import system
from hearth.host.install.service_files import fill
from hearth.host.windows.task import scheduler

# schtasks.exe answers in a tenth of a second; a scheduler that is busy with a logon takes longer.
LIMIT_SECONDS = 30


def windowless(python: str) -> str:
    """Return the interpreter beside the given one that opens no console window; the given one if it is missing."""
    head, tail = os.path.split(python)
    stem, extension = os.path.splitext(tail)
    if not stem.lower().startswith("python") or stem.lower().startswith("pythonw"):
        return python
    found = os.path.join(head, f"{stem[:6]}w{stem[6:]}{extension}")
    return found if os.path.exists(found) else python


def render(template: str, python: str, home: str, sid: str) -> str:
    """Return the XML for this interpreter and this user, in ASCII. Raises HearthError for text that XML cannot hold."""
    values = {"PYTHON": python, "HOME": home, "SID": sid}
    return fill(template, values, "the Task Scheduler").encode("ascii", "xmlcharrefreplace").decode("ascii")


def command_to_create(name: str, path: str) -> list[str]:
    """Return the command that registers the task. /f replaces a former one without asking."""
    return ["schtasks", "/create", "/tn", name, "/xml", path, "/f"]


def command_to_delete(name: str) -> list[str]:
    """Return the command that deletes the task."""
    return ["schtasks", "/delete", "/tn", name, "/f"]


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
            raise HearthError(f"`schtasks {' '.join(arguments)}` failed: {system.said(done)}")

    def _run(self, *arguments: str) -> CompletedProcess[str]:
        return system.ask([scheduler(), *arguments], LIMIT_SECONDS)
