"""Client of systemd through systemctl, this user's or the system's. Knows nothing of the services."""

import os
import shlex
import shutil
from subprocess import CompletedProcess

from hearth import paths
from hearth.errors import HearthError
from hearth.host import system
from hearth.host.linux.units import Units

# Stopping the socket stops the daemon first, which may take its whole TimeoutStopSec (30 s).
_LIMIT_SECONDS = 60


class Manager:
    """Service manager. `problem` says why it cannot be used, or is None."""

    def __init__(self, folder: str, scope: tuple[str, ...] = ("--user",)) -> None:
        """Connect to the manager that reads units from `folder`. `scope` is systemctl's option: `--user`, or none."""
        self._systemctl = ["systemctl", *scope]
        # Shells started by `su` or `ssh HOST COMMAND` lack the variable although the manager runs.
        self._environment = {**os.environ, "XDG_RUNTIME_DIR": paths.runtime_dir()}
        self.problem = self._find_problem(folder)

    def _find_problem(self, folder: str) -> str | None:
        if shutil.which("systemctl") is None:
            return "systemctl is not installed"
        done = self._run("show", "--property=UnitPath", "--value")
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            whose = "of this user " if "--user" in self._systemctl else ""
            return f"no service manager {whose}answers ({said[0]})"
        if os.path.realpath(folder) not in map(os.path.realpath, shlex.split(done.stdout)):
            return f"the service manager does not read {folder}: its HOME or XDG_CONFIG_HOME is another"
        return None

    def _run(self, *arguments: str) -> CompletedProcess[str]:
        command = [*self._systemctl, "--no-ask-password", *arguments]
        return system.ask(command, _LIMIT_SECONDS, self._environment)

    def do(self, *arguments: str) -> None:
        """Run one command. Raises HearthError with what systemctl said."""
        done = self._run(*arguments)
        if done.returncode:
            said = done.stderr.strip() or f"exit code {done.returncode}"
            raise HearthError(f"`{' '.join([*self._systemctl, *arguments])}` failed: {said}")

    def attempt(self, *arguments: str) -> None:
        """Run one command whose failure means that there was nothing to do."""
        self._run(*arguments)

    def listen(self, units: Units) -> None:
        """Enable a socket and start it. Raises HearthError."""
        # A start limit that was hit before a repair must not prevent the start after it.
        self.attempt("reset-failed", units.socket, units.service)
        self.do("enable", "--now", units.socket)

    def is_active(self, unit: str) -> bool:
        """Tell whether a unit is active."""
        return self._run("is-active", "--quiet", unit).returncode == 0
