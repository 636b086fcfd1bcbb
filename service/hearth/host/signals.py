"""Which signal means what to the daemon, and how its loop hears of one; None where the platform has no such signal."""

import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# Ctrl-Break is Windows's, and the only one of them that another process can send to a group there.
END: tuple[signal.Signals, ...] = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGBREAK") if hasattr(signal, name)
)
# In a terminal: it was closed. As a service: read the config again.
HANG_UP: int | None = getattr(signal, "SIGHUP", None)
# An activated daemon asks the self-started one to hand over.
HAND_OVER: int | None = getattr(signal, "SIGUSR1", None)


def outlives_terminal() -> bool:
    """Whether whoever started us has said so: nohup(1) has the hang-up ignored, and that is to stay."""
    return HANG_UP is not None and signal.getsignal(HANG_UP) is signal.SIG_IGN


def watch(number: int, heard: Callable[[], None]) -> None:
    """Call back in the running loop when the signal comes."""
    import asyncio

    loop = asyncio.get_running_loop()
    if sys.platform != "win32":
        loop.add_signal_handler(number, heard)
        return
    try:
        signal.signal(number, lambda _number, _frame: _pass_on(loop, heard))
    except ValueError:
        # Not the main thread: a service is told to stop by its manager.
        pass


def hold_back() -> None:
    """Block the signals that end the daemon, which is about to end anyway.

    Ctrl-C reaches the daemon twice, from the terminal and from its watcher. A loop that closes restores Python's own
    handler, and the second one would end the process with KeyboardInterrupt instead of its exit code.
    """
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK, END)


def _pass_on(loop: "AbstractEventLoop", heard: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(heard)
    except RuntimeError:
        # The loop is closed: it is about to end anyway.
        pass
