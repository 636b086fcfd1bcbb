"""Whatever is added to take access away never loosens a decision: a project's policy, and a rule that denies."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hearth.policy.decision import allowed_by_name, decide, sees
from hearth.policy.guard import mentions
from hearth.policy.loader import narrow, parse
from hearth.policy.model import Decision, Policy, stricter

from .slip_attempts import ATTEMPTS, LEGITIMATE

BODY = """
[permissions.push]
tool = "Bash"
command = "git push [-u] {remote:remote} {branch:branch}"
[permissions.add]
tool = "Bash"
command = "git add {files:path...}"
[permissions.read]
tool = "Read"
arguments = { file_path = "{path:path}", "*" = "*" }
[permissions.issue]
tool = "github__create_issue"
"""
GRANTS = ["push", "push(feature/**)", "push(main)", "add", "add(./src/**)", "read", "read(./src/**)", "issue"]
PATTERNS = ["**", "github__*", "github__create_*", "!github__delete_*", "Bash", "*", "!Read"]
SUBJECTS = [*(f'permission = "{grant}"' for grant in GRANTS), 'tool = "**"', 'tool = "github__*"', 'tool = "Bash"']
TAKING = ["deny", "ask", "ask_human"]
CALLS: list[tuple[str | None, str, dict[str, object]]] = [
    *((None, "Bash", {"command": text}) for text in LEGITIMATE if isinstance(text, str)),
    *((None, "Bash", {"command": text}) for text in ATTEMPTS["refspecs"] + ATTEMPTS["options of git"]),
    *((None, "Bash", {"command": text}) for text in ATTEMPTS["redirections"] + ATTEMPTS["compound commands"]),
    *((None, "Read", {"file_path": path}) for path in ("src/a.py", "README.md", "../x", "/etc/passwd", "out/x")),
    *(("github", tool, {}) for tool in ("create_issue", "delete_file", "get_file", "a__b")),
]


def rules(decisions: list[str]) -> st.SearchStrategy[str]:
    one = st.tuples(st.sampled_from(SUBJECTS), st.sampled_from(decisions)).map(
        lambda pair: f'[[rules]]\n{pair[0]}\ndecide = "{pair[1]}"\n'
    )
    return st.lists(one, max_size=3).map("".join)


@st.composite
def policies(draw: st.DrawFn, path: str) -> Policy:
    """Return a user's policy, or a project's."""
    of_project = ".hearth" in path
    tools = ["**", *draw(st.lists(st.sampled_from(PATTERNS), max_size=2))]
    text = "" if of_project else 'default_role = "dev"\n'
    text += f"[roles.dev]\ntools = {json.dumps(tools)}\n"
    text += f"grants = {json.dumps(draw(st.lists(st.sampled_from(GRANTS), max_size=3)))}\n"
    if otherwise := draw(st.sampled_from(["", "allow", "ask", "deny"])):
        text += f'otherwise = "{otherwise}"\n'
    text += BODY + draw(rules(TAKING if of_project else ["allow", *TAKING]))
    return parse(path, text.encode())


def decided(policy: Policy, call: tuple[str | None, str, dict[str, object]], project: Path) -> Decision:
    server, tool, arguments = call
    return decide(policy, "dev", server, tool, json.dumps(arguments).encode(), str(project))


bounded = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@bounded
@given(mine=policies("/x/policy.toml"), theirs=policies("/w/.hearth/policy.toml"), call=st.sampled_from(CALLS))
def test_a_projects_policy_never_loosens(project: Path, mine: Policy, theirs: Policy, call: tuple) -> None:
    before, after = decided(mine, call, project), decided(narrow(mine, theirs), call, project)
    assert stricter(before, after)[:2] == after[:2], (call, before, after)
    if call[0] is not None and sees(narrow(mine, theirs).roles["dev"], "tools", call[0], call[1]):
        assert sees(mine.roles["dev"], "tools", call[0], call[1])


@bounded
@given(mine=policies("/x/policy.toml"), subject=st.sampled_from(SUBJECTS), call=st.sampled_from(CALLS))
def test_one_more_rule_that_denies_never_loosens(project: Path, mine: Policy, subject: str, call: tuple) -> None:
    text = f'default_role = "dev"\n[roles.dev]\n{BODY}[[rules]]\n{subject}\ndecide = "deny"\n'
    rule = parse("/x/policy.toml", text.encode()).rules[0]
    before, after = decided(mine, call, project), decided(mine.replace(rules=(rule, *mine.rules)), call, project)
    assert stricter(before, after)[:2] == after[:2], (call, before, after)


RAW = [b"{}", b"not even JSON", b'{"path": ".hearth/policy.toml"}', b'{"path": "src/a.py"}', b'{"a": 1, "a": 2}']


@bounded
@given(
    mine=policies("/x/policy.toml"),
    theirs=st.none() | policies("/w/.hearth/policy.toml"),
    call=st.sampled_from([call for call in CALLS if call[0] is not None]),
    raw=st.sampled_from(RAW),
)
def test_what_is_allowed_by_name_is_what_the_call_would_be_decided_to(
    project: Path, mine: Policy, theirs: Policy | None, call: tuple, raw: bytes
) -> None:
    policy = mine if theirs is None else narrow(mine, theirs)
    found = allowed_by_name(policy, "dev", call[0], call[1])
    if found is not None and not (found.is_scanned and mentions(raw)):
        assert decide(policy, "dev", call[0], call[1], raw, str(project)) == found.decision
        assert found.decision.outcome == "allow"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: ascii(call)[:60])
def test_one_grant_less_never_loosens(team: Policy, project: Path, call: tuple) -> None:
    before = decided(team, call, project)
    for number in range(len(team.roles["dev"].grants)):
        grants = tuple(grant for index, grant in enumerate(team.roles["dev"].grants) if index != number)
        roles = {**team.roles, "dev": team.roles["dev"].replace(grants=grants)}
        after = decided(team.replace(roles=roles), call, project)
        assert stricter(before, after)[:2] == after[:2]
