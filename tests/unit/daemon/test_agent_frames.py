"""Control frames about agents: each command is answered, whatever becomes of it."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from hearth.daemon import agent_control

if TYPE_CHECKING:
    from hearth.daemon.control import ControlApi


class FakeApi:
    """Fake of the commands: each fails as no command may, or waits for ever."""

    def __init__(self, end: BaseException | asyncio.Event) -> None:
        self._end = end

    async def cmd_agent(self, *_: object) -> dict[str, Any]:
        if isinstance(self._end, BaseException):
            raise self._end
        self._end.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError


async def answers(end: BaseException | asyncio.Event) -> list[dict[str, Any]]:
    async def nothing() -> None:
        return None

    sent: list[dict[str, Any]] = []
    frame = {"type": "agent", "seq": 3, "verb": "show"}, b"{}"
    api = cast("ControlApi", FakeApi(end))
    await agent_control.answer_frame(api, frame, None, nothing, lambda header, payload: sent.append(header), nothing)
    return sent


@pytest.mark.parametrize("problem", [KeyError("x"), asyncio.CancelledError()])
async def test_a_command_that_fails_unexpectedly_is_answered_all_the_same(problem: BaseException) -> None:
    (header,) = await answers(problem)
    assert (header["type"], header["re"], header["ok"]) == ("agent", 3, False)
    assert type(problem).__name__ in header["message"]


async def test_a_command_whose_reader_has_gone_is_not_answered() -> None:
    begun = asyncio.Event()
    task = asyncio.ensure_future(answers(begun))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
