"""Start and stop of the service of agents, without any process."""

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from hearth.config import Config
from hearth.errors import AgentError
from hearth.hub.hub import Hub
from hearth.packs.agents.identity.directory import end_sessions
from hearth.packs.agents.model import AgentRecord
from hearth.packs.agents.service import AgentService
from hearth.packs.agents.store import AgentStore
from hearth.packs.agents.tools.pack import AgentsPack
from hearth.packs.agents.upkeep import restart
from unit.hub.authorization.agents_stage import FakeAgents
from unit.hub.outlets import Kept
from unit.hub.whole_hub import Stage

if TYPE_CHECKING:
    from hearth.packs import PackServices
    from hearth.packs.agents.agent import Agent


@pytest.fixture
def service(tmp_path: Path) -> AgentService:
    places = SimpleNamespace(agents=str(tmp_path / "agents"), agent_tokens=lambda: str(tmp_path / "tokens"))
    hub = Hub(Config(), str(tmp_path / "learned.json"))
    return AgentService(cast("PackServices", SimpleNamespace(hub=hub, places=places)))


def test_agents_that_ask_for_nothing_may_call_the_tools_that_only_read(service: AgentService) -> None:
    hints = {name: tool.annotations for name, tool in AgentsPack(service).tools.items()}
    assert {name for name, each in hints.items() if each["readOnlyHint"]} == {
        *("wait_for_agent", "get_agent_status", "list_agents", "get_agent_activity"),
        *("list_pending_permissions", "list_providers"),
    }
    # A client that does not know the first hint asks about what it does not know to be harmless.
    assert all(each["destructiveHint"] in (True, False) for each in hints.values() if not each["readOnlyHint"])


async def test_a_file_that_opens_slowly_does_not_hold_the_loop(
    service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, is_open = asyncio.get_running_loop(), threading.Event()

    def load() -> list[AgentRecord]:
        loop.call_soon_threadsafe(is_open.set)
        assert is_open.wait(5)
        return []

    monkeypatch.setattr(service.store, "load", load)
    await service.start()
    await service.stop()


async def test_a_start_that_failed_for_whatever_reason_is_tried_again(
    service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> list[AgentRecord]:
        raise RuntimeError("not foreseen")

    with monkeypatch.context() as patch:
        patch.setattr(service.store, "load", load)
        first, second = service.start(), service.start()
        found = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(each) for each in found] == [RuntimeError, RuntimeError]
    await service.start()
    assert service.hub.agents is not None
    await service.stop()


async def test_a_start_that_is_tried_again_uses_the_file_from_one_thread(
    service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    others, load = list[threading.Thread | None](), AgentStore.load

    def loaded(store: AgentStore) -> list[AgentRecord]:
        others.append(store._writer._thread)
        return load(store)

    async def take_up(service: AgentService, records: object) -> None:
        await service.store.save_durably(AgentRecord(id="a1", provider="echo", cwd="/", status="closed"))
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(AgentStore, "load", loaded)
    with monkeypatch.context() as patch:
        patch.setattr(restart, "take_up", take_up)
        with pytest.raises(RuntimeError, match="not foreseen"):
            await service.start()
    await service.start()
    assert set(service.agents) == {"a1"}
    assert others == [None, None]
    await service.stop()


async def test_a_service_that_is_stopped_as_it_starts_takes_up_no_agents(
    service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_open = threading.Event()

    def load() -> list[AgentRecord]:
        assert is_open.wait(10)
        return []

    monkeypatch.setattr(service.store, "load", load)
    starting = asyncio.ensure_future(service.start())
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(service.stop())
    await asyncio.sleep(0)
    is_open.set()
    await asyncio.gather(starting, stopping)
    assert service.hub.agents is None


async def test_no_prompt_is_begun_by_a_service_that_stops(service: AgentService) -> None:
    service.drain()
    # Refused before anything of the agent is touched: there is none.
    with pytest.raises(AgentError, match="the daemon shuts down"):
        await service.begin(cast("Agent", None), "say one")


def test_the_sessions_of_an_agent_that_is_closed_end_with_it(tmp_path: Path) -> None:
    hub = Stage(tmp_path).hub
    agents = hub.agents = FakeAgents()
    for id in ("a1", "a2"):
        agents.add(id)
    closed, other = (hub.open_session(Kept(), "frames", proven=(None, id)) for id in ("a1", "a2"))
    end_sessions(hub, "a1")
    assert (closed.left, other.left, list(hub.sessions)) == (True, False, [other])


async def test_an_agent_that_was_forgotten_does_not_come_back(service: AgentService) -> None:
    await service.start()
    agent = SimpleNamespace(id="a1", record=AgentRecord(id="a1", provider="echo", cwd="/", status="closed"))
    service.agents["a1"] = cast("Agent", agent)
    await service.save(cast("Agent", agent))
    service.forget(cast("Agent", agent))
    # As a wait does that ends with the agent.
    await service.save(cast("Agent", agent))
    await service.store.close()
    assert AgentStore(service.places.agents).load() == []


async def test_notices_that_gave_way_to_a_prompt_are_told_when_it_is_refused(
    service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(text: str, mode: str | None) -> None:
        raise AgentError("no such mode")

    await service.start()
    told: list[str] = []
    monkeypatch.setattr(service.delivery, "tell_all_soon", lambda: told.append("all"))
    agent = SimpleNamespace(id="a1", prompt=refuse, turn=None, is_closed=False)
    with pytest.raises(AgentError, match="no such mode"):
        await service.begin(cast("Agent", agent), "say one", "swift")
    assert told == ["all"]
    await service.stop()
