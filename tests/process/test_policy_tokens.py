"""Tokens that prove nothing: refused with a sentence, logged and counted, whichever way they are shown."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import Scratch
from support.hook_payloads import tool_call
from support.http.clients import HttpClient
from support.kernel import until
from support.policies import Team

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
HOOK = (sys.executable, "-I", "-m", "hearth", "hook", "pre-tool-use", "--client", "claude")


def by_hello(team: Team, token: str, role: str | None, agent: str | None) -> str:
    client = team.scratch.control()
    claims = {name: value for name, value in (("role", role), ("agentId", agent)) if value}
    client.send_frame({"type": "hello", "seq": 1, "protocol": 1, "roleToken": token, **claims})
    return str(client.receive_type("error")[0]["message"])


def by_http(team: Team, token: str, role: str | None, agent: str | None) -> str:
    client = HttpClient(team.scratch)
    given = {"Hearth-Role-Token": token, "X-Hearth-Role": role, "X-Hearth-Agent": agent}
    client.headers.update({name: value for name, value in given.items() if value})
    found = client.request("POST", PING)
    assert found.status == 403
    return found.text()


def by_hook(team: Team, token: str, role: str | None, agent: str | None) -> str:
    assert role is None
    file = team.scratch.home / "role.token"
    file.write_text(token)
    file.chmod(0o600)
    words = [*HOOK, "--token-file", str(file), *(("--agent-id", agent) if agent else ())]
    given = tool_call("claude", "Bash", {"command": "make"})
    done = subprocess.run(words, input=given, env=team.scratch.environment(), capture_output=True, check=True)
    answer = json.loads(done.stdout)["hookSpecificOutput"]
    assert answer["permissionDecision"] == "deny"
    return str(answer["permissionDecisionReason"])


WAYS: dict[str, Callable[[Team, str, str | None, str | None], str]] = {
    "hello": by_hello,
    "http": by_http,
    "hook": by_hook,
}


def refused(scratch: Scratch) -> float:
    """The counter of refused connections."""
    lines = HttpClient(scratch).request("GET", path="/metrics").text().splitlines()
    return float(next(line for line in lines if line.startswith("hearth_connections_refused_total")).split()[1])


@pytest.mark.parametrize("way", WAYS)
def test_a_token_that_proves_nothing_is_refused_logged_and_counted(scratch: Scratch, way: str) -> None:
    team = Team(scratch)
    daemon = team.serve()
    Path(team.tokens.path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    issue, tokens = team.tokens.issue, team.tokens
    revoked = issue("tl")
    tokens.revoke(tokens.list()[-1].id)
    cases: list[tuple[str, str | None, str | None, str]] = [
        (issue("gone"), None, None, "is for role 'gone', which "),
        ("hearth-role-forged", None, None, "the role token is unknown"),
        ("hearth-agent-forged", None, None, "the agent token is unknown"),
        (issue("tl", expires_in=-60), None, None, " expired at "),
        (revoked, None, None, " was revoked"),
        (issue("dev", "worker-1"), None, "worker-2", "NOT_ALLOWED: this client is agent 'worker-1'"),
    ]
    if way != "hook":
        # A hook claims no role.
        cases += [(issue("tl"), "dev", None, "is for role 'tl', not for 'dev'")]
    for count, (token, role, agent, sentence) in enumerate(cases, 1):
        said = WAYS[way](team, token, role, agent)
        assert sentence in said and token not in said, said
        assert refused(scratch) == count, sentence
        until(lambda sentence=sentence: sentence in scratch.logged(), f"{sentence!r} is logged")
        assert token not in scratch.logged()
    assert [each for each in scratch.status()["sessions"] if each["wire"] == "frames"] == []
    if way == "hook":
        daemon.stop()
        shown = scratch.hearth("audit", "--json", "--kind", "hook").stdout.splitlines()
        rows = [json.loads(line) for line in shown]
        assert [(row["tool"], row["decision"], row["outcome"]) for row in rows] == [("Bash", "deny", "denied")] * len(
            cases
        )
        assert all(sentence in row["reason"] for row, (*_, sentence) in zip(rows, cases, strict=True))
