"""Name of the operating system, and its commands that answer a question: systemctl, launchctl, schtasks.

The name is for code outside host/ that reports or skips something and makes no system calls. These are functions, so
that a test can simulate another system through `sys.platform`. The type checker does not follow them: code that makes
calls of one system belongs in host/.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hearth.errors import HearthError

if TYPE_CHECKING:
    import subprocess

# Start time of a process where the platform reports none; processes are then compared by pid alone.
UNKNOWN_START_TIME = 0
PLATFORM = sys.platform


def is_windows() -> bool:
    """Return whether this is Windows."""
    return sys.platform == "win32"


def is_linux() -> bool:
    """Return whether this is Linux."""
    return sys.platform == "linux"


def user_id() -> int:
    """Return this user's uid; 0 on Windows, which has none, and where every file has that owner."""
    if sys.platform == "win32":
        return 0
    return os.getuid()


def ask(
    command: Sequence[str], limit_seconds: float, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run the command and return its result, whatever its exit code.

    Raises HearthError if it cannot be run, or takes longer than the limit.
    """
    import subprocess

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
