"""Blocking work in threads that the end of the daemon does not wait for, and runs that several callers share.

The loop's own pool is waited for at the end, and unlocking a keyring may take half a minute.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, TypeVar, cast

Given = ParamSpec("Given")
Result = TypeVar("Result")


async def run(work: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Result:
    """Return or raise the outcome of the work. Cancelled, the work goes on by itself, and its outcome is dropped."""
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
        """Wait for the run that there is, or begin one. Shielded: one caller's end is not everybody's."""
        task = self._task
        if task is None or task.done():
            task = self._task = asyncio.create_task(work())
            task.add_done_callback(lambda late: late.cancelled() or late.exception())
        return await asyncio.shield(task)
