"""A guard with approvals and a directory of agents, for tests of the cascade without a daemon."""

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple, cast

from hearth.errors import Refused
from hearth.hub.agent_directory import TOKEN_PREFIX, AgentIdentity
from hearth.hub.authorization.approvals import Approval, Approvals
from hearth.hub.authorization.guard import Guard
from hearth.hub.authorization.pending import (
    SCOPES,
    Approver,
    Asker,
    Pending,
    PendingCall,
    PendingItem,
    Settlement,
)
from hearth.hub.client_requests import ClientRequests
from hearth.hub.sessions import Session, Sessions
from hearth.policy.grants import GrantStore
from hearth.policy.loader import parse
from hearth.policy.role_tokens import RoleTokens
from hearth.policy.stop_checks import NoFacts, StopFacts
from hearth.wire import json as wire_json
from unit.hub.outlets import Kept

TEAM = """
default_role = "dev"
[roles.tl]
lead = true
tools = ["**"]
otherwise = "allow"
may_start = ["dev"]
[roles.dev]
tools = ["**"]
[roles.desk]
human = true
tools = ["**"]
"""


class FakeAgents:
    """Directory of agents that a test writes: those of the pack would start processes."""

    def __init__(self) -> None:
        self.parents: dict[str, str | None] = {}
        self.identities: dict[str, AgentIdentity] = {}
        self.pids: dict[int, str] = {}
        self.marked: dict[str, str] = {}
        self.facts: StopFacts = NoFacts()
        self.told: list[tuple[str, PendingItem]] = []

    def add(self, id: str, role: str | None = None, parent: str | None = None, cwd: str | None = "/") -> str:
        """Add an agent; return its token."""
        self.parents[id] = parent
        self.identities[id] = AgentIdentity(role, cwd, "claude")
        return f"{TOKEN_PREFIX}{id}"

    def close(self, id: str) -> None:
        del self.identities[id]

    def holder(self, token: str) -> tuple[str | None, str] | None:
        id = token.removeprefix(TOKEN_PREFIX)
        return (self.identities[id].role, id) if id in self.identities else None

    def identity(self, agent_id: str) -> AgentIdentity | None:
        return self.identities.get(agent_id)

    def ancestors(self, agent_id: str) -> list[str]:
        parent = self.parents.get(agent_id)
        return [parent, *self.ancestors(parent)] if parent else []

    def processes(self) -> dict[int, str]:
        return dict(self.pids)

    def marks(self) -> dict[str, str]:
        return dict(self.marked)

    def has_made(self, mark: str) -> bool:
        return mark.startswith("ours.")

    def stop_facts(self, agent_id: str) -> StopFacts:
        return self.facts

    def lead_asked(self, lead: str, item: PendingItem) -> None:
        self.told.append((lead, item))


class Recorded:
    """Recorder that keeps what it was given."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def call(self, permit: object) -> None:
        self.rows.append(permit)

    async def approval(self, approval: Approval, outcome: Settlement) -> None:
        self.rows.append((approval.id, outcome))

    def event(self, *row: object) -> None:
        self.rows.append(row)

    def refused(self, *row: object) -> None:
        self.rows.append(row)


class PermissionItem(PendingCall):
    """Permission request of an agent, as the pack has them where there is no policy."""

    kind = "permission"

    def __init__(self, pending: Pending, arguments: bytes = b'{"command":"make"}') -> None:
        super().__init__(Asker("p1", "", client="claude", agent="a1", workspace="/work"), "", "Bash", arguments)
        self._pending = pending

    async def decide(self, action: str, by: Approver, reason: str = "", scope: str = SCOPES[0]) -> str:
        if scope != SCOPES[0]:
            raise Refused("a permission is given for once")
        verdict = "approved" if action == "approve" else "denied"
        self._pending.settle(self, Settlement(verdict, reason, by.name, by.channel))
        return f"permission {self.id} is {verdict}"


class Asked(NamedTuple):
    """Question about a tool, and the approval that it opened, if it did."""

    task: "asyncio.Task[tuple[bool, str]]"
    approvals: list[Approval]


class AgentStage:
    """A guard, its approvals, and sessions."""

    def __init__(self, folder: Path, policy: str = TEAM) -> None:
        self.agents = FakeAgents()
        self.sessions = Sessions()
        self.questions = ClientRequests("d1")
        self.pending = Pending()
        self.recorder = Recorded()
        self.below: dict[int, str] = {}
        self.above: dict[str, list[Session]] = {}
        self._tasks: list[asyncio.Future[object]] = []
        store = GrantStore(str(folder / "grants" / "mcp"), str(folder / "approvals.toml"))
        self.approvals = Approvals(
            self.pending, self.sessions, self.questions, store, self.recorder.approval, self._spawn,
            lambda *_: None, lambda: self.agents, self._agent_above, self._sessions_above,
        )  # fmt: skip
        tokens = RoleTokens(str(folder / "roles" / "tokens.json"))
        self.guard = Guard(
            parse("/c/policy.toml", policy.encode()), self.approvals, self.recorder, tokens, agents=lambda: self.agents
        )

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def _sessions_above(self, session: Session) -> list[Session]:
        return self.above.get(session.id, [])

    async def _agent_above(self, session: Session) -> str | None:
        return self.below.get(session.pid or 0)

    def session(
        self, role: str | None = None, agent: str | None = None, cwd: str = "/", pid: int | None = None
    ) -> tuple[Session, Kept]:
        """Open a session that has proven a role, or an agent; it can be asked by elicitation."""
        sink = Kept()
        member = Session(sink, "frames")
        member.prove(role if agent is None else self.agents.identities[agent].role, agent)
        member.identify(pid, cwd)
        member.speak_legacy("2025-11-25", {"name": "c"}, wire_json.split(b'{"elicitation":{}}'), None)
        self.sessions.add(member)
        return member, sink

    async def ask(
        self, agent: str, tool: str = "Bash", seconds: float | None = None, way: str = "permission", **arguments: object
    ) -> Asked:
        """Ask for a tool as an agent's client does, until the question waits or is answered."""
        approvals: list[Approval] = []
        raw = json.dumps(arguments or {"command": "make"}).encode()
        question = self.guard.obtain(
            self.guard.agent_asker(agent), None, tool, raw, seconds, approvals.append, way
        )  # fmt: skip
        task = asyncio.ensure_future(question)
        while not task.done() and not approvals:
            await asyncio.sleep(0)
        return Asked(task, approvals)


def asked_by_elicitation(sink: Kept) -> list[dict[str, Any]]:
    return [each for each in sink.messages("ask") if each["method"] == "elicitation/create"]


async def settle() -> None:
    """Let everything that is due run."""
    for _ in range(20):
        await asyncio.sleep(0)


def services(**members: object) -> Any:
    """An object with these members, for what needs no more of the daemon."""
    from types import SimpleNamespace

    return cast(Any, SimpleNamespace(**members))
