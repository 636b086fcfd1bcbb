"""Store of suspended calls: calls of modern clients on legacy servers that wait for their client's answers.

The behaviour of one such call is in `suspended_call`, which is loaded with the first: few servers ask.
"""

import os
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from hearth.errors import MessageError, Refused
from hearth.hub.calls import Call
from hearth.hub.sessions import Session
from hearth.mcp import versions
from hearth.upstreams.connection import Connection
from hearth.wire import json, values

if TYPE_CHECKING:
    from hearth.hub.suspended_call import SuspendedCall
    from hearth.mcp.request_state import Seal


class SuspendedCalls:
    """Suspended calls of this daemon. `patience` and `limit` are the config's; `attached` is called for every retry."""

    def __init__(
        self, patience: Callable[[], float], limit: Callable[[], int], attached: Callable[[Call], None]
    ) -> None:
        self.attached = attached
        self._seal: Seal | None = None
        self._patience = patience
        self._limit = limit
        self._suspended: dict[str, SuspendedCall] = {}

    @property
    def seal(self) -> "Seal":
        """Seal that tells Hearth's own states from those of others."""
        if self._seal is None:
            from hearth.mcp.request_state import KEY_BYTES, Seal

            self._seal = Seal(os.urandom(KEY_BYTES))
        return self._seal

    def __len__(self) -> int:
        return len(self._suspended)

    def take(self, call: Call) -> "SuspendedCall":
        """Return the call in suspendable form. Raises Refused if its client has too many suspended calls already."""
        if call.suspended:
            return call.suspended
        if sum(held.session is call.session for held in self._suspended.values()) >= self._limit():
            raise Refused(f"{self._limit()} calls wait for this client's input already (parked_limit)")
        from hearth.hub.suspended_call import SuspendedCall

        suspended = SuspendedCall(self, call, self._patience())
        assert call.attempt is not None
        call.attempt.connection.replace(call.attempt.id, suspended)
        return suspended

    def retry(self, call: Call, method: str, params: json.Fields) -> bool:
        """Attach the retry of a suspended call; return False for any other. Raises StateRefused, MessageError."""
        if "requestState" not in params:
            return False
        state = values.text(params["requestState"])
        if state is None:
            raise MessageError("params.requestState must be a string", versions.INVALID_PARAMS)
        from hearth.mcp import request_state

        digest = request_state.digest(method, params)
        token = self.seal.open(state, call.session.id, method, digest, monotonic())
        if token is None:
            return False
        key, _, round = token.rpartition(".")
        held = self._suspended.get(key)
        if held is None:
            raise request_state.StateRefused(request_state.SPENT)
        held.retry(call, int(round), params)
        return True

    def keep(self, suspended: "SuspendedCall") -> None:
        """Add a call that waits for its client."""
        self._suspended[suspended.token] = suspended

    def remove(self, suspended: "SuspendedCall") -> None:
        """Remove a call that has ended."""
        self._suspended.pop(suspended.token, None)

    def session_left(self, session: Session) -> None:
        """Cancel the calls of a session that has left."""
        for held in [held for held in self._suspended.values() if held.session is session]:
            held.cancelled()

    def completed(self, connection: Connection | None, elicitation: str) -> None:
        """Record a server's notice that an elicitation by URL is complete."""
        for held in list(self._suspended.values()):
            if held.is_on(connection):
                held.completed(elicitation)

    def server_ended(self) -> None:
        """Stop waiting for notices of servers whose process has ended."""
        for held in list(self._suspended.values()):
            held.stop_waiting_for_the_gone()
