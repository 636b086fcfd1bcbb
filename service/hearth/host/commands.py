"""Commands of the system that are asked something: systemctl, launchctl, schtasks. Knows nothing of what about."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from hearth.errors import HearthError


def ask(
    command: Sequence[str], limit_seconds: float, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """What the command says, whatever its exit code. Raises HearthError if it cannot be run, or takes longer."""
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
    """The command as a person would type it, without the folder of its program."""
    return " ".join([os.path.basename(command[0]).removesuffix(".exe"), *command[1:]])


def said(done: "subprocess.CompletedProcess[str]") -> str:
    """The command's own words about how it went."""
    return done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
