"""Random lives of conversations over HTTP: whatever happens, every call is told once, and nothing is kept of it."""

import asyncio
import random

import pytest

from hearth.errors import UpstreamError
from support.http.conversation import Answer, Talk, bounded, until, visiting
from support.sites.legacy import LegacySite
from support.sites.modern import ModernSite

STEPS = 80
TOOLS = {
    LegacySite: ("echo", "report", "hang", "drop", "poll", "lose", "linger", "batch", "garbage", "silent"),
    ModernSite: ("echo", "report", "hang", "lose"),
}


class Life:
    """One conversation, and what is known of each of its calls."""

    def __init__(self, talk: Talk, site: LegacySite, seed: int) -> None:
        self.talk = talk
        self.site = site
        self.chance = random.Random(seed)
        self.calls: dict[int, tuple[str, Answer]] = {}
        # Those that were given up, and how often they had been told until then.
        self.given_up: list[tuple[Answer, int]] = []

    async def live(self) -> None:
        for _ in range(STEPS):
            self._step(self.chance.random())
            if self.chance.random() < 0.5:
                await asyncio.sleep(self.chance.random() * 0.01)
        for number, (tool, answer) in list(self.calls.items()):
            if tool == "hang":
                self._give_up(number)
            else:
                try:
                    await bounded(answer.future)
                except UpstreamError:
                    pass
                assert answer.times == 1, tool
        assert all(answer.times == times for answer, times in self.given_up)

    def _step(self, chance: float) -> None:
        if chance < 0.6:
            tool = self.chance.choice(TOOLS[type(self.site)])
            number, answer = self.talk.begin(tool)
            self.calls[number] = (tool, answer)
        elif chance < 0.8 and self.calls:
            self._give_up(self.chance.choice(list(self.calls)))
        elif chance < 0.9:
            self.site.expire()
        else:
            self.site.break_listeners()

    def _give_up(self, number: int) -> None:
        _, answer = self.calls.pop(number)
        self.given_up.append((answer, answer.times))
        self.talk.connection.cancel(number)


@pytest.mark.loops("asyncio", "uvloop")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", TOOLS)
async def test_every_call_is_told_once_and_nothing_is_kept_of_it(make: type[LegacySite], seed: int) -> None:
    async with visiting(make()) as (site, talk):
        await Life(talk, site, seed).live()
        connection = talk.connection
        await until(lambda: not connection._asked, "nothing is read any more")  # type: ignore[attr-defined]
        assert connection._waiting == {}
        assert connection._unsent_bytes == 0  # type: ignore[attr-defined]
        assert talk.lost_count == 0
