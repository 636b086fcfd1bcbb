"""Who acts on which agent, and the modes of children."""

from typing import NamedTuple

import pytest

from hearth.errors import Refused
from hearth.packs.agents.identity.authority import (
    AgentCaller,
    UnknownAgent,
    ancestors,
    check,
    inherited_mode,
    may_act,
)
from hearth.packs.agents.model import AgentRecord


class _Recorded(NamedTuple):
    record: AgentRecord


def tree(**parents: str | None) -> dict[str, _Recorded]:
    return {
        id: _Recorded(AgentRecord(id=id, provider="echo", cwd="/", parent_id=parent)) for id, parent in parents.items()
    }


AGENTS = tree(lead=None, child="lead", grandchild="child", stranger=None, looped="looped")


def test_the_nearest_ancestor_comes_first() -> None:
    assert ancestors(AGENTS, "grandchild") == ["child", "lead"]
    assert ancestors(AGENTS, "looped") == ["looped"]
    assert ancestors(AGENTS, "nobody") == []


def test_an_agent_acts_on_its_descendants_and_others_on_all() -> None:
    lead = AgentCaller("lead")
    assert [id for id in AGENTS if may_act(lead, AGENTS, id)] == ["child", "grandchild"]
    assert all(may_act(AgentCaller(), AGENTS, id) for id in AGENTS)
    with pytest.raises(UnknownAgent, match="Agent nobody not found"):
        check(lead, AGENTS, "nobody")
    with pytest.raises(Refused, match="is not a descendant of agent lead"):
        check(lead, AGENTS, "lead")


@pytest.mark.parametrize(
    ("mode", "available", "found"),
    [
        ("plan", ["read-only", "auto", "full-access"], "read-only"),
        ("acceptEdits", ["read-only", "auto", "full-access"], "auto"),
        ("bypassPermissions", ["read-only", "auto", "full-access"], "full-access"),
        ("read-only", ["default", "plan"], "plan"),
        ("auto", ["default", "plan"], "default"),
        ("plan", ["default", "plan"], "plan"),
        ("architect", ["default"], None),
        (None, ["default"], None),
        ("plan", [], None),
    ],
)
def test_a_childs_mode_means_what_its_parents_means(mode: str | None, available: list[str], found: str | None) -> None:
    assert inherited_mode(mode, available) == found
