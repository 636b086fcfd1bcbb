"""Leaving the terminal, and the client that started us, behind."""

import os
import sys

from hearth.errors import StartError


def detach(log_path: str) -> None:
    """Become a daemon: new session, no terminal, home directory, stdio to the log. Only the grandchild returns.

    The file mode mask stays as it is: the MCP servers inherit it, and write into the user's projects.
    Standard library only and cheap: it runs before anything else is imported.
    """
    if sys.platform == "win32":
        raise StartError("--detach is not available on Windows: the service or the logon task starts the daemon")
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    try:
        os.chdir(os.environ.get("HOME") or "/")
    except OSError:
        os.chdir("/")
    _redirect_stdio(log_path)


def _redirect_stdio(log_path: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.makedirs(os.path.dirname(log_path), mode=0o700, exist_ok=True)
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        # A log that cannot be written is no reason not to serve; the daemon says so in its status.
        log = os.dup(null)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(null)
    os.close(log)


def close_inherited(keep: set[int]) -> None:
    """Close every descriptor above stdio that the starter happened to leave open."""
    for descriptor in _present():
        if descriptor > 2 and descriptor not in keep:
            try:
                os.close(descriptor)
            except OSError:
                pass


def _present() -> list[int]:
    # Linux's, and macOS's: a container may lack the link from one to the other.
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return [int(name) for name in os.listdir(folder)]
        except OSError:
            continue
    return list(range(3, 256))
