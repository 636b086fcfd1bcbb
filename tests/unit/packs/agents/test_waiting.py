"""Ends of waits: in which order they save and use up, and how they are told. Agents and service are fakes."""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from hearth.packs.agents.model import AgentRecord, Notice
from hearth.packs.agents.notices.outbox import Notices
from hearth.packs.agents.timeline_items import TimelineItem
from hearth.packs.agents.waiting import Wait

if TYPE_CHECKING:
    from hearth.packs.agents.agent import Agent
    from hearth.packs.agents.service import AgentService
    from hearth.packs.agents.store import AgentStore


class FakeStore:
    """Fake of the store: one notice for a lead waits."""

    def __init__(self, child: str) -> None:
        self.notice = Notice(parent_id="lead", child_id=child, kind="finished", turn=1)

    def notices(self) -> list[Notice]:
        return [self.notice]

    def deliver_notice(self, id: str) -> None: ...


class FakeAgent:
    """Fake of an agent that is idle, or works for ever."""

    def __init__(self, is_working: bool = False) -> None:
        status = "running" if is_working else "idle"
        self.record = AgentRecord(id="child", provider="echo", cwd="/", status=status)
        self.id, self.turn, self.is_working = "child", None, is_working

    def asked(self) -> list[object]:
        return []

    def change(self) -> "asyncio.Future[None]":
        return asyncio.get_running_loop().create_future()


class FakeService:
    """Fake of the service: its disk answers when it is told to."""

    def __init__(self, child: str) -> None:
        store = cast("AgentStore", FakeStore(child))
        self.delivery = SimpleNamespace(notices=Notices(store, lambda parent: None))
        self.is_stopping = False
        self.is_saving, self.answers = asyncio.Event(), asyncio.Event()
        self.limits: list[int | None] = []

    async def save(self, agent: object) -> None:
        self.is_saving.set()
        await self.answers.wait()

    async def newest(self, agent: object, limit: int | None = None) -> list[TimelineItem]:
        self.limits.append(limit)
        return [TimelineItem(1, "message", 0.0, {"text": "hello"})]


def wait(service: FakeService, agent: FakeAgent) -> Wait:
    return Wait(cast("Agent", agent), "lead", cast("AgentService", service))


@pytest.mark.parametrize(("child", "is_working"), [("child", False), ("another", True)])
async def test_a_wait_that_is_left_while_the_disk_is_slow_uses_no_notice_up(child: str, is_working: bool) -> None:
    service = FakeService(child)
    waiting = asyncio.ensure_future(wait(service, FakeAgent(is_working)).run(5))
    await service.is_saving.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(service.delivery.notices.of("lead")) == 1
    service.answers.set()
    found = await wait(service, FakeAgent(is_working)).run(5)
    assert service.delivery.notices.of("lead") == []
    assert [each["agentId"] for each in found.attention] == (["another"] if is_working else [])


@pytest.mark.parametrize(
    ("is_stopping", "sentence"),
    [(False, "Awaiting the agent timed out after 0s. This"), (True, "Awaiting the agent ended, because the daemon")],
)
async def test_a_wait_that_ends_without_a_result_says_why_and_reads_the_newest_entries_only(
    is_stopping: bool, sentence: str
) -> None:
    service = FakeService("child")
    service.is_stopping = is_stopping
    found = await wait(service, FakeAgent(is_working=True)).run(50 if is_stopping else 0)
    assert found.timed_out
    assert (found.last_message or "").startswith(sentence)
    assert (found.last_message or "").endswith("Recent activity:\nhello")
    assert service.limits == [5]
