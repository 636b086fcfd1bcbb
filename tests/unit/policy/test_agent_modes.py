"""The built-in permission `agent_mode(ID)`: granted by the mode's id, and otherwise a person's to decide."""

import pytest

from hearth.errors import ConfigError
from hearth.policy.agent_modes import AGENT_MODE, arguments_of, for_person
from hearth.policy.decision import decide
from hearth.policy.loader import narrow, parse
from hearth.policy.model import Decision, Policy


def policy(role: str = "", rest: str = "") -> Policy:
    text = f'default_role = "dev"\n[roles.dev]\ntools = ["**"]\n{role}\n{rest}'
    return parse("/x/policy.toml", text.encode())


def outcome(found: Policy, mode: str, provider: str = "claude") -> str:
    decision = decide(found, "dev", None, AGENT_MODE, arguments_of(provider, mode), None)
    decision = for_person(decision)
    return f"{decision.outcome} {decision.level}".strip()


@pytest.mark.parametrize(
    ("grant", "mode", "expected"),
    [
        ("agent_mode(bypassPermissions)", "bypassPermissions", "allow"),
        ("agent_mode(bypassPermissions)", "full-access", "ask human"),
        ("agent_mode(accept*)", "acceptEdits", "allow"),
        ("agent_mode(mode=yolo)", "yolo", "allow"),
        ("agent_mode", "anything", "allow"),
        ("agent_mode(*)", "a b", "ask human"),
        ("agent_mode(*)", "-x", "ask human"),
    ],
)
def test_a_grant_covers_the_modes_that_its_pattern_names(grant: str, mode: str, expected: str) -> None:
    assert outcome(policy(f'grants = ["{grant}"]'), mode) == expected


@pytest.mark.parametrize(("otherwise", "expected"), [("allow", "ask human"), ("ask", "ask human"), ("deny", "deny")])
def test_without_a_grant_a_person_is_asked_also_where_the_role_may_do_everything_else(
    otherwise: str, expected: str
) -> None:
    assert outcome(policy(f'otherwise = "{otherwise}"'), "yolo") == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ('tool = "agent_mode"\ndecide = "allow"', "allow"),
        ('tool = "agent_mode"\ndecide = "deny"', "deny"),
        ('tool = "agent_mode"\ndecide = "ask_lead"', "ask human"),
        ('permission = "agent_mode(yolo)"\ndecide = "deny"', "deny"),
        ('permission = "agent_mode(plan)"\ndecide = "deny"', "allow"),
    ],
)
def test_rules_come_before_grants_and_never_ask_a_lead(rule: str, expected: str) -> None:
    assert outcome(policy('grants = ["agent_mode(yolo)"]', f"[[rules]]\n{rule}\n"), "yolo") == expected


def test_a_trusted_project_that_does_not_mention_modes_leaves_a_grant_in_force() -> None:
    granted = policy('grants = ["agent_mode(yolo)"]')
    silent = parse("/p/.hearth/policy.toml", b'[roles.dev]\ntools = ["**"]\n')
    denying = parse("/p/.hearth/policy.toml", b'[[rules]]\ntool = "agent_mode"\ndecide = "deny"\n')
    assert outcome(narrow(granted, silent), "yolo") == "allow"
    assert outcome(narrow(granted, denying), "yolo") == "deny"


def test_a_grant_for_modes_gives_no_tool_of_that_name_away() -> None:
    found = policy('grants = ["agent_mode"]\notherwise = "deny"', '[permissions.x]\ntool = "a__agent_mode"\n')
    assert decide(found, "dev", "a", AGENT_MODE, b"{}", None).outcome == "deny"


def test_the_name_is_taken() -> None:
    with pytest.raises(ConfigError, match="'agent_mode': this permission is built in"):
        policy("", '[permissions.agent_mode]\ntool = "Bash"\n')
    with pytest.raises(ConfigError, match="did you mean 'agent_mode'"):
        policy('grants = ["agent_mod"]')
    assert policy('grants = ["agent_mode(yolo)"]').permissions == {}


def test_only_a_question_changes_its_level() -> None:
    for decision in (Decision("allow", "", "", "x"), Decision("deny", "", "", "x")):
        assert for_person(decision) == decision
