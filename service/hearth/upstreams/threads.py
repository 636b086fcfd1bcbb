"""Work that blocks, apart from the loop, in threads that nobody waits for when the daemon ends.

The loop's own pool is waited for, and what waits for a keyring to be unlocked may take half a minute.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

Given = ParamSpec("Given")
Result = TypeVar("Result")


async def run(work: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Result:
    """What the work returns or raises. Cancelled, it goes on by itself, and what comes of it is dropped."""
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
