"""Client of this user's launchd through `launchctl`. Knows one job, and nothing about its purpose."""

import shutil
import time
from subprocess import CompletedProcess

from hearth.errors import HearthError
from hearth.host import system
from hearth.host.macos import launchd
from hearth.host.system import said

# bootout waits for the daemon's exit, which may take its whole ExitTimeOut (30 s).
_LIMIT_SECONDS = 60
# launchd is still busy for a moment after bootout has returned, and refuses the same job with an I/O error meanwhile.
_SETTLE_SECONDS = 40.0
_RETRY_SECONDS = 10.0
_POLL_SECONDS = 0.2


class Launchctl:
    """User's launchd. `problem` says why it cannot be used, or is None."""

    def __init__(self) -> None:
        # Before macOS 10.11, launchctl has neither print nor bootstrap.
        self._old = False
        self.problem = self._find_problem()

    def _find_problem(self) -> str | None:
        if shutil.which("launchctl") is None:
            return "launchctl is not on the PATH"
        done = self._run("print", launchd.domain())
        if not done.returncode:
            return None
        self._old = launchd.is_too_old(said(done))
        if self._old:
            return None
        return f"you are not logged in at this Mac's screen ({said(done).splitlines()[-1]})"

    def is_loaded(self) -> bool:
        """Tell whether launchd has loaded the agent, running or not."""
        done = self._run("list", launchd.LABEL) if self._old else self._run("print", launchd.job())
        return done.returncode == 0

    def command_to_load(self, path: str) -> list[str]:
        """Return the command that loads the agent."""
        return ["launchctl", "load", "-w", path] if self._old else ["launchctl", "bootstrap", launchd.domain(), path]

    def command_to_unload(self, path: str) -> list[str]:
        """Return the command that unloads the agent and ends its daemon."""
        return ["launchctl", "unload", path] if self._old else ["launchctl", "bootout", launchd.job()]

    def load(self, path: str) -> None:
        """Load the agent, so that launchd listens. Raises HearthError with launchctl's message."""
        if not self._old:
            # launchd would refuse an agent that was disabled before.
            self._run("enable", launchd.job())
        command = self.command_to_load(path)
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            done = self._run(*command[1:])
            # The exit code of `load` is always 0, and a bridge may have loaded the agent meanwhile.
            if self.is_loaded():
                return
            if time.monotonic() > deadline:
                raise HearthError(f"`{' '.join(command)}` failed: {said(done)}")
            time.sleep(_POLL_SECONDS)

    def unload(self, path: str) -> None:
        """Unload the agent, which ends its daemon, and wait for that. Raises HearthError."""
        command = self.command_to_unload(path)
        done = self._run(*command[1:])
        deadline = time.monotonic() + _SETTLE_SECONDS
        while self.is_loaded():
            if time.monotonic() > deadline:
                raise HearthError(f"`{' '.join(command)}` failed: {said(done)}")
            time.sleep(_POLL_SECONDS)

    def _run(self, *arguments: str) -> CompletedProcess[str]:
        return system.ask(["launchctl", *arguments], _LIMIT_SECONDS)
