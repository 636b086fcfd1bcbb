"""Installer of the launchd agent, which `host.macos.launchd` describes, and the client of launchd that loads it.

This module does not talk to a person. `Outcome` says what was done and what is left to type.
"""

import os
import shlex
import shutil
import time
from subprocess import CompletedProcess

from hearth import paths
from hearth.errors import HearthError
from hearth.host import system
from hearth.host.folders import make_private
from hearth.host.install import service_files
from hearth.host.install.service_files import Outcome, compile_package, fill
from hearth.host.macos import launchd as agent

MANAGER = "launchd"
# bootout waits for the daemon's exit, which may take its whole ExitTimeOut (30 s).
_LIMIT_SECONDS = 60
# launchd is still busy for a moment after bootout has returned, and refuses the same job with an I/O error meanwhile.
_SETTLE_SECONDS = 40.0
_RETRY_SECONDS = 10.0
_POLL_SECONDS = 0.2


def install(python: str, *, enable: bool, dry_run: bool) -> Outcome:
    """Put the agent in place and have launchd listen. Doing it again changes nothing.

    Raises HearthError when a file that Hearth did not write is in the way, when the socket's folder does not survive a
    restart, and when launchd refuses.
    """
    places = paths.Places()
    _refuse_fleeting(places)
    folder, path, searched = agent.agents_folder(), agent.file(), agent.search_path(os.environ.get("PATH", ""))
    wanted = {agent.FILE_NAME: rendered(python, places, searched)}
    plan = service_files.plan_install(wanted, service_files.read(folder, wanted))
    if plan.foreign:
        raise HearthError(f"{path} was not written by Hearth and is left as it is; move it away, then try again")
    launchd = Launchctl()
    outcome = Outcome(folder, plan, MANAGER, manager_problem=launchd.problem, search_path=searched)
    if launchd.problem is not None or not enable:
        outcome.commands = [shlex.join(launchd.command_to_load(path))]
    if dry_run:
        return outcome
    outcome.compiled = compile_package(python)
    # launchd makes none of these folders, and binds the socket at login, before any part of Hearth runs.
    for private in (*places.private_folders(), os.path.dirname(places.log)):
        make_private(private)
    service_files.write(folder, {name: wanted[name] for name in plan.write})
    if launchd.problem is None and enable:
        launchd.listen(path, again=bool(plan.write) or not os.path.lexists(places.socket))
        outcome.enabled = True
    return outcome


def uninstall(*, dry_run: bool) -> Outcome:
    """Stop listening, stop the daemon, remove the agent. Doing it again changes nothing.

    Raises HearthError when launchd refuses, and when the file cannot be removed.
    """
    folder, path = agent.agents_folder(), agent.file()
    plan = service_files.plan_uninstall(service_files.read(folder, [agent.FILE_NAME]))
    launchd = Launchctl()
    outcome = Outcome(folder, plan, MANAGER, manager_problem=launchd.problem)
    if launchd.problem is not None and plan.remove:
        outcome.commands = [shlex.join(launchd.command_to_unload(path))]
    if dry_run or not plan.remove:
        return outcome
    if launchd.problem is None and launchd.is_loaded():
        launchd.unload(path)
    service_files.remove(folder, plan.remove)
    # A bridge that found the agent unloaded but its file still there has loaded it again.
    if launchd.problem is None and launchd.is_loaded():
        launchd.unload(path)
    return outcome


def rendered(python: str, places: paths.Places, searched: str) -> str:
    """Return the text of the property list for this interpreter and these places."""
    if not os.path.isabs(python):
        raise HearthError(f"launchd cannot start {python!r}: it needs the whole path of the interpreter")
    values = {
        "PYTHON": python,
        "SOCKET": places.socket,
        "PATH": searched,
        "HOME": paths.home_dir(),
        # For the daemon's output before it has opened its log.
        "OUTPUT": os.path.join(os.path.dirname(places.log), f"{places.key}.launchd.log"),
    }
    return fill(service_files.template("launchd", agent.FILE_NAME), values, MANAGER)


def _refuse_fleeting(places: paths.Places) -> None:
    if places.socket.startswith(paths.short_dir() + "/"):
        raise HearthError(
            f"your home has so long a path that the socket has to be {places.socket}, in a folder that is emptied when"
            " the Mac starts, and launchd could not bind it there. Nothing need be installed: the bridge starts the"
            " daemon when it is needed"
        )


class Launchctl:
    """User's launchd. `problem` says why it cannot be used, or is None."""

    def __init__(self) -> None:
        # Before macOS 10.11, launchctl has neither print nor bootstrap.
        self._old = False
        self.problem = self._find_problem()

    def _find_problem(self) -> str | None:
        if shutil.which("launchctl") is None:
            return "launchctl is not on the PATH"
        done = self._run("print", agent.domain())
        if not done.returncode:
            return None
        self._old = agent.is_too_old(system.said(done))
        if self._old:
            return None
        return f"you are not logged in at this Mac's screen ({system.said(done).splitlines()[-1]})"

    def is_loaded(self) -> bool:
        """Tell whether launchd has loaded the agent, running or not."""
        done = self._run("list", agent.LABEL) if self._old else self._run("print", agent.job())
        return done.returncode == 0

    def command_to_load(self, path: str) -> list[str]:
        """Return the command that loads the agent."""
        return ["launchctl", "load", "-w", path] if self._old else ["launchctl", "bootstrap", agent.domain(), path]

    def command_to_unload(self, path: str) -> list[str]:
        """Return the command that unloads the agent and ends its daemon."""
        return ["launchctl", "unload", path] if self._old else ["launchctl", "bootout", agent.job()]

    def listen(self, path: str, again: bool) -> None:
        """Have launchd listen; `again`: reload an agent that is loaded. Raises HearthError."""
        if self.is_loaded():
            if not again:
                return
            # launchd reads the file only when it loads the agent.
            self.unload(path)
        self.load(path)

    def load(self, path: str) -> None:
        """Load the agent, so that launchd listens. Raises HearthError with launchctl's message."""
        if not self._old:
            # launchd would refuse an agent that was disabled before.
            self._run("enable", agent.job())
        command = self.command_to_load(path)
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            done = self._run(*command[1:])
            # The exit code of `load` is always 0, and a bridge may have loaded the agent meanwhile.
            if self.is_loaded():
                return
            if time.monotonic() > deadline:
                raise HearthError(f"`{' '.join(command)}` failed: {system.said(done)}")
            time.sleep(_POLL_SECONDS)

    def unload(self, path: str) -> None:
        """Unload the agent, which ends its daemon, and wait for that. Raises HearthError."""
        command = self.command_to_unload(path)
        done = self._run(*command[1:])
        deadline = time.monotonic() + _SETTLE_SECONDS
        while self.is_loaded():
            if time.monotonic() > deadline:
                raise HearthError(f"`{' '.join(command)}` failed: {system.said(done)}")
            time.sleep(_POLL_SECONDS)

    def _run(self, *arguments: str) -> CompletedProcess[str]:
        return system.ask(["launchctl", *arguments], _LIMIT_SECONDS)
