"""Protocols between calls and the policy. Loads nothing of `hearth.policy`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from hearth.errors import HearthError

if TYPE_CHECKING:
    from hearth.hub.authorization.decided_call import Standing
    from hearth.hub.calls import Call


class Postponed(HearthError):
    """Order of an authorizer to wait: `wait` makes the call by `again`, or answers it."""

    async def wait(self, call: "Call", again: Callable[[], None]) -> None:
        """Wait for what the call needs. Raises nothing: a failure is the call's answer."""
        raise NotImplementedError


class CallPermit(Protocol):
    """Protocol for the policy's decision about a call."""

    def fits(self, standing: "Standing", name: tuple[str, str]) -> bool:
        """Tell whether the decision still holds for a call of that server's tool."""

    def finished(self, payload: bytes, id: bytes) -> None:
        """Take the end of the call: this answer was sent to the request of that id."""

    def cancelled(self) -> None:
        """Take the end of a call that its client has cancelled."""
