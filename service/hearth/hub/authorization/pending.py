"""Table of everything that waits for a lead or a person: approvals, and permission requests of agents.

There is one per daemon, with or without a policy. An item is settled once; its waiters are woken, and so are those that
wait for a change of the table. An item describes itself, and knows how it is decided; the table does not know what the
items mean. Memory only; loads nothing of `hearth.policy`.
"""

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from hearth.errors import NoRoom, Refused
from hearth.hub.events import EVENTS, ApprovalDecided, ApprovalRequested
from hearth.hub.sessions import Session
from hearth.masking import escaped, everywhere

log = logging.getLogger(__name__)

# A client that has this many open requests is in a loop; a person would not read more of them.
ITEMS_PER_PRINCIPAL = 20
# All principals together: a person would not read more of them either.
ITEMS_LIMIT = 1000
# Items keep arguments in memory, for up to an hour.
BYTES_LIMIT = 64 * 1024 * 1024
# Arguments beyond this size are shown by their size and digest: a person cannot judge them here.
SHOWN_BYTES = 16 * 1024
# Reasons of deciders, which models read.
REASON_CHARACTERS = 1000
# Names of clients, which must not push the question itself out of sight.
NAME_CHARACTERS = 80
_ID_BYTES = 4

LEAD, HUMAN = "lead", "human"
ACTIONS = ("approve", "deny", "escalate")
# Calls that an approval is good for: this one, all equal ones of the session, all equal ones of the role.
SCOPES = ("once", "session", "always")


class Asker(NamedTuple):
    """Principal that makes a call, with what is shown of it. `session` is empty for a hook without a session.

    Paths are relative to `workspace`. `origin` is the folder that the session began in: an agent that moves elsewhere
    stays under the policy of its project. `agent` is the id that a token or the process tree proves.
    """

    principal: str
    role: str
    session: str = ""
    client: str = ""
    agent: str = ""
    workspace: str | None = None
    origin: str | None = None

    @property
    def name(self) -> str:
        """Name for people: a client may call itself anything, also several lines."""
        return shown_name(self.client) or "An agent"


class Approver(NamedTuple):
    """Lead or person that decides, and the channel: `tool`, `cli`, `elicitation`, `http`, `timeout`."""

    name: str
    channel: str
    session: Session | None = None

    @classmethod
    def at(cls, session: Session, channel: str) -> "Approver":
        """Return the one that decides at a session, under its client's name, which models and people read."""
        return cls(shown_name(session.client.get("name")) or session.id, channel, session)

    @property
    def is_person(self) -> bool:
        """Whether a person decides: every channel but a lead's tools."""
        return self.channel != "tool"


def shown_name(name: str | None) -> str:
    """Return a client's name on one line, without characters that do not show."""
    shown = escaped(name or "").replace("\n", "\\n")
    return shown if len(shown) <= NAME_CHARACTERS else f"{shown[:NAME_CHARACTERS]}…"


def shown_arguments(arguments: bytes) -> str:
    """Return arguments for people: secrets masked, control and bidi characters escaped, never cut silently."""
    if len(arguments) > SHOWN_BYTES:
        return f"({len(arguments)} bytes, too many to show; the digest identifies them)"
    return escaped(everywhere(arguments.decode("utf-8", "replace"))).replace("\n", "\\n")


class Settlement(NamedTuple):
    """End of an item. `verdict` is `approved`, `denied`, `expired` or `withdrawn`."""

    verdict: str
    reason: str = ""
    decided_by: str = ""
    channel: str = ""


class PendingItem:
    """Request that waits for a decision. `principal` is the one that asks, `size` in bytes.

    `expires` is a Unix time, None for a request without an end.
    """

    kind = "item"
    level = HUMAN

    def __init__(self, principal: str, expires: float | None = None) -> None:
        self.id = os.urandom(_ID_BYTES).hex()
        self.principal = principal
        self.created = time.time()
        self.expires = expires
        self.size = 0
        self.outcome: Settlement | None = None
        self._waiters: set[asyncio.Future[Settlement]] = set()

    def describe(self) -> dict[str, object]:
        """Return the item for `hearth approvals --json` and for the tools of leads."""
        return {
            "id": self.id,
            "kind": self.kind,
            "level": self.level,
            "created": round(self.created, 3),
            "expires": None if self.expires is None else round(self.expires, 3),
        }

    def event(self) -> ApprovalRequested:
        """Return the event that tells of the request."""
        return ApprovalRequested(id=self.id, kind=self.kind, session="", role="", server="", tool="", level=self.level)

    async def decide(self, action: str, by: Approver, reason: str = "", scope: str = SCOPES[0]) -> str:
        """Decide the request by one of ACTIONS, for one of SCOPES; return a sentence. Raises Refused.

        The decision counts when this returns. Raises FileAccessError if it could not be written, and does not count.
        """
        raise NotImplementedError

    @property
    def is_awaited(self) -> bool:
        """Whether a call still waits for the outcome."""
        return bool(self._waiters)

    async def wait(self, seconds: float | None) -> Settlement | None:
        """Return the outcome, or None if there is none within that time; None waits until there is one."""
        if self.outcome is not None:
            return self.outcome
        future: asyncio.Future[Settlement] = asyncio.get_running_loop().create_future()
        self._waiters.add(future)
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return None
        finally:
            self._waiters.discard(future)

    def settle(self, outcome: Settlement) -> None:
        """Record the outcome and wake everyone who waits for it."""
        self.outcome = outcome
        for future in self._waiters:
            if not future.done():
                future.set_result(outcome)


class PendingCall(PendingItem):
    """Use of a tool that waits for a decision. `shown` are its arguments for people, masked and escaped.

    `server` is empty for a client's own tool, `lead` the id of the lead agent that is asked, if one is.
    """

    kind = "call"

    def __init__(
        self,
        asker: Asker,
        server: str,
        tool: str,
        arguments: bytes,
        reason: str = "",
        expires: float | None = None,
        digest: str = "",
    ) -> None:
        super().__init__(asker.principal, expires)
        self.asker = asker
        self.server = server
        self.tool = tool
        self.reason = reason
        self.digest = digest or hashlib.sha256(arguments).hexdigest()
        self.shown = shown_arguments(arguments)
        self.lead: str | None = None

    def describe(self) -> dict[str, object]:
        """Return the call for `hearth approvals --json` and for the tools of leads."""
        asker, common = self.asker, super().describe()
        return {
            "id": common.pop("id"),
            "kind": common.pop("kind"),
            "session": asker.session or None,
            "client": asker.client or None,
            "agent": asker.agent or None,
            "role": asker.role or None,
            "server": self.server or None,
            "tool": self.tool,
            "arguments": self.shown,
            "digest": self.digest,
            "reason": self.reason,
            "level": common.pop("level"),
            "lead": self.lead,
            "workspace": asker.workspace,
            **common,
        }

    def event(self) -> ApprovalRequested:
        """Return the event that tells of the call."""
        asker = self.asker
        return ApprovalRequested(
            id=self.id, kind=self.kind, session=asker.session, role=asker.role, server=self.server, tool=self.tool,
            level=self.level, agent=asker.agent or None, lead=self.lead,
        )  # fmt: skip


class Pending:
    """Table of open items. `version` grows with every change."""

    def __init__(self) -> None:
        self._items: dict[str, PendingItem] = {}
        self._changed: set[asyncio.Future[None]] = set()
        self.version = 0

    def __iter__(self) -> Iterator[PendingItem]:
        return iter(list(self._items.values()))

    def __len__(self) -> int:
        return len(self._items)

    def get(self, id: str) -> PendingItem | None:
        """Return the open item of that id."""
        return self._items.get(id)

    def find(self, id: str) -> PendingItem:
        """Return the open item of that id. Raises Refused."""
        item = self._items.get(id)
        if item is None:
            raise Refused(f"no approval {id!r} is pending; `hearth approvals` lists them")
        return item

    async def decide(self, id: str, action: str, by: Approver, reason: str = "", scope: str = SCOPES[0]) -> str:
        """Decide an item; return a sentence. Raises Refused; FileAccessError if the decision does not count."""
        if action not in ACTIONS or scope not in SCOPES:
            raise Refused("a decision is approve, deny or escalate; a grant is for once, session or always")
        return await self.find(id).decide(action, by, escaped(reason)[:REASON_CHARACTERS], scope)

    def add(self, item: PendingItem) -> None:
        """Add an item, and tell of it. Raises NoRoom if its principal, or all of them, have too many."""
        mine = sum(each.principal == item.principal for each in self._items.values())
        if mine >= ITEMS_PER_PRINCIPAL:
            raise NoRoom(f"{mine} requests of this client already wait for a decision; wait for those, then call again")
        if len(self._items) >= ITEMS_LIMIT:
            raise NoRoom(f"{ITEMS_LIMIT} requests already wait for a decision; `hearth approvals` lists them")
        if item.size and item.size + sum(each.size for each in self._items.values()) > BYTES_LIMIT:
            raise NoRoom(
                f"over {BYTES_LIMIT} bytes of requests would wait for a decision; `hearth approvals` lists them"
            )
        self._items[item.id] = item
        event = item.event()
        EVENTS.emit(event)
        log.info(
            "approval requested id=%s kind=%s level=%s role=%s server=%s tool=%s",
            *(item.id, item.kind, item.level, event.role, event.server, event.tool),
        )
        self.changed()

    def settle(self, item: PendingItem, outcome: Settlement) -> bool:
        """Settle an item and remove it; return False if it was settled before."""
        if self._items.pop(item.id, None) is None:
            return False
        item.settle(outcome)
        log.info("approval %s id=%s by=%s", outcome.verdict, item.id, outcome.decided_by or "-")
        EVENTS.emit(ApprovalDecided(id=item.id, verdict=outcome.verdict, by=outcome.decided_by or None))
        self.changed()
        return True

    def drain(self, reason: str) -> None:
        """Withdraw every item: nothing can be decided any more."""
        for item in self:
            self.settle(item, Settlement("withdrawn", reason))

    def agent_closed(self, agent: str) -> None:
        """Withdraw what an agent asked that was closed: nothing runs that could be allowed."""
        for item in self:
            if isinstance(item, PendingCall) and item.asker.agent == agent:
                self.settle(item, Settlement("withdrawn", "the agent was closed"))

    def changed(self) -> None:
        """Wake everyone who waits for a change of the table, or of an item in it."""
        self.version += 1
        waiting, self._changed = self._changed, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait_for_change(self, seconds: float) -> None:
        """Return with the next change, or after that time."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.add(future)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            pass
        finally:
            self._changed.discard(future)
