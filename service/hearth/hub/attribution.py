"""Who caused what a server says of its own accord.

A legacy server on stdio names no request. What it says belongs to a session only if that session alone has requests in
flight on that instance, or if nobody else has ever used it. Over HTTP the stream tells exactly. Anything else is
ambiguous, and never guessed.
"""

from hearth.hub.calls import Call
from hearth.hub.parking import ParkedCall
from hearth.hub.sessions import Session
from hearth.upstreams.connection import Connection
from hearth.upstreams.instance import Instance


def causing_call(connection: Connection, cause: int | None) -> Call | ParkedCall | None:
    """The one call that a message can belong to: of several of one session, the oldest."""
    if cause is not None:
        waiter = connection.waiter(cause)
        return waiter if isinstance(waiter, Call | ParkedCall) else None
    calls = [waiter for waiter in connection.waiters() if isinstance(waiter, Call | ParkedCall)]
    return calls[0] if calls and all(call.session is calls[0].session for call in calls) else None


def sole_session(instance: Instance) -> Session | None:
    """The only session that has ever used the instance, if it still does."""
    holder = next(iter(instance.holders), None) if len(instance.ever) == 1 else None
    return holder if isinstance(holder, Session) else None
