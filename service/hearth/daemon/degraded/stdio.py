"""The degraded daemon for one client on standard input and output: it cannot serve, so it says why.

Clients show the error that answers their first request, and hide what a server writes to standard error. Standard
library only, as for the others.
"""

import signal

from hearth.daemon.degraded.core import Lines, answer_to, describe, exit_code_of
from hearth.host.stdio import Streams, say
from hearth.wire.frames import MESSAGE_LIMIT_BYTES


def run(streams: Streams, cause: Exception) -> int:
    """Explain `cause` until the client has said everything. Returns the exit code, which tells it to scripts."""
    # Nothing is in hand that would have to be brought to an end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    reason = describe(cause)
    say(f"hearth: {reason}")
    try:
        _explain(streams, reason)
    except OSError:
        # Nobody reads any more.
        pass
    return exit_code_of(cause)


def _explain(streams: Streams, reason: str) -> None:
    lines = Lines()
    while lines.size <= MESSAGE_LIMIT_BYTES and (data := streams.read()):
        _answer(streams, lines.receive(data), reason)
    _answer(streams, [lines.rest()], reason)


def _answer(streams: Streams, lines: list[bytes], reason: str) -> None:
    for answer in [answer_to(line, reason) for line in lines if line.strip()]:
        if answer is not None:
            streams.write(answer + b"\n")
