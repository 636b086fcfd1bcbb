"""Rate limits over HTTP.

A client may open any number of connections, so the limits hold for sessions: a legacy one by its id, a modern one by
the identity that it claims. New sessions are counted for all clients at the ports, and for all on the socket: otherwise
every message could begin one. Requests for the daemon's status are counted in the same way, but separately: too many
of them keep no client from opening a session.
"""

import functools
import logging

from hearth.config import Config
from hearth.daemon import rate_limit
from hearth.daemon.http.responses import Headers
from hearth.daemon.http.sessions import HttpSession
from hearth.daemon.rate_limit import Limits, RateLimiter
from hearth.daemon.services import DaemonServices
from hearth.errors import OverLimit
from hearth.wire import json

log = logging.getLogger(__name__)


class Gates:
    """Rate limiters of all HTTP clients. `is_far` is True for clients at a port, False for those on the socket."""

    def __init__(self, services: DaemonServices) -> None:
        self._services = services
        self._doors: dict[bool, RateLimiter] = {}
        self._looks: dict[bool, RateLimiter] = {}
        self._read(services.config)

    def _read(self, config: Config) -> None:
        self._config = config
        self._limits = {False: rate_limit.near(config), True: rate_limit.far(config)}

    def _wanted(self, is_far: bool) -> Limits | None:
        if self._services.config is not self._config:
            self._read(self._services.config)
        return self._limits[is_far]

    def _gate(self, gates: dict[bool, RateLimiter], is_far: bool, wanted: Limits, name: str) -> RateLimiter:
        found = gates.get(is_far)
        if found is None:
            found = gates[is_far] = RateLimiter(
                wanted, self._services.now, functools.partial(log.warning, "%s: %s", name)
            )
        elif found.limits is not wanted:
            found.settle(wanted)
        return found

    def admitted(
        self, found: HttpSession, is_far: bool, message: json.Message | json.Batch
    ) -> json.Message | json.Batch:
        """Return the message, or the part of it that may pass. Raises OverLimit."""
        wanted = self._wanted(is_far)
        if wanted is None:
            return message
        admitted = self._of_session(found, is_far, wanted).admitted(message, len(found.session.open))
        if isinstance(admitted, json.Batch):
            refused = [each for each in admitted.items if isinstance(each, OverLimit)]
            if refused and len(refused) == len(admitted.items):
                # Refused as a whole: a batch has no id of its own.
                raise OverLimit(str(refused[0]), refused[0].reason, None, refused[0].retry_after)
        elif not isinstance(admitted, json.Message):
            raise admitted
        return admitted

    def _of_session(self, found: HttpSession, is_far: bool, wanted: Limits) -> RateLimiter:
        return self._gate(found.gates, is_far, wanted, f"the client of session {found.session.id} over HTTP")

    def check_stream(self, found: HttpSession, is_far: bool) -> None:
        """Raise OverLimit if a session may not open a stream for now; a stream counts as a message."""
        wanted = self._wanted(is_far)
        refusal = wanted and self._of_session(found, is_far, wanted).asking("message")
        if refusal:
            raise refusal

    def check_look(self, is_far: bool) -> None:
        """Raise OverLimit if there are too many requests for the daemon's status."""
        wanted = self._wanted(is_far)
        name = f"/status and /metrics {_door(is_far)}"
        refusal = wanted and self._gate(self._looks, is_far, wanted, name).asking("request")
        if refusal:
            raise refusal

    def check_opening(self, is_far: bool, id: bytes | None = None) -> None:
        """Raise OverLimit, for the request of that id, if there are too many new sessions for now."""
        wanted = self._wanted(is_far)
        refusal = wanted and self._gate(self._doors, is_far, wanted, f"clients {_door(is_far)}").opening(id)
        if refusal:
            raise refusal


def _door(is_far: bool) -> str:
    return "at a port" if is_far else "on the socket, over HTTP"


def retry_after(problem: OverLimit) -> Headers:
    """Return the Retry-After header, in whole seconds (RFC 9110, 10.2.3)."""
    return [(b"retry-after", b"%d" % problem.retry_after)]
