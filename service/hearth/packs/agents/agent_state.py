"""State of one agent: its record, timeline and open permission requests, and those that follow its changes.

Knows nothing of processes. A change of the record is followed by `note_change`.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hearth.errors import Refused
from hearth.packs.agents import acp
from hearth.packs.agents.live_feed import LiveFeed
from hearth.packs.agents.model import AgentRecord, Status
from hearth.packs.agents.process.session import AgentSession, Answer

if TYPE_CHECKING:
    from hearth.config.model import AgentSettings
    from hearth.packs.agents.agent import Agent
    from hearth.packs.agents.agent_process import AgentProcess
    from hearth.packs.agents.permissions.requests import OpenPermission
    from hearth.packs.agents.timeline import Timeline
    from hearth.packs.agents.timeline_items import TimelineItem

# Characters of the last message of an agent without a process: up to 250 agents are on record.
RESTING_CHARACTERS = 4000
# Changes of the timeline within this time are kept and shown together.
FLUSH_SECONDS = 0.2
# Characters of an error in a record, which status and lists show.
ERROR_CHARACTERS = 2000


class AgentHost(Protocol):
    """Protocol for the service, as its agents see it."""

    @property
    def settings(self) -> "AgentSettings":
        """Settings in force."""

    async def session_for(self, agent: "AgentProcess") -> AgentSession:
        """Return a new session for the agent's next process, which is not started yet. Raises HearthError."""

    def process_ended(self, agent: "AgentProcess") -> None:
        """Withdraw the token of a process that has ended."""

    def may_begin_in(self, agent: "AgentProcess", mode: str | None) -> bool:
        """Tell whether an agent may work in a mode: under a policy one that asks, or that it was put into."""

    def first_instruction(self, agent: "Agent") -> str | None:
        """Return the instruction that precedes the first prompt, if there is one."""

    def keep_items(self, agent_id: str, items: "Sequence[TimelineItem]") -> None:
        """Keep new and changed items of the timeline."""

    def changed(self, agent_id: str) -> None:
        """Keep the record, and tell of a new status."""

    def permission_asked(self, agent: "Agent", request: acp.PermissionRequest, answer: Answer) -> None:
        """Decide a permission request."""

    def turn_ended(self, agent: "Agent", failed: bool, is_aborted: bool) -> None:
        """Tell the parent, and the agents that wait for a free turn."""


class AgentState:
    """State of an agent on record."""

    def __init__(self, record: AgentRecord, host: AgentHost, timeline: "Timeline") -> None:
        self.record = record
        self._host = host
        self.timeline = timeline
        self.permissions: dict[str, OpenPermission] = {}
        # Its mode may still wait for a grant: it gets no prompt, and is not on record.
        self.is_being_created = False
        # Status that the hub has been told.
        self.told_status: Status | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._changed: set[asyncio.Future[None]] = set()
        self._feeds: list[LiveFeed] = []

    @property
    def id(self) -> str:
        """Id of the agent."""
        return self.record.id

    @property
    def title(self) -> str:
        """Title for people; the id where there is none yet."""
        return self.record.title or self.id

    @property
    def is_closed(self) -> bool:
        """Whether the agent is gone for good."""
        return self.record.status == "closed"

    @property
    def is_working(self) -> bool:
        """Whether a turn runs, or the session is being opened."""
        return self.record.status in ("initializing", "running")

    def check_open(self) -> None:
        """Raise Refused if the agent is closed."""
        if self.is_closed:
            reason = self.record.closed_reason or "it was closed"
            raise Refused(f"Agent {self.id} is closed ({reason}); create another agent")

    def check_created(self) -> None:
        """Raise Refused for an agent that may yet turn out to be refused."""
        if self.is_being_created:
            raise Refused(f"agent {self.id} is being created; wait until the call that creates it has returned")

    def has_mode(self, mode: str) -> bool:
        """Tell whether the agent offers a mode."""
        return any(each.id == mode for each in self.record.modes)

    def check_mode(self, mode: str) -> None:
        """Raise Refused unless the agent offers the mode."""
        if not self.has_mode(mode):
            known = ", ".join(each.id for each in self.record.modes) or "none"
            raise Refused(f"agent {self.id} ({self.record.provider}) has no mode {mode!r}; its modes: {known}")

    def take_session_info(self, info: acp.SessionInfo) -> None:
        """Note what the session says of itself."""
        self.record.modes = list(info.modes)
        self.record.mode = info.current_mode
        self.record.model = info.model

    def take_update(self, update: dict[str, Any]) -> None:
        """Add an update of the session to the timeline, and note how much the agent has used."""
        self.timeline.update(update)
        if update["sessionUpdate"] == "usage_update":
            self.note_usage(self.timeline.usage)
        self._flush_soon()

    def note_usage(self, usage: Mapping[str, float]) -> None:
        """Note the newest numbers of the agent's usage; those that are missing stay as they were."""
        if usage:
            self.record.usage = {**(self.record.usage or {}), **usage}

    # --- status

    def set_status(self, status: Status) -> None:
        """Change the status; wake those that wait for a change."""
        self.record.status = status
        if status == "closed":
            self.record.closed_at = time.time()
        self.note_change()

    def note_change(self) -> None:
        """Keep the record, and tell of the change."""
        self.record.updated_at = time.time()
        self._host.changed(self.id)
        for feed in self._feeds:
            feed.put_state(self.state())
        self.wake()

    def wake(self) -> None:
        """Wake those that wait for a change."""
        waiting, self._changed = self._changed, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def state(self) -> dict[str, Any]:
        """Return the state for followers."""
        record = self.record
        return {
            "type": "status",
            "status": record.status,
            "title": record.title,
            "mode": record.mode,
            "turn": record.turn,
            "pendingPermissions": [each.describe() for each in self.asked()],
            "lastError": record.last_error,
            "closedReason": record.closed_reason,
        }

    def asked(self) -> "list[OpenPermission]":
        """Return the permission requests that wait for a decision, the oldest first."""
        return [each for each in self.permissions.values() if each.is_asked]

    def note_error(self, text: str) -> None:
        """Add an error to the timeline."""
        self.timeline.error(text[:ERROR_CHARACTERS])
        self._flush_soon()

    def fail(self, error: str) -> None:
        """Record the error of the last turn."""
        self.record.last_error = error[:ERROR_CHARACTERS]
        self.note_error(error)

    def change(self) -> "asyncio.Future[None]":
        """Return a future for the next change of the status or of the open permissions."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.add(future)
        future.add_done_callback(self._changed.discard)
        return future

    # --- followers

    def follow(self) -> LiveFeed:
        """Return the live changes from now on; the present state comes first."""
        feed = LiveFeed(self._feeds.remove)
        self._feeds.append(feed)
        feed.put_state(self.state())
        return feed

    def publish(self, change: dict[str, Any]) -> None:
        """Hand progress to the followers."""
        for feed in self._feeds:
            feed.put(change)

    def flush(self) -> None:
        """Hand the changed items of the timeline to the store and to the followers."""
        if self._flush_timer:
            self._flush_timer.cancel()
            self._flush_timer = None
        items = self.timeline.take_changed()
        if items:
            self._host.keep_items(self.id, items)
        for item in items if self._feeds else ():
            entry = {"seq": item.seq, "kind": item.kind, "at": item.at, "data": item.data}
            self.publish({"type": "item", "item": entry})

    def _flush_soon(self) -> None:
        if self._flush_timer is None and self.timeline.has_changed:
            self._flush_timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)

    def release(self) -> None:
        """Keep in memory only what lists show: an agent without a process may be on record for weeks."""
        self.flush()
        self.timeline.release(RESTING_CHARACTERS)
        if self.record.last_message:
            self.record.last_message = self.record.last_message[-RESTING_CHARACTERS:]

    def settle_permissions(self, reason: str) -> None:
        """Withdraw every open permission request; the agent is told that it was cancelled."""
        for each in list(self.permissions.values()):
            each.withdraw(reason)
