"""Conversations that are over: whoever waits for the next one hears of it, whatever goes wrong at the end."""

import asyncio

import pytest

from hearth.upstreams.supervisor import Terminations


class Ending:
    """Something that is stopped, and may fail at that."""

    name = "s"

    def __init__(self, problem: Exception | None = None) -> None:
        self._problem = problem

    async def stop(self) -> None:
        await asyncio.sleep(0)
        if self._problem:
            raise self._problem


@pytest.mark.parametrize("problem", [None, RuntimeError("not foreseen"), OSError(5, "the disk is broken")])
async def test_the_next_one_may_begin_when_nothing_is_left_or_the_end_itself_has_failed(
    problem: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    gone = asyncio.Event()
    endings = Terminations(gone.set)
    ending = Ending(problem)
    endings.detach(ending, by_itself=False)  # type: ignore[arg-type]
    assert not gone.is_set()
    endings.expedite(ending)  # type: ignore[arg-type]
    await asyncio.wait_for(gone.wait(), 5)
    assert endings.current is None
    assert ("unhandled exception" in caplog.text) == (problem is not None)
