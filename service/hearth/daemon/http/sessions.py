"""Who uses the daemon over HTTP: legacy sessions by the ids that they were given, modern clients by who they are.

A session holds the daemon only while a request or a stream of it is open. Nobody says goodbye over HTTP, so what was
not used for a while is over. A legacy one outlives the daemon: when its client comes back, all is set as it was.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from hearth.daemon.http.client_identity import ClientIdentity
from hearth.daemon.http.replay import Total
from hearth.daemon.http.session_store import SessionJournal, SessionRecord, SessionStore
from hearth.daemon.http.sink import REPLAYED, HttpSink
from hearth.daemon.rate_limit import RateLimiter
from hearth.errors import MessageError, Refused
from hearth.hub.hub import Hub
from hearth.hub.sessions import Session
from hearth.wire import json

log = logging.getLogger(__name__)

# Longer than a person stays away from a conversation that is still going on.
TTL_SECONDS = 30 * 60.0
SWEEP_SECONDS = 60.0
_ID_BYTES = 24

Key = TypeVar("Key")


class HttpSession:
    """One session of the hub, and its streams. `book`: it outlives the daemon."""

    def __init__(
        self,
        hub: Hub,
        who: ClientIdentity,
        session: Session,
        sink: HttpSink,
        now: Callable[[], float],
        book: SessionJournal | None = None,
    ) -> None:
        self.who = who
        self.session = session
        self.sink = sink
        self.book = book
        self._hub = hub
        self._now = now
        self._open = 0
        # What may be sent in it, by the door that it comes through.
        self.gates: dict[bool, RateLimiter] = {}
        self.used_at = now()
        # Somebody has done more with it than open it.
        self.is_used = False

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

    def use(self) -> None:
        """Its client does more than open it: from now on those that were only opened make room before it."""
        if not self.is_used:
            self.is_used = True
            if self.book:
                self.book.use()

    def remember(self) -> None:
        """Have it said on disk how things are. Not done with every request."""
        if self.book:
            ago = 0.0 if self.is_open else self._now() - self.used_at
            self.book.note(time.time() - ago, self.session.roots)


class HttpSessions:
    """All of them. `limits` tells how many there may be, and how many bytes may wait on a stream."""

    def __init__(
        self, hub: Hub, limits: Callable[[], tuple[int, int]], now: Callable[[], float], kept: SessionStore
    ) -> None:
        self._hub = hub
        self._limits = limits
        self._now = now
        self._kept = kept
        self._legacy: dict[str, HttpSession] = {}
        self._modern: dict[ClientIdentity, HttpSession] = {}
        # What is kept for clients who come back.
        self._total = Total()
        self._has_told = False

    def __iter__(self) -> Iterator[HttpSession]:
        return iter([*self._legacy.values(), *self._modern.values()])

    def open_legacy(self, who: ClientIdentity, is_kept: bool = True) -> tuple[str, HttpSession]:
        """A new session, and the id by which its client will name it. Raises Refused."""
        id = os.urandom(_ID_BYTES).hex()
        book = SessionJournal(self._kept, id, SessionRecord(who, {})) if is_kept else None
        found = self._legacy[id] = self._open(who, id, book)
        return id, found

    def find(self, id: str, who: ClientIdentity) -> HttpSession | None:
        """The session of that id, if it is here, and this user's, and of the same server."""
        found = self._legacy.get(id)
        return found if found and who.may_use(found.who) else None

    def resume(self, id: str, who: ClientIdentity) -> HttpSession | None:
        """The same; one that a former daemon has left goes on here. Raises Refused when there is no room for it."""
        if id in self._legacy:
            return self.find(id, who)
        record = self._kept.read(id)
        return self._restore(id, record) if record and who.may_use(record.who) else None

    def _restore(self, id: str, record: SessionRecord) -> HttpSession | None:
        """Nothing is waited for in here: of several requests at once, the first restores it. Raises Refused."""
        found = self._legacy[id] = self._open(record.who, id, SessionJournal(self._kept, id, record))
        found.use()
        if record.roots is not None:
            found.session.know_roots(record.roots)
        try:
            self._replay(found.session, [json.parse(line) for line in record.lines.values()])
        except MessageError as exc:
            log.warning("a session over HTTP cannot go on: %s", exc)
            self.end(id, record.who)
            return None
        log.info("the session goes on here", extra={"session": found.session.id})
        return found

    def _replay(self, session: Session, messages: list[json.Message]) -> None:
        """Raises MessageError when it did not come to be one by that."""
        for message in messages:
            if message.id is not None:
                # Its client has the answer, and may use the id again.
                message.id = json.dumps(os.urandom(8).hex())
            self._hub.receive(session, REPLAYED, message, resent=False, replay=True)
        if session.era is None:
            raise MessageError("what was kept of it has no opening")

    def end(self, id: str, who: ClientIdentity) -> bool:
        """Its client has no more use for it, or it never came to be one. Whether there was one."""
        found = self.find(id, who)
        if found:
            del self._legacy[id]
            self._close(found)
            return True
        record = None if id in self._legacy else self._kept.read(id)
        if record is None or not who.may_use(record.who):
            return False
        self._kept.remove(id)
        return True

    def knows(self, who: ClientIdentity) -> bool:
        """Whether that modern client was here before."""
        return who in self._modern

    def modern(self, who: ClientIdentity) -> HttpSession:
        """What the requests of one client have in common. Raises Refused."""
        found = self._modern.get(who)
        if found is None:
            found = self._open(who, None)
            found.session.share()
            self._modern[who] = found
        return found

    def _open(self, who: ClientIdentity, id: str | None, book: SessionJournal | None = None) -> HttpSession:
        """Without an id nobody can come back for what was missed."""
        most, bytes_limit = self._limits()
        self._make_room(most)
        if len(self._legacy) + len(self._modern) >= most:
            raise Refused(f"{most} sessions are open already (max_connections)")
        sink = HttpSink(bytes_limit, id is not None, book, id or "", self._total)
        session = self._hub.open_session(sink, "http", who.server, mode=who.mode)
        session.identify(role=who.role, agent_id=who.agent)
        found = HttpSession(self._hub, who, session, sink, self._now, book)
        # It holds nothing by being there.
        self._hub.sessions.fell_silent(session)
        return found

    def sweep(self) -> None:
        """End those that nobody has used for a while; of the others it is said on disk how things are."""
        self._has_told = False
        oldest = self._now() - TTL_SECONDS
        self._legacy = self._used_since(self._legacy, oldest)
        self._modern = self._used_since(self._modern, oldest)
        for found in self:
            found.sink.sweep()
        # First: a machine that slept has lost more time than its sessions have.
        self.remember()
        self._kept.sweep()

    def remember(self) -> None:
        """Have it said on disk how things are."""
        for found in self._legacy.values():
            found.remember()

    def _used_since(self, found: dict[Key, HttpSession], oldest: float) -> dict[Key, HttpSession]:
        """Those of them that were used since; the others are ended."""
        unused = {key for key, each in found.items() if not each.is_open and each.used_at <= oldest}
        for key in unused:
            self._close(found[key])
        return {key: each for key, each in found.items() if key not in unused}

    def _make_room(self, most: int) -> None:
        """Let go of those that were only opened, then of those that were used longest ago.

        A legacy one comes back from disk when its client does.
        """
        excess = len(self._legacy) + len(self._modern) - most + 1
        if excess <= 0:
            return
        # With a call in flight only if there is no other: it would be cancelled.
        idle = sorted(
            (each for each in self if not each.is_open),
            key=lambda each: (bool(each.session.open), each.is_used, each.used_at),
        )
        gone = set(idle[:excess])
        if gone and not self._has_told:
            # Once a minute: one goes for each that comes.
            self._has_told = True
            log.info("sessions over HTTP make room for others (max_connections); they come back when they are used")
        for each in gone:
            each.remember()
            self._let_go(each)
        self._legacy = {id: each for id, each in self._legacy.items() if each not in gone}
        self._modern = {who: each for who, each in self._modern.items() if each not in gone}

    def _close(self, found: HttpSession) -> None:
        if found.book:
            found.book.end()
        self._let_go(found)

    def _let_go(self, found: HttpSession) -> None:
        found.sink.end_all()
        self._hub.close_session(found.session)
