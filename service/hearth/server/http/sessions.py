"""Who uses the daemon over HTTP: legacy sessions by the ids that they were given, modern clients by who they are.

A session holds the daemon only while a request or a stream of it is open. Nobody says goodbye over HTTP, so what was
not used for a while is over.
"""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from hearth.errors import Refused
from hearth.hub.hub import Hub
from hearth.hub.sessions import Session
from hearth.server.http.outlets import HttpOutlet

# Longer than a person stays away from a conversation that is still going on.
TTL_SECONDS = 30 * 60.0
SWEEP_SECONDS = 60.0
_ID_BYTES = 24

Key = TypeVar("Key")


class Who(NamedTuple):
    """Who sends a request: the user, what its agent claims to be, and what of the daemon it wants to see."""

    uid: int
    role: str | None = None
    agent: str | None = None
    server: str | None = None
    mode: str | None = None


class HttpSession:
    """One session of the hub, and its streams."""

    def __init__(self, hub: Hub, who: Who, session: Session, outlet: HttpOutlet, now: Callable[[], float]) -> None:
        self.who = who
        self.session = session
        self.outlet = outlet
        self._hub = hub
        self._now = now
        self._open = 0
        self.used_at = now()

    @property
    def exchanges(self) -> int:
        """How many requests and streams of it are being served."""
        return self._open

    @property
    def is_open(self) -> bool:
        """Whether a request or a stream of it is being served."""
        return self._open > 0

    def begin(self) -> None:
        """A request or a stream begins."""
        self._open += 1
        if self._open == 1:
            self._hub.sessions.came_back(self.session)

    def done(self) -> None:
        """One has ended."""
        self._open -= 1
        self.used_at = self._now()
        if not self._open:
            self._hub.sessions.fell_silent(self.session)


class HttpSessions:
    """All of them. `limits` tells how many there may be, and how many bytes may wait on a stream."""

    def __init__(self, hub: Hub, limits: Callable[[], tuple[int, int]], now: Callable[[], float]) -> None:
        self._hub = hub
        self._limits = limits
        self._now = now
        self._legacy: dict[str, HttpSession] = {}
        self._modern: dict[Who, HttpSession] = {}

    def __iter__(self) -> Iterator[HttpSession]:
        return iter([*self._legacy.values(), *self._modern.values()])

    def open_legacy(self, who: Who) -> tuple[str, HttpSession]:
        """A new session, and the id by which its client will name it. Raises Refused."""
        id = os.urandom(_ID_BYTES).hex()
        found = self._legacy[id] = self._open(who, resumable=True)
        return id, found

    def find(self, id: str, who: Who) -> HttpSession | None:
        """The session of that id, if it is this user's, and of the same server."""
        found = self._legacy.get(id)
        return found if found and (found.who.uid, found.who.server) == (who.uid, who.server) else None

    def end(self, id: str) -> None:
        """Its client has no more use for it, or it never came to be one."""
        found = self._legacy.pop(id, None)
        if found:
            self._close(found)

    def modern(self, who: Who) -> HttpSession:
        """What the requests of one client have in common. Raises Refused."""
        found = self._modern.get(who)
        if found is None:
            found = self._open(who, resumable=False)
            found.session.stateless = True
            self._modern[who] = found
        return found

    def _open(self, who: Who, resumable: bool) -> HttpSession:
        most, bytes_limit = self._limits()
        if len(self._legacy) + len(self._modern) >= most:
            self.sweep(0.0)
        if len(self._legacy) + len(self._modern) >= most:
            raise Refused(f"{most} sessions are open already (max_connections)")
        outlet = HttpOutlet(bytes_limit, resumable)
        session = self._hub.open_session(outlet, "http", who.server, mode=who.mode)
        session.role, session.agent_id = who.role, who.agent
        found = HttpSession(self._hub, who, session, outlet, self._now)
        # It holds nothing by being there.
        self._hub.sessions.fell_silent(session)
        return found

    def sweep(self, patience: float = TTL_SECONDS) -> None:
        """End those that nobody has used for a while."""
        oldest = self._now() - patience
        self._legacy = self._swept(self._legacy, oldest)
        self._modern = self._swept(self._modern, oldest)

    def _swept(self, found: dict[Key, HttpSession], oldest: float) -> dict[Key, HttpSession]:
        for each in [each for each in found.values() if _is_stale(each, oldest)]:
            self._close(each)
        return {key: each for key, each in found.items() if not each.session.left}

    def _close(self, found: HttpSession) -> None:
        found.outlet.end_all()
        self._hub.close_session(found.session)


def _is_stale(found: HttpSession, oldest: float) -> bool:
    return not found.is_open and found.used_at <= oldest
