"""Degraded daemon for one client on standard input and output: it answers every request with the reason.

Clients show the error that answers their first request, but hide a server's standard error. Standard library only, as
in the rest of this package.
"""

import signal

from hearth.daemon.degraded.core import Lines, answer_to, describe, exit_code_of
from hearth.host.stdio import Streams, say
from hearth.wire.frames import MESSAGE_LIMIT_BYTES


def run(streams: Streams, cause: Exception) -> int:
    """Explain `cause` until the client closes its end, and return the exit code, which tells scripts the cause."""
    # No work is pending that would have to be finished first.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    reason = describe(cause)
    say(f"hearth: {reason}")
    try:
        _explain(streams, reason)
    except OSError:
        # The client has stopped reading.
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
