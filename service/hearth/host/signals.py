"""Signals that the daemon handles, and their delivery to its loop; None where the platform has no such signal."""

import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# SIGBREAK (Ctrl-Break) exists on Windows only, where no other of these can be sent to another process group.
END: tuple[signal.Signals, ...] = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGBREAK") if hasattr(signal, name)
)
# In a terminal: the terminal was closed. As a service: reload the config.
HANG_UP: int | None = getattr(signal, "SIGHUP", None)
# An activated daemon asks the self-started one to hand over.
HAND_OVER: int | None = getattr(signal, "SIGUSR1", None)


def outlives_terminal() -> bool:
    """Tell whether the daemon must survive its terminal: nohup(1) ignores SIGHUP, and the daemon keeps that."""
    return HANG_UP is not None and signal.getsignal(HANG_UP) is signal.SIG_IGN


def watch(number: int, heard: Callable[[], None]) -> None:
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


def hold_back() -> None:
    """Block the signals that end the daemon, which is about to exit anyway.

    Ctrl-C reaches the daemon twice, from the terminal and from its orphan reaper. A loop that closes restores Python's
    own handler, and the second signal would end the process with KeyboardInterrupt instead of its exit code.
    """
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK, END)


def _pass_on(loop: "AbstractEventLoop", heard: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(heard)
    except RuntimeError:
        # The loop is closed: the process is about to exit anyway.
        pass
