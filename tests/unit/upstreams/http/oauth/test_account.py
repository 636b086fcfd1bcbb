"""What everybody who wants the same at the same time shares."""

import asyncio

import pytest

from hearth.upstreams.http.oauth.account import Flight, required


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
