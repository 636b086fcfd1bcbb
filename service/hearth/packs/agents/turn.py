"""Turns of agents: one that runs, the reasons for which it is aborted, the time between two, and the room for all."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hearth.errors import Refused
from hearth.masking import UNSAFE
from hearth.packs.agents import acp
from hearth.packs.agents.model import TITLE_CHARACTERS, AgentRecord, Status

if TYPE_CHECKING:
    from hearth.packs.agents.agent import Agent

REPLACED = "Agent run interrupted by new prompt"
CANCELLED = "Agent run cancelled"
TERMINATED = "Agent terminated"
STOPPING = "the daemon shuts down, or the pack 'agents' was switched off"


# A prompt is text for a model; larger data belongs into a file that the prompt names.
PROMPT_BYTES = 4 * 1024 * 1024


def check_prompt(text: str, limit: int) -> None:
    """Raise Refused for a prompt that is longer than a limit in bytes, or than PROMPT_BYTES, or empty."""
    limit = min(PROMPT_BYTES, limit)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limit:
        raise Refused(
            f"the prompt has {size} bytes; the limit is {limit} (half of message_limit, {PROMPT_BYTES} at most):"
            " write it to a file, and name that file in the prompt"
        )
    if not text.strip():
        raise Refused("the prompt is empty")


class Turn:
    """Turn of an agent, and its request. `aborted` is set when it was replaced, cancelled or killed.

    `outcome` is set with its end: the agent's status, and its last message or the error. The next turn, of a notice,
    may have begun before a caller that waits looks again.
    """

    def __init__(self, number: int, request: "asyncio.Task[acp.TurnEnd]") -> None:
        self.number = number
        self.aborted: str | None = None
        self.runner: asyncio.Task[None] | None = None
        self.request = request
        # Whether the agent was sent the prompt; a turn that is aborted at once is not.
        self.is_sent = False
        # Its cancellation, whichever caller has begun that.
        self.giving_up: asyncio.Task[None] | None = None
        self.outcome: tuple[Status, str | None] | None = None

    def end(self, record: AgentRecord, failed: bool) -> Status:
        """Note the outcome, and return the agent's status."""
        status: Status = "error" if failed else "idle"
        self.outcome = status, record.last_error if failed else record.last_message
        return status

    def describe_end(self) -> dict[str, Any]:
        """Return how it has ended, without its message."""
        status, text = self.outcome or ("idle", None)
        error = text if status == "error" else None
        return {"turn": self.number, "status": status, "aborted": self.aborted, "lastError": error}


class IdleTimer:
    """Time without a turn, from the end of one to the next. `due` is called when it is over."""

    def __init__(self, due: Callable[[], None]) -> None:
        self._due = due
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        """Whether the last time that was started is over, stopped or not."""
        return time.monotonic() >= self._until

    def start(self, seconds: float) -> None:
        """Start the time again."""
        self.stop()
        self._until = time.monotonic() + seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._due)

    def stop(self) -> None:
        """Stop the timer: `due` is not called."""
        if self._timer:
            self._timer.cancel()
            self._timer = None


class TurnRoom:
    """Room for turns of all agents of a daemon; `limit` returns the number of turns at once (agents.max_running)."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        # Agents with a turn, and those with one that is about to begin: by how many prompts.
        self._running: set[str] = set()
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._running.union(self._held))

    def leave(self, agent_id: str) -> None:
        """Give the room of an agent's turn back, unless another one is about to begin."""
        self._running.discard(agent_id)

    @contextlib.contextmanager
    def hold(self, agent: "Agent") -> Iterator[None]:
        """Hold room for a turn that is about to begin inside the block. Raises Refused if there is none."""
        if agent.id not in self._running and agent.id not in self._held and len(self) >= self._limit():
            raise Refused(f"{len(self)} agents run already (agents.max_running); wait for one of them, or cancel it")
        self._held[agent.id] += 1
        try:
            yield
        finally:
            self._held[agent.id] -= 1
            if not self._held[agent.id]:
                del self._held[agent.id]
            # The turn of a closed agent has given its room back, although its process may still be ending.
            if agent.turn is not None and not agent.is_closed:
                self._running.add(agent.id)


def on_one_line(title: str) -> str:
    """Return a title for a line of a table: blanks of any kind are spaces, and nothing in it moves a cursor."""
    return " ".join(UNSAFE.sub(" ", title).split())


def title_of(text: str) -> str | None:
    """Return the first line of a prompt as a title."""
    line = next((line for each in text.splitlines() if (line := on_one_line(each))), "")
    if len(line) <= TITLE_CHARACTERS:
        return line or None
    return line[: TITLE_CHARACTERS - 1].rstrip() + "…"
