"""The start and the interruption of a bridge to an HTTP server."""

import os
from _signal import SIG_DFL, SIGINT, SIGTERM, default_int_handler, getsignal, signal  # type: ignore[import-not-found]

from hearth.bridge import stdio
from hearth.bridge.options import UsageError
from hearth.bridge.remote.carrying import Carrier
from hearth.bridge.remote.target import BadTarget, Target
from hearth.paths import home_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hearth.bridge.options import Options


def run(options: "Options") -> None:
    """Carry between the client and the server that --to names. Returns never; raises UsageError."""
    try:
        target = Target(options.to or "", home_dir())
    except BadTarget as exc:
        raise UsageError(f"--to {exc}") from exc
    stdio.make_whole()
    carrier = Carrier(options, target)
    _leave_on_signals(carrier)
    carrier.run()


def _leave_on_signals(carrier: Carrier) -> None:
    """A session is given back, within bounds, also by who is told to end; then it ends as it was told."""

    def leave(number: int, _: object) -> None:
        signal(number, SIG_DFL)
        carrier.say_goodbye()
        os.kill(os.getpid(), number)

    signal(SIGTERM, leave)
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, leave)
