"""Leaving the terminal, and the client that started us, behind."""

import os
import sys

from hearth.host import open_files


def detach(log_path: str) -> None:
    """Become a daemon: new session, no terminal, home directory, stdio to the log. Only the grandchild returns.

    On Windows whoever starts a process says whether it has a terminal: the bridge gives it none.
    The file mode mask stays as it is: the MCP servers inherit it, and write into the user's projects.
    Standard library only and cheap: it runs before anything else is imported.
    """
    if sys.platform == "win32":
        os.chdir(os.path.expanduser("~"))
        _redirect_stdio(log_path)
        return
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


def take_descriptor(number: int) -> int:
    """The descriptor that was handed over under this number, for nobody else from here on.

    Windows hands over handles, which the C runtime of the child knows nothing of; this one is standard error's, too.
    """
    if sys.platform == "win32":
        import _winapi
        import msvcrt

        own = _winapi.GetCurrentProcess()
        handle = _winapi.DuplicateHandle(own, number, own, 0, False, _winapi.DUPLICATE_SAME_ACCESS)
        return msvcrt.open_osfhandle(handle, os.O_WRONLY | os.O_NOINHERIT)
    os.set_inheritable(number, False)
    return number


def _redirect_stdio(log_path: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.makedirs(os.path.dirname(log_path), mode=0o700, exist_ok=True)
        log = open_files.open_to_append(log_path)
    except OSError:
        # A log that cannot be written is no reason not to serve; the daemon says so in its status.
        log = os.dup(null)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(null)
    os.close(log)


def close_inherited(keep: set[int]) -> None:
    """Close every descriptor above stdio that the starter happened to leave open. Windows hands over what was named."""
    for descriptor in _present() if sys.platform != "win32" else ():
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
