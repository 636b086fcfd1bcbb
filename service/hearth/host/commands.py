"""Runner of system commands that answer a question: systemctl, launchctl, schtasks. Knows nothing of the question."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from hearth.errors import HearthError


def ask(
    command: Sequence[str], limit_seconds: float, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run the command and return its result, whatever its exit code.

    Raises HearthError if it cannot be run, or takes longer than the limit.
    """
    try:
        return subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise HearthError(f"`{shown(command)}` did not work: {exc}") from exc


def shown(command: Sequence[str]) -> str:
    """Return the command as a person would type it, without the folder of its program."""
    return " ".join([os.path.basename(command[0]).removesuffix(".exe"), *command[1:]])


def said(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the command's own message: its stderr, else its stdout, else the exit code."""
    return done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
