"""Process table of this user, with command lines and parents.

psutil reads it on every platform. On macOS and Windows, only private structures of the kernel give an exact command
line otherwise. psutil is imported when a table is asked for: only `hearth savings` does that, never the daemon.
"""

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple


class ProcessInfo(NamedTuple):
    """Process with its parent and command line. `argv` is never empty."""

    pid: int
    parent: int
    argv: tuple[str, ...]


def own() -> list[ProcessInfo]:
    """List the processes of this user, without zombies and processes that hide their command line."""
    import psutil

    found = []
    for process in psutil.process_iter(["pid", "ppid", "cmdline", *(["uids"] if hasattr(os, "getuid") else [])]):
        values = process.info
        argv = _words(values["cmdline"] or ())
        if argv and _is_own(values.get("uids")):
            found.append(ProcessInfo(values["pid"], values["ppid"] or 0, argv))
    return found


def _words(cmdline: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command line. A program that sets its title, as npm does, leaves one string and padding."""
    words = [word for word in cmdline if word]
    is_title = len(words) == 1 and not os.path.isabs(words[0])
    return tuple(words[0].split() if is_title else words)


def _is_own(uids: object) -> bool:
    if sys.platform == "win32":
        # Another user's command line cannot be read.
        return True
    return getattr(uids, "real", None) == os.getuid()


def folder_of(pid: int) -> str | None:
    """Return the working folder of a process; None if the process is gone or the folder cannot be read."""
    import psutil

    try:
        return str(psutil.Process(pid).cwd()) or None
    except psutil.Error:
        return None


def variables_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; empty if it is gone or cannot be read."""
    import psutil

    try:
        return dict(psutil.Process(pid).environ())
    except (psutil.Error, OSError):
        return {}


def is_on_pipes(process: ProcessInfo) -> bool | None:
    """Tell whether another program holds the other end of a process's standard input; None where that is unknown.

    Servers on the Python SDK put /dev/null there and read from a copy. Then a pipe that the parent also has decides.
    """
    files = _open_files(process.pid)
    if not files:
        return None
    first = files.get("0", "")
    if first != os.devnull:
        return first.startswith(("pipe:", "socket:"))
    common = {*files.values()} & {*_open_files(process.parent).values()}
    return True if any(name.startswith("pipe:") for name in common) else None


def _open_files(pid: int) -> dict[str, str]:
    """Return the target of each descriptor of a process; empty without /proc, or where it may not be read."""
    folder = f"/proc/{pid}/fd"
    found = {}
    try:
        for name in os.listdir(folder):
            try:
                found[name] = os.readlink(f"{folder}/{name}")
            except FileNotFoundError:
                continue
    except OSError:
        return {}
    return found
