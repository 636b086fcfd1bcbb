"""The caller of a hook: its role, and the project whose policy it is held to, wherever it has moved."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hearth.hub.agent_directory import ProcessOwner
from hearth.hub.authorization.guard import Guard
from hearth.hub.authorization.hook_decider import HookDecider
from hearth.hub.authorization.hooks import HookCaller
from hearth.hub.sessions import Session
from hearth.policy.loader import parse
from hearth.policy.trust import ProjectPolicies, project_file

USER = b'default_role = "dev"\n[roles.dev]\notherwise = "allow"\n'
PROJECT = (
    b'[[rules]]\ntool = "Bash"\ndecide = "deny"\nreason = "not here"\n'
    b'[[stop_checks]]\nkind = "committed"\nmessage = "commit first"\n'
)


class Recorded:
    """Recorder that forgets."""

    def call(self, *_: object) -> None:
        pass

    async def approval(self, *_: object) -> None:
        pass

    def event(self, *_: object) -> None:
        pass


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    found = Guard(
        parse("/c/policy.toml", USER), cast(Any, SimpleNamespace(roles=None)), Recorded(), cast(Any, SimpleNamespace())
    )
    folder = str(tmp_path / "shop")
    found.projects = ProjectPolicies({folder: parse(project_file(folder), PROJECT)})
    return found


async def verdict(guard: Guard, tmp_path: Path, began: Path | None, moved: Path) -> str:
    """What is decided about a command of a client that began in one folder and is in another now."""
    session = None
    if began:
        session = cast(Session, SimpleNamespace(id="s", principal="p", cwd=str(began), token_role=None, role=None,
                                                client={}, agent_id=None, proven=(None, None)))  # fmt: skip

    async def owner_of(pid: int | None) -> ProcessOwner:
        return ProcessOwner([session] if session else [])

    decider = HookDecider(guard, Recorded(), owner_of)
    who = HookCaller("claude", "x", 1, None, str(moved))
    found = await decider.decide_tool(who, None, "Bash", json.dumps({"command": "make"}).encode(), str(moved))
    return found.kind


async def test_an_agent_that_moves_out_of_its_project_stays_under_the_project_s_policy(
    guard: Guard, tmp_path: Path
) -> None:
    shop, other = tmp_path / "shop", tmp_path / "other"
    assert await verdict(guard, tmp_path, shop, other) == "deny"
    assert await verdict(guard, tmp_path, other, other) == "allow"


async def test_without_a_session_the_folder_of_the_hook_counts(guard: Guard, tmp_path: Path) -> None:
    assert await verdict(guard, tmp_path, None, tmp_path / "shop" / "src") == "deny"
    assert await verdict(guard, tmp_path, None, tmp_path) == "allow"


def test_stop_checks_of_a_project_are_added(guard: Guard, tmp_path: Path) -> None:
    assert [check.message for check in guard.policy_for(str(tmp_path / "shop")).stop_checks] == ["commit first"]
    assert guard.policy_for(str(tmp_path)).stop_checks == ()
