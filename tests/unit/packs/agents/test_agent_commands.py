"""Results of commands about agents: a person's as they are, those of anybody else without secrets."""

from pathlib import Path
from typing import Any

import pytest

from hearth.errors import Refused
from hearth.masking import MASK, Mask
from hearth.packs.agents.permissions import commands
from unit.hub.authorization.agents_stage import AgentStage

SECRET = "tr0ub4dor&3-of-the-provider"


async def test_below_an_agent_secrets_are_masked_and_for_a_person_they_are_not(tmp_path: Path) -> None:
    stage = AgentStage(tmp_path)
    stage.agents.add("a1")
    asker, _ = stage.session(agent="a1")
    kept = Mask([SECRET])
    found = {"seq": 1, "text": f"key: {SECRET}", "labels": {"a": [SECRET, None, 2]}}
    for guard in (None, stage.guard):
        told = await commands.admit(guard, "show", {"agentId": "a2"}, asker)
        assert await told(found) == {"seq": 1, "text": f"key: {MASK}", "labels": {"a": [MASK, None, 2]}}
        told = await commands.admit(guard, "show", {"agentId": "a2"}, None)
        assert await told(found) is found
    assert kept(SECRET) == MASK


@pytest.mark.parametrize(
    ("verb", "given", "seen"),
    [
        ("create", {"prompt": "x", "mode": "plan", "cwd": None}, {"initialPrompt": "x", "initialMode": "plan"}),
        ("mode", {"agentId": "a2", "modeId": "plan"}, {"agentId": "a2", "modeId": "plan"}),
        (
            "respond",
            {"agentId": "a2", "requestId": "r", "behavior": "deny", "message": "no"},
            {"agentId": "a2", "requestId": "r", "response": {"behavior": "deny", "message": "no"}},
        ),
        ("log", {"agentId": "a2", "follow": True, "count": 3}, {"agentId": "a2"}),
    ],
)
def test_rules_see_the_arguments_that_the_tool_would_have(
    verb: str, given: dict[str, Any], seen: dict[str, Any]
) -> None:
    assert commands._of_tool(verb, given) == seen


async def test_rules_and_roles_hold_for_commands(tmp_path: Path) -> None:
    rule = '[[rules]]\ntool = "agents__kill_agent"\ndecide = "deny"\nreason = "not today"\n'
    stage = AgentStage(tmp_path, f'default_role = "dev"\n[roles.dev]\ntools = ["agents__kill_*"]\n{rule}')
    stage.agents.add("a1")
    asker, _ = stage.session(agent="a1")
    with pytest.raises(Refused, match="agents__kill_agent in role 'dev': denied by policy: not today"):
        await commands.admit(stage.guard, "kill", {"agentId": "a2"}, asker)
    with pytest.raises(Refused, match="tool 'agents__list_agents' not available for role 'dev'"):
        await commands.admit(stage.guard, "list", {}, asker)
