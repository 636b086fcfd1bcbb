"""Notices for agents that are parents: a child has ended a turn, failed, was ended by another, or needs a decision.

The rules:

1. A notice holds ids, a state and the child's title, escaped on one line. The child's own words never reach its parent
   this way.
2. A notice is delivered exactly once: as `attention` in the result of a blocking tool of the parent, as the result of
   the wait for that very child, or as a prompt to the idle parent.
3. A notice is written when it is made, and stays while the parent is busy, across restarts of the daemon too. One that
   is told by a prompt stays until that turn has ended: with a turn that is lost it is told again.
4. Notices of different kinds do not use each other up. Of one child's turn there is one notice of each kind.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from hearth.errors import HearthError
from hearth.masking import escaped
from hearth.packs.agents.model import TITLE_CHARACTERS, Notice, NoticeKind

if TYPE_CHECKING:
    from hearth.packs.agents.store import AgentStore

log = logging.getLogger(__name__)

Found = TypeVar("Found")

# Notices in one prompt or result. More than that would push the work itself out of the parent's sight.
AT_ONCE = 20
_WORDS: dict[str, str] = {
    "finished": "finished",
    "errored": "errored",
    "cancelled": "was cancelled",
    "closed": "was closed",
    "permission": "needs permission",
    "message": "sent a message",
}


def one_line(title: str) -> str:
    """Return a title as harmless text: one line, no control characters, no angle brackets that could end a tag."""
    line = " ".join(escaped(title).split())[:TITLE_CHARACTERS]
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def attention(notices: Iterable[Notice]) -> list[dict[str, Any]]:
    """Return notices as the results of blocking tools have them."""
    return [{"agentId": each.child_id, "kind": each.kind, "title": one_line(each.title)} for each in notices]


def prompt(notices: Iterable[Notice]) -> str:
    """Return the prompt that tells an idle parent."""
    lines = [
        f'Agent {each.child_id} ("{one_line(each.title)}") {_WORDS.get(each.kind, each.kind)}.' for each in notices
    ]
    return "\n".join(["<hearth-system>", *lines, "</hearth-system>"])


class Notices:
    """Undelivered notices of all parents. `deliver` is called when a parent has one."""

    def __init__(self, store: "AgentStore", deliver: Callable[[str], None]) -> None:
        self._store = store
        self._deliver = deliver
        self._waiting: list[Notice] = list(store.notices())
        # Ids of those that a turn tells of, until its end.
        self._in_turn: set[str] = set()
        self._changed: dict[str, set[asyncio.Future[None]]] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def parents(self) -> list[str]:
        """Return the parents that have notices."""
        return list(dict.fromkeys(each.parent_id for each in self._waiting if each.id not in self._in_turn))

    def of(self, parent_id: str | None) -> list[Notice]:
        """Return the notices of a parent, the oldest first, without those that a turn of it tells of."""
        return [each for each in self._all_of(parent_id) if each.id not in self._in_turn] if parent_id else []

    def _all_of(self, parent_id: str) -> list[Notice]:
        return [each for each in self._waiting if each.parent_id == parent_id]

    def others(self, parent_id: str | None, child_id: str | None) -> list[Notice]:
        """Return the notices of a parent about other children than one, as many as one result may have."""
        return [each for each in self.of(parent_id) if each.child_id != child_id][:AT_ONCE]

    def post(self, parent_id: str, child_id: str, kind: NoticeKind, turn: int, title: str) -> None:
        """Add a notice unless the same one waits already; write it at once, and deliver it as soon as possible."""
        for each in self.of(parent_id):
            if (each.parent_id, each.child_id, each.kind, each.turn) == (parent_id, child_id, kind, turn):
                return
        notice = Notice(parent_id=parent_id, child_id=child_id, kind=kind, turn=turn, title=title)
        self._waiting.append(notice)
        # A blocking tool takes it from memory; the write comes first in the store's queue.
        task = asyncio.get_running_loop().create_task(self._write(notice))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        for future in self._changed.pop(parent_id, ()):
            if not future.done():
                future.set_result(None)

    async def _write(self, notice: Notice) -> None:
        try:
            await self._store.add_notice(notice)
        except HearthError as exc:
            # Delivered all the same while this daemon runs.
            log.warning("notice not written agent=%s kind=%s reason=%s", notice.child_id, notice.kind, exc)
        if notice in self._waiting:
            self._deliver(notice.parent_id)
        else:
            # Taken while it was being written: only now is there something to remove.
            self._store.deliver_notice(notice.id)

    def told(self, notices: Iterable[Notice]) -> None:
        """Note that a turn of their parent tells of notices: they wait for its end."""
        self._in_turn.update(each.id for each in notices)

    def untold(self, notices: Iterable[Notice]) -> None:
        """Note that the turn that tells of notices has not begun: they wait as before."""
        self._in_turn.difference_update(each.id for each in notices)

    def delivered(self, notices: Iterable[Notice]) -> None:
        """Remove notices that their parent has seen."""
        for each in list(notices):
            if each in self._waiting:
                self._waiting.remove(each)
                self._in_turn.discard(each.id)
                self._store.deliver_notice(each.id)

    def settled(self, child_id: str, kind: NoticeKind | None = None) -> None:
        """Remove the notices about a child that mean nothing any more: all of them, or those of one kind."""
        self.delivered([each for each in self._waiting if each.child_id == child_id and kind in (None, each.kind)])

    def seen(self, parent_id: str | None, child_id: str) -> None:
        """Remove the notices about a child whose state its parent has just been told."""
        if parent_id:
            # A message is not part of that state.
            told = [each for each in self.of(parent_id) if each.child_id == child_id and each.kind != "message"]
            self.delivered(told)

    def take_messages(self, recipient_id: str) -> list[str]:
        """Remove the notices of messages for an agent; return the senders."""
        taken = [each for each in self._all_of(recipient_id) if each.kind == "message"]
        self.delivered(taken)
        return [each.child_id for each in taken]

    def forget_parent(self, parent_id: str) -> None:
        """Remove the notices of a parent that is closed."""
        self.delivered(self._all_of(parent_id))

    async def wait_for(
        self, agent_id: str, work: "Coroutine[Any, Any, Found]"
    ) -> "tuple[Found | None, list[dict[str, Any]]]":
        """Run what a blocking tool waits for, until something waits for the agent that called it.

        Return its result, or None and the notices, as `attention`, which are delivered by that.
        """
        task = asyncio.ensure_future(work)
        try:
            while not task.done() and not self.of(agent_id):
                await self._wait_beside(agent_id, task)
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        finally:
            task.cancel()
        if not task.cancelled():
            return task.result(), []
        # Delivered last: whatever is awaited here could be cancelled, and the notices lost.
        found = self.others(agent_id, None)
        self.delivered(found)
        return None, attention(found)

    async def _wait_beside(self, agent_id: str, task: "asyncio.Future[Any]") -> None:
        """Wait for a notice of an agent, or for the end of a task."""
        change: asyncio.Future[Any] = self.change(agent_id)
        try:
            await asyncio.wait({task, change}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
            self.prune_changes(agent_id)

    def change(self, parent_id: str) -> "asyncio.Future[None]":
        """Return a future for the next notice of a parent."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.setdefault(parent_id, set()).add(future)
        return future

    def prune_changes(self, parent_id: str) -> None:
        """Forget the futures of a parent that are done."""
        waiting = {future for future in self._changed.pop(parent_id, ()) if not future.done()}
        if waiting:
            self._changed[parent_id] = waiting
