"""Members of an agent's team: the agents of its tree, and how a tool names one of them. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hearth.packs.agents.identity.authority import caller_of
from hearth.packs.agents.model import AgentRecord
from hearth.packs.team.schemas import one_line
from hearth.upstreams.pack_api import CallContext, ToolError

if TYPE_CHECKING:
    from hearth.packs import PackServices

PARENT = "parent"
# Members in an error message; a team has seldom more.
SHOWN_MEMBERS = 20


class Roster:
    """Team of one agent, at one moment."""

    def __init__(self, caller: AgentRecord, agents: Iterable[AgentRecord]) -> None:
        self.caller = caller
        records = {each.id: each for each in agents}
        top = _top(caller, records)
        self._members = {
            id: each for id, each in records.items() if id != caller.id and _top(each, records).id == top.id
        }

    @classmethod
    def of(cls, services: "PackServices", context: CallContext) -> "Roster":
        """Return the team of the agent that calls a tool. Raises ToolError."""
        return cls(caller_of(services, context), [each.record for each in services.agents().agents.values()])

    def get(self, agent_id: str) -> AgentRecord | None:
        """Return a member, or the caller itself."""
        return self.caller if agent_id == self.caller.id else self._members.get(agent_id)

    def others(self) -> list[AgentRecord]:
        """Return the other agents of the team."""
        return list(self._members.values())

    @property
    def workspace(self) -> str:
        """Name of the list of tasks: the folder that the team was created from, else the tree itself."""
        top = _top(self.caller, self._members)
        return top.workspace or f"tree:{top.id}"

    def above(self, record: AgentRecord) -> list[AgentRecord]:
        """Return the agents above one, nearest first."""
        found: list[AgentRecord] = []
        while record.parent_id is not None and (parent := self.get(record.parent_id)) and parent not in found:
            found.append(parent)
            record = parent
        return found

    def find(self, name: str) -> AgentRecord:
        """Return the member with an id, a role or a title, or the parent. Raises ToolError.

        Ids come first, then roles: a title is the agent's own choice, and must not draw what is meant for another.
        """
        if name == PARENT:
            return self.parent()
        if (exact := self._members.get(name)) is not None:
            return self._open(exact)
        if name == self.caller.id:
            raise ToolError("that is yourself; name another agent of your team")
        wanted = name.strip().casefold()
        members = [each for each in self._members.values() if each.status != "closed"]
        by_role = [each for each in members if (each.role or "").casefold() == wanted]
        found = by_role or [each for each in members if (one_line(each.title) or "").casefold() == wanted]
        if len(found) == 1 and wanted:
            return found[0]
        if len(found) > 1 and wanted:
            raise ToolError(f"{len(found)} agents are called {name!r}; use an id: {_listed(found)}")
        team = f"your team: {_listed(members)}" if members else "there is no other agent in your team"
        raise ToolError(f"no agent {name!r} is in your team; {team}")

    def parent(self) -> AgentRecord:
        """Return the parent. Raises ToolError."""
        if self.caller.parent_id is None:
            raise ToolError(
                "you have no parent agent: a person or a client created you, and reads the last message of your turn"
            )
        parent = self._members.get(self.caller.parent_id)
        if parent is None:
            raise ToolError(f"your parent, agent {self.caller.parent_id}, does not exist any more")
        return self._open(parent)

    def _open(self, record: AgentRecord) -> AgentRecord:
        if record.status == "closed":
            raise ToolError(f"agent {record.id} is closed, and reads nothing any more")
        return record


def _top(record: AgentRecord, records: Mapping[str, AgentRecord]) -> AgentRecord:
    """Return the top of an agent's tree: the one that no agent on record has created."""
    seen = {record.id}
    while record.parent_id is not None and record.parent_id not in seen and record.parent_id in records:
        record = records[record.parent_id]
        seen.add(record.id)
    return record


def _listed(members: Sequence[AgentRecord]) -> str:
    shown = [f"{each.id} ({each.role or 'no role'}, {one_line(each.title)!r})" for each in members[:SHOWN_MEMBERS]]
    return ", ".join(shown) + (f" and {len(members) - SHOWN_MEMBERS} more" if len(members) > SHOWN_MEMBERS else "")
