"""Removal of closed agents from the record. The service is a fake: a real one has processes."""

from typing import TYPE_CHECKING, cast

import pytest

from hearth.packs.agents.identity import authority
from hearth.packs.agents.model import AgentRecord
from hearth.packs.agents.upkeep import pruning

if TYPE_CHECKING:
    from hearth.packs.agents.agent import Agent
    from hearth.packs.agents.service import AgentService


class FakeAgent:
    """Fake of an agent: its record."""

    def __init__(self, record: AgentRecord) -> None:
        self.record = record
        self.id = record.id
        self.is_closed = record.status == "closed"
        # Those that are being ended, as `Agent.sessions` has them.
        self.sessions: list[object] = []

    async def wait_for_ends(self) -> None:
        self.sessions.clear()


class FakeService:
    """Fake of the service: agents on record, and those that were forgotten."""

    def __init__(self) -> None:
        self.agents: dict[str, FakeAgent] = {}

    def add(self, id: str, parent: str | None = None, is_closed: bool = True) -> FakeAgent:
        status = "closed" if is_closed else "idle"
        record = AgentRecord(id=id, provider="echo", cwd="/", parent_id=parent, status=status)
        self.agents[id] = FakeAgent(record)
        return self.agents[id]

    def ancestors(self, id: str) -> list[str]:
        return authority.ancestors(self.agents, id)

    def forget(self, agent: FakeAgent) -> None:
        del self.agents[agent.id]


@pytest.fixture
def service() -> FakeService:
    found = FakeService()
    found.add("lead", is_closed=False)
    found.add("between", "lead")
    found.add("worker", "between", is_closed=False)
    found.add("done", "lead")
    return found


def test_an_agent_above_an_open_one_is_not_forgotten(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "CLOSED_LIMIT", 0)
    pruning.forget_oldest(cast("AgentService", service))
    assert set(service.agents) == {"lead", "between", "worker"}
    # The lead still may end what works below it.
    assert service.ancestors("worker") == ["between", "lead"]


def test_an_agent_whose_process_is_being_ended_is_not_forgotten(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "CLOSED_LIMIT", 0)
    service.agents["done"].sessions.append(object())
    pruning.forget_oldest(cast("AgentService", service))
    assert "done" in service.agents
    service.agents["done"].sessions.clear()
    pruning.forget_oldest(cast("AgentService", service))
    assert "done" not in service.agents


async def test_an_agent_above_an_open_one_is_not_pruned_and_the_reason_is_told(service: FakeService) -> None:
    chosen = cast("list[Agent]", [service.agents["between"], service.agents["done"]])
    kept, removed = await pruning.prune(cast("AgentService", service), chosen, force=False)
    assert (kept["pruned"], kept["reason"]) == (False, "agents below it are open; kill them first")
    assert removed["pruned"] is True
    assert set(service.agents) == {"lead", "between", "worker"}
