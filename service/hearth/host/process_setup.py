"""Set-up of the daemon's own process: detached from its terminal and its client, its limits, and its signals.

Core dumps: none for the daemon, whose memory holds the secrets of every server; servers keep the former limit. Only the
soft limit of RLIMIT_CORE is lowered, which needs no privileges to be raised again. PR_SET_DUMPABLE is not used: it
would hide the daemon's memory figures from `hearth status`. Windows writes no core files.

Open files: the limit is read and never raised. Programs that Hearth starts inherit it, and programs that use select(2)
break above 1024.

Signals: a constant is None where the platform has no such signal.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hearth.host import private_files

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# SIGBREAK (Ctrl-Break) exists on Windows only, where no other of these can be sent to another process group.
END_SIGNALS: tuple[signal.Signals, ...] = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGBREAK") if hasattr(signal, name)
)
# In a terminal: the terminal was closed. As a service: reload the config.
HANG_UP: int | None = getattr(signal, "SIGHUP", None)
# An activated daemon asks the self-started one to hand over.
HAND_OVER: int | None = getattr(signal, "SIGUSR1", None)

_FORMER: list[int] = []
# Several threads may start servers at once, and the limit belongs to the whole process.
_LOCK = threading.Lock()


def detach(log_path: str) -> None:
    """Become a daemon: new session, no terminal, home directory, stdio to the log. Only the grandchild returns.

    On Windows the parent of a process decides whether it has a terminal: the bridge gives it none.
    The umask stays as it is: the MCP servers inherit it, and write into the user's projects.
    Standard library only and cheap: this runs before anything else is imported.
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
    """Return the descriptor that was passed under this number, not inheritable from now on.

    Windows passes handles, which the C runtime of the child does not know; this one is also standard error.
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
        log = private_files.open_to_append(log_path)
    except OSError:
        # The daemon serves even if the log cannot be written, and says so in its status.
        log = os.dup(null)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(null)
    os.close(log)


def close_inherited(keep: set[int]) -> None:
    """Close every descriptor above stdio that the parent left open, but `keep`. Windows passes only named handles."""
    for descriptor in _present() if sys.platform != "win32" else ():
        if descriptor > 2 and descriptor not in keep:
            try:
                os.close(descriptor)
            except OSError:
                pass


def _present() -> list[int]:
    # The first is Linux's, the second macOS's: a container may lack the link from one to the other.
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return [int(name) for name in os.listdir(folder)]
        except OSError:
            continue
    return list(range(3, 256))


def forbid_core_dumps() -> None:
    """Set the core limit of this process, and of processes that it forks, to 0."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    _FORMER[:] = [soft]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def restore_core_dumps() -> None:
    """Restore the limit from before `forbid_core_dumps`; call it before an exec."""
    if sys.platform == "win32" or not _FORMER:
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (_FORMER[0], resource.getrlimit(resource.RLIMIT_CORE)[1]))


@contextmanager
def core_dumps_restored() -> Iterator[None]:
    """Restore the former limit while a child is started, which inherits it at its fork.

    A function between fork and exec (`preexec_fn`) could hang on a lock of another thread; this lasts less than a
    millisecond.
    """
    if sys.platform == "win32" or not _FORMER:
        yield
        return
    import resource

    with _LOCK:
        restore_core_dumps()
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def open_files_limit() -> int | None:
    """Return the number of descriptors that may be open at a time; None where there is no limit."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


# --- signals


def outlives_terminal() -> bool:
    """Tell whether the daemon must survive its terminal: nohup(1) ignores SIGHUP, and the daemon keeps that."""
    return HANG_UP is not None and signal.getsignal(HANG_UP) is signal.SIG_IGN


def watch_signal(number: int, heard: Callable[[], None]) -> None:
    """Call `heard` in the running loop when the signal arrives."""
    import asyncio

    loop = asyncio.get_running_loop()
    if sys.platform != "win32":
        loop.add_signal_handler(number, heard)
        return
    try:
        signal.signal(number, lambda _number, _frame: _pass_on(loop, heard))
    except ValueError:
        # Not the main thread: the service manager tells a service to stop.
        pass


def hold_back_signals() -> None:
    """Block the signals that end the daemon, which is about to exit anyway.

    Ctrl-C reaches the daemon twice, from the terminal and from its orphan reaper. A loop that closes restores Python's
    own handler, and the second signal would end the process with KeyboardInterrupt instead of its exit code.
    """
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)


def _pass_on(loop: "AbstractEventLoop", heard: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(heard)
    except RuntimeError:
        # The loop is closed: the process is about to exit anyway.
        pass
