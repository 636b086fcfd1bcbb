"""Blocking work in threads that do not delay the daemon's shutdown, and coroutines shared by several callers.

At shutdown asyncio waits for the loop's own thread pool, and unlocking a keyring may take half a minute.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, TypeVar, cast

Given = ParamSpec("Given")
Result = TypeVar("Result")


async def run(work: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Result:
    """Run work in a thread; return or raise its outcome. After a cancellation the work continues, unobserved."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def tell(result: Result | None, problem: Exception | None) -> None:
        if done.done():
            return
        if problem:
            done.set_exception(problem)
        else:
            done.set_result(cast(Result, result))

    def act() -> None:
        result, problem = None, None
        try:
            result = work(*arguments, **named)
        except Exception as exc:
            problem = exc
        try:
            loop.call_soon_threadsafe(tell, result, problem)
        except RuntimeError:
            pass  # the loop is closed: the daemon has ended

    threading.Thread(target=act, daemon=True).start()
    return await done


class SingleFlight(Generic[Result]):
    """Run of a coroutine that is shared by all callers at the same time."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Result] | None = None

    async def join(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Wait for the current run, or begin one. Shielded: one caller's cancellation does not affect the others."""
        task = self._task
        if task is None or task.done():
            task = self._task = asyncio.create_task(work())
            task.add_done_callback(lambda late: late.cancelled() or late.exception())
        return await asyncio.shield(task)
