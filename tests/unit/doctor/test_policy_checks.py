"""What doctor makes of a policy, of role tokens and of trusted projects."""

import stat
from collections.abc import Mapping

import pytest

from hearth.doctor.policy import PolicyFacts, judge

FACTS = PolicyFacts("/c/policy.toml", ["tl", "dev"])


@pytest.mark.parametrize(
    ("changes", "id", "state", "part"),
    [
        ({"roles": None}, "policy.state", "ok", "there is no policy"),
        ({}, "policy.state", "ok", "/c/policy.toml: 2 roles"),
        ({"status": {"pending": 2}}, "policy.state", "ok", "2 roles; 2 calls waiting for a decision"),
        ({"problems": ["/c/policy.toml:3: no", "x"]}, "policy.broken", "broken", "/c/policy.toml:3: no (and 1 more)"),
        ({"status": {"waiting": "3f9a01c24b7700"}}, "policy.waits", "note", "waits (3f9a01c24b77)"),
        ({"open": {"/s/tokens.json": stat.S_IFREG | 0o644}}, "policy.tokens", "broken", "open to others (mode 0644)"),
        ({"projects": {"/p": "changed"}}, "policy.project", "note", "/p has changed since it was trusted"),
        ({"projects": {"/p": "removed"}}, "policy.project", "note", "/p is gone since it was trusted"),
        ({"trust_problem": "it is no index"}, "policy.project", "broken", "it is no index"),
    ],
)
def test_a_policy_is_judged_with_what_to_do(changes: Mapping[str, object], id: str, state: str, part: str) -> None:
    [finding] = judge(FACTS._replace(**changes))
    assert (finding.id, finding.state, part in finding.message) == (id, state, True), finding
    assert (finding.fix != "") == (state != "ok")
    assert (finding.request is not None) == (id == "policy.tokens")
