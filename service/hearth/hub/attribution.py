"""Who caused what a server says of its own accord.

A legacy server on stdio names no request. What it says belongs to a session only if that session alone has requests in
flight on that instance, or if nobody else has ever used it. A call that was given up counts for as long as the server
may go on with it all the same. Over HTTP the stream tells exactly. Anything else is ambiguous, and never guessed.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hearth.hub.calls import Call
from hearth.hub.sessions import Session
from hearth.mcp import input_required, versions
from hearth.upstreams.connection import Connection
from hearth.upstreams.instance import Instance

if TYPE_CHECKING:
    from hearth.hub.suspended_call import SuspendedCall


def causing_call(connection: Connection, cause: int | None, asks: bool = False) -> "Call | SuspendedCall | None":
    """The one call that a message can belong to: of several of one session, the oldest.

    `asks`: the message is a question, so the oldest whose client can be asked something, if there is one; before those
    that are parked, whose client may never come back. If another was meant, the same person is asked.
    """
    if cause is not None:
        return _call(connection.waiter(cause))
    calls = [call for waiter in connection.waiters() if (call := _call(waiter))]
    if not calls or any(call.session is not calls[0].session for call in calls):
        return None
    given_up = connection.abandoned.owners() if connection.abandoned else set()
    if given_up - {calls[0].session.id}:
        return None
    if not asks:
        return calls[0]
    askable = list(filter(may_be_asked, calls)) or calls
    return next((call for call in askable if isinstance(call, Call) or call.call), askable[0])


def calls_of(session: Session, connection: Connection) -> "Iterator[Call | SuspendedCall]":
    """The session's calls there, the oldest first."""
    calls = (call for waiter in connection.waiters() if (call := _call(waiter)))
    return (call for call in calls if call.session is session)


def may_be_asked(call: "Call | SuspendedCall") -> bool:
    """Whether a client can be asked something in the midst of that call."""
    return not isinstance(call, Call) or call.era == versions.LEGACY or call.method in input_required.MAY_REQUIRE


def _call(waiter: object) -> "Call | SuspendedCall | None":
    """A client's call, parked or not; Hearth's own requests are nobody's."""
    return waiter if getattr(waiter, "session", None) else None  # type: ignore[return-value]  # no others have one


def sole_session(instance: Instance) -> Session | None:
    """The only session that has ever used the instance, if it still does, or for which alone it is being started."""
    owner = instance.owner
    if isinstance(owner, Session) and not owner.left:
        return owner
    holder = next(iter(instance.holders), None) if len(instance.ever) == 1 else None
    return holder if isinstance(holder, Session) else None
