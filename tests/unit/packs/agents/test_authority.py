"""Authority of agents over others, and the modes of children."""

from typing import NamedTuple

import pytest

from hearth.errors import Refused
from hearth.packs.agents import providers
from hearth.packs.agents.identity.authority import (
    AgentCaller,
    UnknownAgent,
    ancestors,
    check,
    inherited_mode,
    may_act,
)
from hearth.packs.agents.model import AgentRecord
from hearth.packs.agents.providers import never_asks


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


# As `tests/real` finds them; those of `codex` 0.16, its predecessor's, come last.
CLAUDE = ("default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions")
CODEX = ("agent", "read-only", "workspace-write", "agent-full-access")
GEMINI = ("default", "autoEdit", "yolo", "plan")
OPENCODE = ("build", "plan")
OLDER_CODEX = ("auto", "read-only", "full-access")
KNOWN = providers.known({}, {})
# Mode of a child, by its parent's provider and mode. The first mode of a provider is the one that a session begins in.
INHERITED = [
    ("claude", "plan", {"claude": "plan", "codex": "read-only", "gemini": "plan"}),
    ("claude", "default", {"claude": "default", "codex": "read-only", "gemini": "default"}),
    ("claude", "dontAsk", {"claude": "dontAsk", "codex": "read-only", "gemini": "default"}),
    ("claude", "acceptEdits", {"claude": "acceptEdits", "codex": "read-only", "gemini": "autoEdit"}),
    ("claude", "auto", {"claude": "auto", "codex": "agent", "gemini": "autoEdit"}),
    ("claude", "bypassPermissions", {"codex": "agent-full-access", "gemini": "yolo", "opencode": "build"}),
    ("codex", "read-only", {"claude": "plan", "codex": "read-only", "gemini": "plan"}),
    ("codex", "workspace-write", {"claude": "acceptEdits", "codex": "workspace-write", "gemini": "autoEdit"}),
    ("codex", "agent", {"claude": "auto", "codex": "agent", "gemini": "autoEdit"}),
    ("codex", "agent-full-access", {"claude": "bypassPermissions", "gemini": "yolo", "opencode": "build"}),
    ("gemini", "default", {"claude": "default", "codex": "read-only", "gemini": "default"}),
    ("gemini", "autoEdit", {"claude": "acceptEdits", "codex": "read-only", "gemini": "autoEdit"}),
    ("gemini", "yolo", {"claude": "bypassPermissions", "codex": "agent-full-access"}),
    ("gemini", "plan", {"claude": "plan", "codex": "read-only"}),
    # Its modes are not told apart from others of these names; its own config says what they ask.
    ("opencode", "plan", {"claude": "plan", "codex": "read-only", "gemini": "plan", "opencode": "plan"}),
    ("opencode", "build", {"claude": "default", "codex": "read-only", "gemini": "default", "opencode": "build"}),
    # Modes of other programs, and agents without modes, are taken to ask about everything.
    ("mine", "architect", {"claude": "default", "codex": "read-only", "gemini": "default"}),
    ("mine", None, {"claude": "default", "codex": "read-only", "gemini": "default"}),
]
OFFERED = {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI, "opencode": OPENCODE}


@pytest.mark.parametrize(
    ("parent", "child", "found"),
    [((provider, mode), child, found) for provider, mode, all in INHERITED for child, found in all.items()],
)
def test_a_child_begins_in_a_mode_that_asks_no_less_than_its_parents(
    parent: tuple[str, str | None], child: str, found: str
) -> None:
    assert inherited_mode(parent, KNOWN[child], OFFERED[child], OFFERED[child][0]) == found


@pytest.mark.parametrize("mode", [*CLAUDE[:3], "dontAsk", *GEMINI[:2], "read-only", "workspace-write", "build", None])
def test_no_parent_whose_mode_asks_has_a_child_that_never_does(mode: str | None) -> None:
    for name, offered in OFFERED.items():
        # Whatever a session of the child begins in.
        for current in offered:
            if name == "opencode":
                with pytest.raises(Refused, match=r"no mode of 'opencode' is known to ask .*: build, plan"):
                    inherited_mode(("mine", mode), KNOWN[name], offered, current)
            else:
                assert not never_asks(KNOWN[name], inherited_mode(("mine", mode), KNOWN[name], offered, current))


@pytest.mark.parametrize(
    ("parent", "available", "found"),
    [
        # No mode asks as much: the one that asks most.
        (("claude", "plan"), ["agent", "workspace-write"], "workspace-write"),
        (("gemini", "plan"), ["yolo", "autoEdit", "default"], "default"),
        (("claude", "default"), OLDER_CODEX, "read-only"),
        (("claude", "bypassPermissions"), OLDER_CODEX, "full-access"),
        # Modes that are not known are not guessed.
        (("claude", "default"), ["wild", "default"], "default"),
        (("codex", "wild"), ["wild", "agent"], "wild"),
        (("claude", "plan"), [], None),
        ((None, None), [], None),
    ],
)
def test_of_modes_that_ask_less_a_child_gets_the_one_that_asks_most(
    parent: tuple[str, str | None], available: list[str], found: str | None
) -> None:
    assert inherited_mode(parent, KNOWN["codex"], available, next(iter(available), None)) == found


@pytest.mark.parametrize("available", [["wild"], ["agent", "agent-full-access"]])
def test_a_child_whose_modes_are_not_known_to_ask_is_refused(available: list[str]) -> None:
    with pytest.raises(Refused, match=r"known to ask as much as yours \(default\): give one of its modes \(mode\)"):
        inherited_mode(("claude", "default"), KNOWN["codex"], available, available[0])
