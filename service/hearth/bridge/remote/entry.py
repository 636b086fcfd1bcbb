"""The start and the interruption of a bridge to an HTTP server."""

import os
import sys
from _signal import SIG_DFL, SIGINT, SIGTERM, default_int_handler, getsignal, signal  # type: ignore[import-not-found]
from _thread import start_new_thread
from time import sleep

from hearth.bridge import client_io
from hearth.bridge.options import UsageError
from hearth.bridge.remote.carrying import Carrier
from hearth.bridge.remote.target import BadTarget, Target
from hearth.paths import home_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hearth.bridge.options import Options


# Longer than a client takes for its first question.
_PRELOAD_DELAY_SECONDS = 0.5


def run(options: "Options") -> None:
    """Carry between the client and the server that --to names. Returns never; raises UsageError."""
    try:
        target = Target(options.to or "", home_dir())
    except BadTarget as exc:
        raise UsageError(f"--to {exc}") from exc
    client_io.make_whole()
    carrier = Carrier(options, target)
    _leave_on_signals(carrier)
    start_new_thread(_preload, ())
    carrier.run()


def _preload() -> None:
    """Load what trouble will need, behind the first question: later an upgrade may have taken the files away."""
    sleep(_PRELOAD_DELAY_SECONDS)
    try:
        if sys.platform == "win32":
            from hearth.bridge import spawn_windows  # noqa: F401
        else:
            from hearth.bridge import spawn_posix  # noqa: F401
    except Exception as exc:
        client_io.remark(f"a part of the bridge cannot be loaded: {exc}")


def _leave_on_signals(carrier: Carrier) -> None:
    """A session is given back, within bounds, also by who is told to end; then it ends as it was told."""
    if sys.platform == "win32":
        _handle_signals(carrier)
        return
    from _signal import SIG_BLOCK, SIGHUP, pthread_sigmask

    # What is ignored stays so, as nohup(1) has it for a terminal that is closed.
    numbers = {number for number in (SIGTERM, SIGINT, SIGHUP) if getsignal(number) in (SIG_DFL, default_int_handler)}
    for number in numbers:
        signal(number, SIG_DFL)
    # A handler would wait for the thread that reads the client: a signal that comes just before its next read would be
    # heard only when the client says something.
    pthread_sigmask(SIG_BLOCK, numbers)
    start_new_thread(_leave_on_signal, (carrier, numbers))


def _leave_on_signal(carrier: Carrier, numbers: set[int]) -> None:
    if sys.platform != "win32":
        from _signal import SIG_UNBLOCK, pthread_sigmask, sigwait

        number = sigwait(numbers)
        # Another one ends it at once.
        pthread_sigmask(SIG_UNBLOCK, numbers)
        carrier.say_goodbye()
        os.kill(os.getpid(), number)


def _handle_signals(carrier: Carrier) -> None:
    def leave(number: int, _: object) -> None:
        signal(number, SIG_DFL)
        carrier.say_goodbye()
        os.kill(os.getpid(), number)

    signal(SIGTERM, leave)
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, leave)
