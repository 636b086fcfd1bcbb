"""Work in threads that nobody waits for."""

import asyncio
import threading

import pytest

from hearth.errors import VaultError
from hearth.upstreams import threads


async def test_what_the_work_returns_or_raises_comes_back() -> None:
    assert await threads.run(threading.get_ident) != threading.get_ident()

    def fail() -> None:
        raise VaultError("locked")

    with pytest.raises(VaultError, match="locked"):
        await threads.run(fail)


def test_neither_a_cancellation_nor_the_end_of_the_loop_waits_for_the_work() -> None:
    release, ended = threading.Event(), threading.Event()

    def work() -> None:
        release.wait(60)
        ended.set()

    async def body() -> None:
        task = asyncio.create_task(threads.run(work))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    # A loop of its own, because its end is tested.
    asyncio.run(body())
    assert not ended.is_set()
    # The loop is closed by now, and the thread finds that out by itself.
    release.set()
    assert ended.wait(60)
