"""The decision: its order, its doubts, and what it remembers."""

import json
from pathlib import Path

import pytest

from hearth.policy import decision as decisions
from hearth.policy.decision import PLANS_LIMIT, decide
from hearth.policy.loader import parse
from hearth.policy.model import Decision, Policy, stricter

from .conftest import Decide

BASE = """
default_role = "dev"
[permissions.push]
tool = "Bash"
command = ["git push {remote:word} {branch:branch}", "git push -u {remote:word} {branch:branch}"]
[permissions.remove]
tool = "Bash"
command = "rm {files:path...}"
[permissions.read]
tool = "Read"
arguments = { file_path = "{path:path}" }
[permissions.merge]
tool = "github__merge"
[permissions.comment]
tool = "github__comment"
arguments = { issue = "{issue:word}", "*" = "*" }
[roles.dev]
tools = ["github__*"]
"""


def policy(role: str = "", rest: str = "") -> Policy:
    return parse("/x/policy.toml", (BASE + role + "\n" + rest).encode())


def bash(found: Policy, command: str, workspace: str | None = "/nowhere/at/all") -> Decision:
    return decide(found, "dev", None, "Bash", json.dumps({"command": command}).encode(), workspace)


def rule(decide: str, text: str) -> str:
    return f'[[rules]]\ndecide = "{decide}"\n{text}\n'


def test_a_tool_outside_of_the_role_is_denied_with_the_reason_role() -> None:
    assert decide(policy(), "dev", "gitlab", "x", None, None) == ("deny", "", "role", "policy.toml:18")


def test_a_role_that_is_not_in_the_policy_may_do_nothing() -> None:
    found = decide(policy(), "nobody", "github", "x", None, None)
    assert (found.outcome, found.source) == ("deny", "built in")


def test_a_tool_of_the_role_that_no_permission_names_is_allowed() -> None:
    assert decide(policy(), "dev", "github", "x", None, None).outcome == "allow"


@pytest.mark.parametrize(("otherwise", "outcome"), [("allow", "allow"), ("ask", "ask"), ("deny", "deny")])
def test_a_tool_that_a_permission_names_needs_a_grant(otherwise: str, outcome: str) -> None:
    found = policy(f'otherwise = "{otherwise}"')
    assert decide(found, "dev", "github", "merge", None, None).outcome == outcome
    granted = policy(f'otherwise = "{otherwise}"\ngrants = ["merge"]')
    assert decide(granted, "dev", "github", "merge", None, None).outcome == "allow"


def test_a_permission_reaches_further_for_taking_away_than_for_giving() -> None:
    text = BASE + 'otherwise = "deny"\ngrants = ["close"]\n[permissions.close]\ntool = "github__close_*"\n'
    found = parse("/x/policy.toml", text.replace("github__*", "github__**").encode())
    assert decide(found, "dev", "github", "close_it", None, None).outcome == "allow"
    # Neither granted, nor free because no permission names it.
    assert decide(found, "dev", "github", "close_a__b", None, None).outcome == "deny"


def test_a_grant_with_a_pattern_holds_for_its_values_only() -> None:
    found = policy('grants = ["comment(1*)"]')
    assert decide(found, "dev", "github", "comment", b'{"issue": "12", "body": "x"}', None).outcome == "allow"
    assert decide(found, "dev", "github", "comment", b'{"issue": 12}', None).outcome == "allow"
    assert decide(found, "dev", "github", "comment", b'{"issue": "2"}', None).outcome == "ask"
    assert decide(found, "dev", "github", "comment", b"{}", None).outcome == "ask"
    assert decide(found, "dev", "github", "comment", None, None).outcome == "ask"


def test_a_clients_own_tool_that_nothing_decides_is_decided_by_otherwise() -> None:
    assert decide(policy('otherwise = "deny"'), "dev", None, "Frobnicate", b"{}", None).outcome == "deny"
    assert decide(policy(), "dev", None, "Frobnicate", None, None) == (
        "ask",
        "lead",
        "no rule and no grant of role 'dev' covers it",
        "policy.toml:17",
    )


def test_the_first_rule_that_matches_decides_before_grants() -> None:
    found = policy('grants = ["merge"]', rule("deny", 'tool = "github__merge"') + rule("allow", 'tool = "github__*"'))
    assert decide(found, "dev", "github", "merge", None, None).outcome == "deny"
    assert decide(found, "dev", "github", "x", None, None).outcome == "allow"


@pytest.mark.parametrize(("word", "level"), [("ask", "lead"), ("ask_lead", "lead"), ("ask_human", "human")])
def test_a_rule_says_who_is_asked(word: str, level: str) -> None:
    found = decide(policy("", rule(word, 'tool = "github__*"\nreason = "so"')), "dev", "github", "x", None, None)
    assert found == ("ask", level, "so", "policy.toml:21")


def test_a_rule_for_another_role_does_not_count() -> None:
    found = policy("[roles.tl]", rule("deny", 'tool = "github__*"\nrole = "tl"'))
    assert decide(found, "dev", "github", "x", None, None).outcome == "allow"


def test_a_rule_does_not_give_a_tool_that_the_role_does_not_have() -> None:
    found = policy("", rule("allow", 'tool = "**"'))
    assert decide(found, "dev", "gitlab", "x", None, None).outcome == "deny"


def test_a_rule_about_names_holds_for_clients_own_tools_too() -> None:
    found = policy("", rule("deny", 'tool = "Bash"'))
    assert bash(found, "git status").outcome == "deny"
    assert decide(policy("", rule("allow", 'tool = "*"')), "dev", None, "Frobnicate", None, None).outcome == "allow"


# --- rules that take away, and doubt


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ("git push origin main", "deny"),
        ("git push -u origin main", "deny"),
        ("git push origin MAIN", "deny"),
        ("ls && git push origin main", "deny"),
        ("git push origin dev", "allow"),
        ("git status", "allow"),
        ("ls -la", "allow"),
        ("git push -f origin main", "ask"),
        ("git push origin dev:main", "ask"),
        ("git push origin HEAD", "ask"),
        ("git -C . push origin main", "ask"),
        ("/usr/bin/git push origin main", "ask"),
        ("sudo git push origin main", "ask"),
        ("git send-pack origin main", "ask"),
        ("find . -exec git push origin main ';'", "ask"),
        ("uv run git push origin main", "ask"),
        ("taskset 1 /usr/bin/git -C . push origin main", "ask"),
        ("npx git push origin main", "ask"),
        ("which git", "allow"),
        ("grep push git", "allow"),
        ("sh -c 'git push origin main'", "ask"),
        ("git push origin $x", "ask"),
        ("$x push origin main", "ask"),
        ("git push origin main > out", "ask"),
        ("ls *.py", "ask"),
        ("x" * 20_000, "ask"),
    ],
)
def test_a_rule_that_denies_asks_where_it_is_in_doubt(command: str, outcome: str) -> None:
    found = policy('otherwise = "allow"', rule("deny", 'permission = "push(branch=main)"'))
    assert bash(found, command).outcome == outcome


@pytest.mark.parametrize("branch", ["HEAD", "head", "refs/heads/main", "a..b", "main.lock"])
def test_a_value_that_is_not_of_its_kind_is_a_doubt_of_every_template(branch: str) -> None:
    one = BASE.replace(', "git push -u {remote:word} {branch:branch}"', "")
    text = one + 'otherwise = "allow"\n' + rule("deny", 'permission = "push(branch=main)"')
    assert bash(parse("/x/policy.toml", text.encode()), f"git push origin {branch}").outcome == "ask"


def test_doubt_never_loosens_what_would_be_denied_otherwise() -> None:
    found = policy('otherwise = "deny"', rule("ask", 'permission = "push(branch=main)"'))
    assert bash(found, "git push -f origin main").outcome == "deny"
    assert bash(found, "git push origin $x").outcome == "deny"
    assert bash(found, "git push origin main").outcome == "ask"


def test_a_rule_that_asks_a_person_has_its_doubts_answered_by_a_person() -> None:
    found = policy("", rule("ask_human", 'permission = "push(branch=main)"'))
    assert bash(found, "git push -f origin main").level == "human"
    assert bash(found, "git push origin $x").level == "human"
    # Without the program's name, or a way to make it, there is no doubt.
    assert bash(found, "ls *.py").level == "lead"


def test_one_value_of_several_is_enough_for_a_rule_that_denies(project: Path) -> None:
    found = policy('grants = ["remove(./**)"]', rule("deny", 'permission = "remove(./src/**)"'))
    assert bash(found, "rm README.md", str(project)).outcome == "allow"
    assert bash(found, "rm README.md src/a.py", str(project)).outcome == "deny"
    assert bash(found, "rm README.md SRC/a.py", str(project)).outcome == "deny"
    assert bash(found, "rm README.md ../x", str(project)).outcome == "ask"


def test_a_rule_that_allows_needs_certainty() -> None:
    found = policy('otherwise = "deny"', rule("allow", 'permission = "push(branch=dev)"'))
    assert bash(found, "git push origin dev").outcome == "allow"
    assert bash(found, "git push -f origin dev").outcome == "deny"


def test_the_guard_holds_where_everything_else_is_denied(project: Path) -> None:
    text = BASE.replace('tools = ["github__*"]', 'tools = ["github__*"]\notherwise = "deny"\ngrants = ["write"]')
    text += '[permissions.write]\ntool = "Write"\narguments = { file_path = "{path:path}" }\n'
    found = parse("/x/policy.toml", text.encode())
    for path, outcome in (("src/a.py", "allow"), (".hearth/policy.toml", "deny"), ("notes.txt", "deny")):
        raw = json.dumps({"file_path": path}).encode()
        assert decide(found, "dev", None, "Write", raw, str(project)).outcome == outcome, path


# --- commands


def test_the_strictest_part_of_a_compound_command_counts() -> None:
    found = policy(
        'grants = ["push"]',
        rule("deny", 'permission = "push(branch=main)"') + rule("ask_human", 'permission = "push(branch=live)"'),
    )
    assert bash(found, "git push o x && git push o y").outcome == "allow"
    assert bash(found, "git push o x; ls").outcome == "ask"
    assert bash(found, "git push o live | ls").level == "human"
    assert bash(found, "git push o live || git push o main && ls").outcome == "deny"


def test_the_reason_says_why_no_grant_matched(dev: Decide) -> None:
    assert "'-f' is an option that the permission does not list" in dev("Bash", "git push -f origin feature/x").reason
    assert "is not 'feature/**'" in dev("Bash", "git push origin other").reason
    assert "outside the workspace" in dev("Read", {"file_path": "/etc/passwd"}).reason
    assert "a redirection" in dev("Bash", "pytest > x").reason
    assert "have a key twice" in dev("Bash", b'{"command": "x", "command": "y"}').reason


def test_paths_behind_a_change_of_folder_are_not_granted(dev: Decide) -> None:
    assert dev("Bash", "git add src").outcome == "allow"
    decision = dev("Bash", "cd src && git add a.py")
    assert decision.outcome == "ask"


# --- arguments


def test_arguments_are_not_decoded_where_nothing_looks_at_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(arguments: bytes | None) -> object:
        raise AssertionError

    monkeypatch.setattr(decisions, "decoded", never)
    found = policy('grants = ["merge"]', rule("ask", 'tool = "github__close_*"'))
    for tool in ("x", "merge", "close_it"):
        assert decide(found, "dev", "github", tool, b"not even JSON", None).outcome in ("allow", "ask")


def test_arguments_are_not_looked_at_where_everything_is_allowed() -> None:
    found = policy('otherwise = "allow"\ngrants = ["comment(1)"]')
    assert decide(found, "dev", "github", "comment", b"not even JSON", None).outcome == "allow"


def test_unreadable_arguments_of_a_guarded_tool_are_asked_even_where_everything_is_allowed() -> None:
    found = policy('otherwise = "allow"')
    assert decide(found, "dev", None, "Bash", b"not even JSON", None).outcome == "ask"
    assert decide(found, "dev", None, "Read", b"not even JSON", None).outcome == "allow"


def test_decisions_by_name_are_remembered_within_a_bound() -> None:
    found = policy()
    first = decide(found, "dev", "github", "x", None, None)
    assert decide(found, "dev", "github", "x", None, None) is first
    for number in range(PLANS_LIMIT + 10):
        decide(found, "dev", None, f"tool{number}", None, None)
    assert len(found.plans) <= PLANS_LIMIT


def test_a_policy_that_was_changed_remembers_nothing() -> None:
    found = policy()
    decide(found, "dev", "github", "x", None, None)
    assert found.replace(rules=()).plans == {}


def test_the_stricter_decision_is_the_one_that_lets_less_through() -> None:
    allow, lead = Decision("allow", "", "", ""), Decision("ask", "lead", "", "")
    human, deny = Decision("ask", "human", "", ""), Decision("deny", "", "", "")
    order = [allow, lead, human, deny]
    for index, one in enumerate(order):
        for other in order[index:]:
            assert stricter(one, other) is other or one == other
            assert stricter(other, one) == other
