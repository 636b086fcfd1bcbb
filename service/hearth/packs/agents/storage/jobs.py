"""Jobs of the agents' store: statements for its thread, and the results for callers in the event loop."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from hearth.errors import HearthError

if TYPE_CHECKING:
    from sqlite3 import Connection


class StoreJob:
    """Statements for the thread, and the caller that waits for their result, if one does.

    A write that `is_kept` is done even if its caller gives up, and is tried again if it fails; of one with a `record`
    (agent, number, JSON) only the record, if it is still the newest. `agent_id` is the agent whose timeline is read. A
    flush comes after all items.
    """

    def __init__(
        self,
        run: "Callable[[Connection], Any]",
        kind: Literal["write", "read", "flush"] = "write",
        is_kept: bool = False,
        agent_id: str | None = None,
    ) -> None:
        self.kind = kind
        self.is_kept = is_kept
        self.agent_id = agent_id
        self.record: tuple[str, int, bytes] | None = None
        self._run = run
        self._result: object = None
        self._problem: HearthError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: asyncio.Future[Any] | None = None

    def waiting(self) -> "asyncio.Future[Any]":
        """Return a future of the result, for the caller."""
        self._loop = asyncio.get_running_loop()
        self._done = self._loop.create_future()
        return self._done

    def perform(self, connection: "Connection") -> None:
        """Run the statements, unless the caller has been told that they failed."""
        if self._done is not None and self._done.done() and not self.is_kept:
            return
        self._problem = None
        try:
            self._result = self._run(connection)
        except HearthError as exc:
            # Refused before anything was written: the other jobs of the transaction go on.
            self._problem = exc

    def tell(self, problem: HearthError | None = None) -> None:
        """Give the result or the problem to the caller."""
        loop, done, problem = self._loop, self._done, problem or self._problem
        self._loop = self._done = None
        if loop is None or done is None:
            return
        try:
            loop.call_soon_threadsafe(_resolve, done, self._result, problem)
        except RuntimeError:
            # The loop is closed: no task waits any more.
            pass


def _resolve(done: "asyncio.Future[Any]", result: object, problem: HearthError | None) -> None:
    if done.done():
        return
    if problem is None:
        done.set_result(result)
    else:
        done.set_exception(problem)
