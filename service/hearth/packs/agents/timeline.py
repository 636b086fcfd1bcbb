"""Timeline of one agent: updates of the Agent Client Protocol, merged into a bounded list of items. Pure.

Rules:

1. Consecutive chunks of one kind and one message are one item. Their text is joined when a reader asks for it.
2. A new item ends the one before it. A change of an older item, such as the progress of a tool call, does not.
3. A text beyond its limit is cut, and `cut` counts the characters that are missing. Items beyond the limits of number
   and bytes are dropped, the oldest first.
4. An update that does not follow the protocol changes nothing and is counted. Unknown kinds are ignored: the protocol
   grows.

The owner calls `take_changed` once per interval and gives the result to the store and to live followers: ten thousand
chunks in between are one change. Items are never modified; a changed item is a new object with the same `seq`.
"""

import time
from collections.abc import Callable
from typing import Any

from hearth.packs.agents import updates
from hearth.packs.agents.timeline_items import ItemKind, TimelineItem, render, weight
from hearth.packs.agents.updates import BoundedText, MalformedUpdate

__all__ = ["Timeline", "TimelineItem", "render"]

ITEMS_LIMIT = 2000
# Items of one agent. Fifty agents that print without end cost no more than one large language server.
LIMIT_BYTES = 4 * 1024 * 1024
# A message has a page or two; a longer text is a file that was printed.
TEXT_LIMIT_CHARACTERS = 64 * 1024

_CHUNKS: dict[str, ItemKind] = {
    "user_message_chunk": "user",
    "agent_message_chunk": "message",
    "agent_thought_chunk": "thought",
}


class Timeline:
    """Timeline of one agent, with `first_seq` as the number of its first item. For one thread."""

    def __init__(
        self,
        limit: int = ITEMS_LIMIT,
        first_seq: int = 1,
        limit_bytes: int = LIMIT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.limit = limit
        # By the names of a snapshot: contextWindowUsedTokens, contextWindowMaxTokens, totalCostUsd.
        self.usage: dict[str, float] = {}
        self.current_mode: str | None = None
        # Updates that did not follow the protocol; items that were dropped for the limits.
        self.malformed = 0
        self.dropped = 0
        self._limit_bytes = limit_bytes
        self._clock = clock
        # Numbers of the items are without gaps, so that the oldest one is found without a search.
        self._items: dict[int, TimelineItem] = {}
        self._weights: dict[int, int] = {}
        self._oldest = self._next = first_seq
        self._bytes = 0
        # Numbers of tool calls and compactions, by kind and id.
        self._by_id: dict[tuple[ItemKind, str], int] = {}
        self._changed: set[int] = set()
        # Newest item, while chunks may be added to it.
        self._open: TimelineItem | None = None
        self._text = BoundedText(TEXT_LIMIT_CHARACTERS)
        self._message_id: str | None = None
        self._last_message: str | None = None
        # Prompt of the turn and how much of it the agent has repeated: some agents send it back.
        self._prompt = ""
        self._repeated = 0

    # --- events

    def user(self, text: str) -> None:
        """Begin a turn with this prompt."""
        self._add_text("user", text)
        self._last_message = None
        self._prompt, self._repeated = text, 0

    def error(self, text: str) -> None:
        """Add an error, in a sentence."""
        self._add_text("error", text)

    def system(self, text: str) -> None:
        """Add a remark of the daemon."""
        self._add_text("system", text)

    def end_turn(self) -> None:
        """End the turn: later chunks begin a new item."""
        self._close()
        self._prompt = ""

    def update(self, update: object) -> None:
        """Add the update of a `session/update`. Never raises."""
        kind = update.get("sessionUpdate") if isinstance(update, dict) else None
        if not isinstance(update, dict) or not isinstance(kind, str):
            self.malformed += 1
            return
        try:
            if (item_kind := _CHUNKS.get(kind)) is not None:
                self._chunk(item_kind, update)
            elif (handler := _HANDLERS.get(kind)) is not None:
                handler(self, update)
        except MalformedUpdate:
            self.malformed += 1

    # --- for readers

    @property
    def has_changed(self) -> bool:
        """Whether `take_changed` has anything to return."""
        return bool(self._changed)

    @property
    def last_seq(self) -> int:
        """Number of the newest item; a timeline that continues this one begins with the next number."""
        return self._next - 1

    @property
    def last_message(self) -> str | None:
        """Text of the newest message of the agent in this turn."""
        self._note_message()
        return self._last_message

    def items(self) -> list[TimelineItem]:
        """Return the items, oldest first."""
        self._join()
        return list(self._items.values())

    def take_changed(self) -> list[TimelineItem]:
        """Return the items that are new or have changed since the last call, oldest first."""
        if not self._changed:
            return []
        self._join()
        changed, self._changed = self._changed, set()
        return [self._items[seq] for seq in sorted(changed)]

    def release(self, kept_characters: int) -> None:
        """Let go of the items, which are on record, but for the end of the last message; their numbers go on."""
        self._close()
        self._last_message = self._last_message[-kept_characters:] if self._last_message else None
        self._text, self._prompt = BoundedText(TEXT_LIMIT_CHARACTERS), ""
        self._items.clear()
        self._weights.clear()
        self._by_id.clear()
        self._changed.clear()
        self._oldest, self._bytes = self._next, 0

    # --- items

    def _add(self, kind: ItemKind, data: dict[str, Any]) -> None:
        self._close()
        item = TimelineItem(self._next, kind, self._clock(), data)
        self._next += 1
        if "id" in data:
            self._by_id[kind, data["id"]] = item.seq
        self._put(item)

    def _change(self, seq: int, data: dict[str, Any]) -> None:
        """Change the data of an item; do nothing if nothing is new in them."""
        former = self._items[seq]
        if former.data != data:
            self._put(TimelineItem(seq, former.kind, former.at, data))

    def _put(self, item: TimelineItem) -> None:
        item_weight = weight(item.data)
        self._bytes += item_weight - self._weights.get(item.seq, 0)
        self._items[item.seq], self._weights[item.seq] = item, item_weight
        self._changed.add(item.seq)
        while len(self._items) > self.limit or (self._bytes > self._limit_bytes and len(self._items) > 1):
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        seq = self._oldest
        item = self._items.pop(seq)
        self._bytes -= self._weights.pop(seq)
        self._changed.discard(seq)
        if "id" in item.data:
            self._by_id.pop((item.kind, item.data["id"]), None)
        self._oldest += 1
        self.dropped += 1

    # --- texts

    def _add_text(self, kind: ItemKind, text: str) -> None:
        """Add an item of one whole text."""
        bounded = BoundedText(TEXT_LIMIT_CHARACTERS)
        bounded.add(text)
        self._add(kind, _text_data(bounded))

    def _chunk(self, kind: ItemKind, update: dict[str, Any]) -> None:
        text = updates.block_text(update.get("content"))
        message_id = update.get("messageId")
        if not isinstance(message_id, str):
            message_id = self._message_id
        if kind == "user" and self._is_prompt(text):
            return
        if (
            self._open is None
            or self._open.kind != kind
            or (self._message_id is not None and message_id != self._message_id)
        ):
            if not text:
                return
            self._add(kind, {"text": ""})
            self._open = self._items[self._next - 1]
            self._text = BoundedText(TEXT_LIMIT_CHARACTERS)
        self._message_id = message_id
        # Beyond the limit only the count of characters changes, which is noted when the item ends.
        if self._text.add(text):
            self._changed.add(self._open.seq)

    def _is_prompt(self, text: str) -> bool:
        """Tell whether a chunk of the user's message is only the next part of the prompt that was sent."""
        if not text or not self._prompt.startswith(text, self._repeated):
            return False
        self._repeated += len(text)
        return True

    def _join(self) -> None:
        """Bring the data of the open item up to date."""
        if self._open is not None:
            self._change(self._open.seq, _text_data(self._text))

    def _close(self) -> None:
        """End the open item."""
        self._note_message()
        self._join()
        self._open = self._message_id = None

    def _note_message(self) -> None:
        if self._open is not None and self._open.kind == "message":
            text = updates.shown_text(self._text.value(), self._text.cut)
            # Blanks between two tool calls are no message.
            self._last_message = text if text.strip() else self._last_message

    # --- other updates

    def _tool_call(self, update: dict[str, Any]) -> None:
        call_id = updates.needed_name(update, "toolCallId")
        changes = updates.tool_changes(update)
        seq = self._by_id.get(("tool", call_id))
        if seq is None:
            self._add("tool", {"id": call_id, **changes})
        else:
            self._change(seq, {**self._items[seq].data, **changes})

    def _compaction(self, update: dict[str, Any]) -> None:
        data = {"id": updates.needed_name(update, "compactionId"), "status": updates.name(update, "status") or ""}
        seq = self._by_id.get(("compacted", data["id"]))
        if seq is None:
            self._add("compacted", data)
        else:
            self._change(seq, data)

    def _plan(self, update: dict[str, Any]) -> None:
        entries = updates.plan_entries(update)
        newest = self._items.get(self._next - 1)
        # A plan that changes while nothing else happens is one item.
        if newest is not None and newest.kind == "plan":
            self._change(newest.seq, {"entries": entries})
        else:
            self._add("plan", {"entries": entries})

    def _mode(self, update: dict[str, Any]) -> None:
        self._enter_mode(updates.needed_name(update, "currentModeId"))

    def _enter_mode(self, mode: str) -> None:
        if mode != self.current_mode:
            self.current_mode = mode
            self._add("mode", {"mode": mode})

    def _config(self, update: dict[str, Any]) -> None:
        if (mode := updates.config_mode(update)) is not None:
            self._enter_mode(mode)

    def _usage(self, update: dict[str, Any]) -> None:
        self.usage = {**self.usage, **updates.usage(update)}


_HANDLERS: dict[str, Callable[[Timeline, dict[str, Any]], None]] = {
    "tool_call": Timeline._tool_call,
    "tool_call_update": Timeline._tool_call,
    "compaction_update": Timeline._compaction,
    "plan": Timeline._plan,
    "current_mode_update": Timeline._mode,
    "config_option_update": Timeline._config,
    "usage_update": Timeline._usage,
}


def _text_data(text: BoundedText) -> dict[str, Any]:
    return {"text": text.value(), "cut": text.cut} if text.cut else {"text": text.value()}
