"""What everybody who wants the same at the same time shares, and what nobody waits for."""

import asyncio
import threading

import pytest

from hearth.config import ServerSpec
from hearth.upstreams import threads
from hearth.upstreams.http.oauth.account import Account, Flight, required
from hearth.upstreams.http.oauth.store import Link, Store


def test_one_run_serves_everybody_who_came_while_it_went_on_and_survives_who_leaves() -> None:
    async def body() -> None:
        flight: Flight[int] = Flight()
        gate = asyncio.Event()
        runs = 0

        async def work() -> int:
            nonlocal runs
            runs += 1
            await gate.wait()
            return runs

        first = asyncio.create_task(flight.join(work))
        others = [asyncio.create_task(flight.join(work)) for _ in range(9)]
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        gate.set()
        assert await asyncio.gather(*others) == [1] * 9
        assert await flight.join(work) == 2

    asyncio.run(body())


def test_a_run_that_fails_fails_for_everybody_and_the_next_is_another() -> None:
    async def body() -> None:
        flight: Flight[int] = Flight()

        async def fail() -> int:
            raise ValueError("no")

        async def succeed() -> int:
            return 7

        found = await asyncio.gather(*(flight.join(fail) for _ in range(3)), return_exceptions=True)
        assert [str(each) for each in found] == ["no"] * 3
        assert await flight.join(succeed) == 7

    asyncio.run(body())


def test_the_error_has_the_command_to_type() -> None:
    problem = required("my server", "needs a login")
    assert str(problem) == "server 'my server' needs a login: type `hearth auth login 'my server'`"
    assert problem.server == "my server"


def test_a_daemon_may_end_while_the_keyring_waits_for_its_person() -> None:
    asked, unlocked, told = threading.Event(), threading.Event(), threading.Event()

    class Locked(Store):
        def signature(self) -> tuple[int, int]:
            return 1, 1

        def link(self, spec: ServerSpec) -> Link | None:
            asked.set()
            unlocked.wait(10)
            told.set()
            return None

    async def body() -> None:
        account = Account(ServerSpec(name="s", url="https://example.com/mcp"), Locked())
        waiting = asyncio.create_task(account.authorization())
        await threads.run(asked.wait)
        waiting.cancel()

    asyncio.run(body())
    assert not told.is_set()
    unlocked.set()
    assert told.wait(60)
