"""Sessions over HTTP: legacy sessions by the ids that they were given, modern clients by their identity.

A session keeps the daemon running only while one of its requests or streams is open. HTTP clients do not say goodbye,
so a session that was unused for a while ends. A legacy session outlives the daemon: when its client returns, the next
daemon restores its state.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from hearth.daemon.client_limits import RateLimiter
from hearth.daemon.http.session_store import ClientIdentity, SessionJournal, SessionRecord, SessionStore
from hearth.daemon.http.sink import REPLAYED, HttpSink
from hearth.daemon.http.streams import Total
from hearth.errors import MessageError, Refused
from hearth.hub.hub import Hub
from hearth.hub.sessions import Session, digest
from hearth.wire import json

log = logging.getLogger(__name__)

# Longer than the pauses that a person makes in a conversation.
TTL_SECONDS = 30 * 60.0
SWEEP_SECONDS = 60.0
_ID_BYTES = 24

Key = TypeVar("Key")


class HttpSession:
    """Session of the hub over HTTP, with its streams. A session with a `book` outlives the daemon."""

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
        # The number of its requests and streams that are being served.
        self.exchanges = 0
        # The rate limiters of this session: True for requests at a port, False for those on the socket.
        self.gates: dict[bool, RateLimiter | None] = {}
        self.used_at = now()
        # The client has done more than open the session.
        self.is_used = False

    @property
    def is_open(self) -> bool:
        """Whether one of its requests or streams is being served."""
        return self.exchanges > 0

    def begin(self) -> None:
        """Count a request or a stream that begins."""
        self.exchanges += 1
        if self.exchanges == 1:
            self._hub.sessions.came_back(self.session)

    def done(self) -> None:
        """Count a request or a stream that has ended."""
        self.exchanges -= 1
        self.used_at = self._now()
        if not self.exchanges:
            self._hub.sessions.fell_silent(self.session)

    def use(self) -> None:
        """Note that the client does more than open the session; sessions that were only opened make room first."""
        if not self.is_used:
            self.is_used = True
            if self.book:
                self.book.use()

    def remember(self) -> None:
        """Save the state of the session on disk. Not called with every request."""
        if self.book:
            ago = 0.0 if self.is_open else self._now() - self.used_at
            self.book.note(time.time() - ago, self.session.roots)


class HttpSessions:
    """All HTTP sessions. `limits` returns the limit of their number, and that of the bytes that wait on a stream."""

    def __init__(
        self, hub: Hub, limits: Callable[[], tuple[int, int]], now: Callable[[], float], kept: SessionStore
    ) -> None:
        self._hub = hub
        self._limits = limits
        self._now = now
        self._kept = kept
        self._legacy: dict[str, HttpSession] = {}
        self._modern: dict[ClientIdentity, HttpSession] = {}
        # The size of all replay buffers.
        self._total = Total()
        self._has_told = False

    def __iter__(self) -> Iterator[HttpSession]:
        return iter([*self._legacy.values(), *self._modern.values()])

    def open_legacy(self, who: ClientIdentity, is_kept: bool = True) -> tuple[str, HttpSession]:
        """Open a session and return it with the id by which its client will name it. Raises Refused."""
        id = os.urandom(_ID_BYTES).hex()
        book = SessionJournal(self._kept, id, SessionRecord(who, {})) if is_kept else None
        found = self._legacy[id] = self._open(who, id, book)
        return id, found

    def find(self, id: str, who: ClientIdentity) -> HttpSession | None:
        """Return the session of that id if this daemon has it, for the same user and the same server."""
        found = self._legacy.get(id)
        return found if found and who.may_use(found.who) else None

    def resume(self, id: str, who: ClientIdentity) -> HttpSession | None:
        """Return the session of that id as `find` does, or restore it from a former daemon.

        Raises Refused if there is no room for it.
        """
        if id in self._legacy:
            return self.find(id, who)
        record = self._kept.read(id)
        return self._restore(id, record) if record and who.may_use(record.who) else None

    def _restore(self, id: str, record: SessionRecord) -> HttpSession | None:
        """Restore a session from its record. Raises Refused.

        There is no `await` here: of several requests at once, the first restores the session.
        """
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
        """Replay the kept lines. Raises MessageError if they do not initialize the session."""
        for message in messages:
            if message.id is not None:
                # The client has the answer already, and may use the id again.
                message.id = json.dumps(os.urandom(8).hex())
            self._hub.receive(session, REPLAYED, message, resent=False, replay=True)
        if session.era is None:
            raise MessageError("what was kept of it has no opening")

    def end(self, id: str, who: ClientIdentity) -> bool:
        """End a session that its client no longer needs or that was never initialized; tell whether there was one."""
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
        """Tell whether that modern client has a session."""
        return who in self._modern

    def modern(self, who: ClientIdentity) -> HttpSession:
        """Return the session that all requests of one modern client share. Raises Refused."""
        found = self._modern.get(who)
        if found is None:
            found = self._open(who, None)
            found.session.share()
            self._modern[who] = found
        return found

    def _open(self, who: ClientIdentity, id: str | None, book: SessionJournal | None = None) -> HttpSession:
        """Open a session. Without an id its streams cannot be resumed. Raises Refused."""
        most, bytes_limit = self._limits()
        self._make_room(most)
        if len(self._legacy) + len(self._modern) >= most:
            raise Refused(f"{most} sessions are open already (max_connections)")
        sink = HttpSink(bytes_limit, id is not None, book, id or "", self._total)
        session = self._hub.open_session(
            sink, "http", who.server, mode=who.mode, proven=(who.token_role, who.token_agent)
        )
        session.identify(role=who.role, agent_id=who.agent)
        # Approvals outlive the daemon, and so must their principal: a legacy client knows its id, others what they are.
        session.act_as(digest(f"http {id}" if id else f"http {who}"))
        found = HttpSession(self._hub, who, session, sink, self._now, book)
        # An idle session does not keep the daemon running.
        self._hub.sessions.fell_silent(session)
        return found

    def sweep(self) -> None:
        """End the sessions that were unused for a while, and save the state of the others on disk."""
        self._has_told = False
        oldest = self._now() - TTL_SECONDS
        self._legacy = self._used_since(self._legacy, oldest)
        self._modern = self._used_since(self._modern, oldest)
        for found in self:
            found.sink.sweep()
        # Before the sweep on disk: after a suspend of the machine, the wall clock has advanced more than the loop's
        # clock, by which the sessions are still in use.
        self.remember()
        self._kept.sweep()

    def remember(self) -> None:
        """Save the state of all legacy sessions on disk."""
        for found in self._legacy.values():
            found.remember()

    def _used_since(self, found: dict[Key, HttpSession], oldest: float) -> dict[Key, HttpSession]:
        """Return the sessions that were used since `oldest`, and end the others."""
        unused = {key for key, each in found.items() if not each.is_open and each.used_at <= oldest}
        for key in unused:
            self._close(found[key])
        return {key: each for key, each in found.items() if key not in unused}

    def _make_room(self, most: int) -> None:
        """Release sessions that were only opened, then the least recently used ones.

        A legacy session is restored from disk when its client returns.
        """
        excess = len(self._legacy) + len(self._modern) - most + 1
        if excess <= 0:
            return
        # A session with a call in flight only if there is no other: the call would be cancelled.
        idle = sorted(
            (each for each in self if not each.is_open),
            key=lambda each: (bool(each.session.open), each.is_used, each.used_at),
        )
        gone = set(idle[:excess])
        if gone and not self._has_told:
            # Once a minute: each new session releases another.
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
