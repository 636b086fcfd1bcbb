"""A hub with the packs `self-id` and `team`, and agents on record that call their tools through sessions."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hearth.config import Config
from hearth.config.model import TeamSettings, pack_spec
from hearth.hub.hub import Hub
from hearth.hub.sessions import Session
from hearth.packs import self_id, team
from hearth.packs.agents.model import AgentRecord, NoticeKind, Worktree, new_agent_id
from hearth.packs.agents.notices.outbox import Notices
from hearth.packs.agents.store import AgentStore
from hearth.upstreams.pack_api import Pack
from hearth.wire import json as wire
from unit.conversations import until
from unit.hub.outlets import Kept


class FakeAgent:
    """Fake of a running agent: its record."""

    def __init__(self, record: AgentRecord) -> None:
        self.record = record


class Delivery(NamedTuple):
    """Delivery of notices by blocking tools only; no agent has a process that could be prompted."""

    notices: Notices


class FakeService:
    """Fake of the service of the pack `agents`, which needs processes that speak ACP; the store is the real one."""

    def __init__(self, hub: Hub, folder: str) -> None:
        self.hub = hub
        self.agents: dict[str, FakeAgent] = {}
        self.store = AgentStore(folder)
        self.changes: list[str] = []
        self.notices: list[tuple[str, str, str]] = []
        self.delivery = Delivery(Notices(self.store, lambda agent_id: None))

    def record_changed(self, record: AgentRecord) -> None:
        self.changes.append(record.id)

    async def notify(self, recipient_id: str, child_id: str, kind: NoticeKind) -> None:
        self.notices.append((recipient_id, child_id, kind))

    def take_message_notices(self, recipient_id: str) -> list[str]:
        taken = [each for each in self.notices if each[0] == recipient_id and each[2] == "message"]
        self.notices = [each for each in self.notices if each not in taken]
        return [child_id for _, child_id, _ in taken]


class TeamStage:
    """A hub with both packs, as the daemon serves them."""

    def __init__(self, folder: Path, file_pr: Sequence[str] = ()) -> None:
        packs = {name: pack_spec(name, enabled=True) for name in ("self-id", "team")}
        config = Config(packs=packs, team=TeamSettings(file_pr=tuple(file_pr)))
        self.hub = Hub(config, str(folder / "learned.json"), create_pack=self._create)
        self.service = FakeService(self.hub, str(folder / "agents"))
        self.store = self.service.store
        self._tag = 0

    async def stop(self) -> None:
        await self.hub.stop()
        await self.store.close()

    def _create(self, name: str) -> Pack:
        return self_id.create(self) if name == "self-id" else team.create(self)

    def agents(self) -> FakeService:
        return self.service

    def agent(
        self,
        parent: AgentRecord | None = None,
        role: str | None = None,
        title: str | None = None,
        cwd: Path | str = "/work",
        worktree: Worktree | None = None,
        **keys: Any,
    ) -> AgentRecord:
        record = AgentRecord(
            id=new_agent_id(),
            provider="echo",
            cwd=worktree.path if worktree else str(cwd),
            parent_id=parent.id if parent else None,
            role=role,
            title=title,
            worktree=worktree,
            **{"status": "running", **keys},
        )
        self.service.agents[record.id] = FakeAgent(record)
        return record

    def client(self, record: AgentRecord | None = None) -> "ToolCaller":
        return ToolCaller(self, record)


class ToolCaller:
    """Client of the hub: an agent, as its token proves, or a client that proves nothing."""

    def __init__(self, stage: TeamStage, record: AgentRecord | None) -> None:
        self._stage = stage
        self._next = 0
        self.sink = Kept()
        proven = (None, record.id) if record else (None, None)
        self.session: Session = stage.hub.open_session(self.sink, "lines", proven=proven)
        info = {"name": "tester", "version": "1"}
        self.begin("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        self.send({"method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        self._stage._tag += 1
        line = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._stage.hub.receive(self.session, self._stage._tag, wire.parse(line), False, False)

    def begin(self, method: str, **params: Any) -> int:
        self._next += 1
        self.send({"id": self._next, "method": method, "params": params})
        return self._next

    def begin_call(self, tool: str, **arguments: Any) -> int:
        server = "self-id" if tool.startswith("set_") else "team"
        return self.begin("tools/call", name=f"{server}__{tool}", arguments=arguments)

    def cancel(self, id: int) -> None:
        self.send({"method": "notifications/cancelled", "params": {"requestId": id}})

    async def answer(self, id: int) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            parts = [part for said in self.sink.said for part in said if isinstance(part, bytes)]
            return next((each for part in parts if (each := json.loads(part)).get("id") == id), None)

        await until(lambda: found() is not None, f"answer to {id}")
        answer = found()
        assert answer is not None
        return answer

    async def list(self) -> dict[str, dict[str, Any]]:
        listed = await self.answer(self.begin("tools/list"))
        return {tool["name"]: tool for tool in listed["result"]["tools"]}

    async def result(self, id: int) -> Any:
        result = (await self.answer(id))["result"]
        assert not result.get("isError"), result
        return result["structuredContent"]

    async def call(self, tool: str, **arguments: Any) -> Any:
        return await self.result(self.begin_call(tool, **arguments))

    async def refusal(self, tool: str, **arguments: Any) -> str:
        result = (await self.answer(self.begin_call(tool, **arguments)))["result"]
        assert result.get("isError"), result
        return str(result["content"][0]["text"])
