"""Tokens and ids of agents on every wire of a real daemon that has no agents, and what waits for a decision there."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.clients import FramesClient, Message
from support.daemon import Scratch
from support.hook_payloads import tool_call
from support.http.clients import HttpClient, LegacyHttp, ModernHttp
from support.policies import TEAM, Team
from support.scripted_daemon import BridgeProcess

UNKNOWN = "hearth-agent-" + "Ab3_" * 10
PING: Message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
HOOK = (sys.executable, "-I", "-m", "hearth", "hook", "pre-tool-use", "--client", "claude")
POLICY = TEAM.replace("[roles.dev]\n", '[roles.dev]\notherwise = "allow"\n')


@pytest.fixture(params=["", POLICY], ids=["no policy", "policy"])
def team(request: pytest.FixtureRequest, scratch: Scratch) -> Team:
    found = Team(scratch, request.param)
    found.serve()
    return found


@pytest.fixture
def ruled(scratch: Scratch) -> Team:
    found = Team(scratch, POLICY)
    found.serve()
    Path(found.tokens.path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return found


def refusal(scratch: Scratch, **hello: object) -> str:
    client = scratch.own(FramesClient(scratch.socket))
    client.send_frame({"type": "hello", "seq": 1, "protocol": 1, **hello})
    return str(client.receive_type("error")[0]["message"])


def token_file(team: Team, token: str) -> Path:
    path = team.scratch.home / "agent.token"
    path.write_text(token)
    path.chmod(0o600)
    return path


# --- unknown tokens


def test_an_agent_token_that_is_unknown_is_refused_in_frames_and_over_http(team: Team) -> None:
    assert "the agent token is unknown" in refusal(team.scratch, roleToken=UNKNOWN, agentId="a1")
    for kind in (HttpClient, ModernHttp):
        client = kind(team.scratch)
        client.headers["Hearth-Role-Token"] = UNKNOWN
        found = client.request("POST", PING)
        assert (found.status, "the agent token is unknown" in found.text()) == (403, True)
    assert team.scratch.status()["sessions"] == []


def test_a_bridge_tells_its_client_that_the_agent_s_token_is_unknown(team: Team) -> None:
    words = ("--agent-id", "a1", "--token-file", str(token_file(team, UNKNOWN)))
    bridge = BridgeProcess(team.scratch.home, *words, environment=team.scratch.environment())
    try:
        bridge.send(PING)
        assert "the agent token is unknown" in bridge.read()["error"]["message"]
    finally:
        bridge.close()


def test_a_hook_with_an_unknown_agent_token_is_denied(ruled: Team) -> None:
    hook = [*HOOK, "--token-file", str(token_file(ruled, UNKNOWN))]
    given = tool_call("claude", "Bash", {"command": "make"})
    done = subprocess.run(hook, input=given, env=ruled.scratch.environment(), capture_output=True, check=False)
    assert b'"deny"' in done.stdout and b"the agent token is unknown" in done.stdout, done


# --- ids that differ from the proven one


def test_an_id_that_the_token_does_not_prove_is_refused_on_every_wire(ruled: Team) -> None:
    token = ruled.tokens.issue("dev", "worker-1")
    sentence = "NOT_ALLOWED: this client is agent 'worker-1', and not 'worker-2'"
    assert refusal(ruled.scratch, roleToken=token, agentId="worker-2").startswith(sentence)
    client = HttpClient(ruled.scratch)
    client.headers |= {"Hearth-Role-Token": token, "X-Hearth-Agent": "worker-2"}
    found = client.request("POST", PING)
    assert (found.status, sentence in found.text()) == (403, True)
    bridge = BridgeProcess(
        ruled.scratch.home,
        *("--agent-id", "worker-2", "--token-file", str(token_file(ruled, token))),
        environment=ruled.scratch.environment(),
    )
    try:
        bridge.send(PING)
        assert sentence in bridge.read()["error"]["message"]
    finally:
        bridge.close()


def test_a_hook_that_claims_another_agent_s_id_is_denied_by_process_and_by_http(ruled: Team) -> None:
    token = ruled.tokens.issue("dev", "worker-1")
    given = tool_call("claude", "Bash", {"command": "make"})
    for claimed, decision in (("worker-1", "allow"), ("worker-2", "deny")):
        hook = [*HOOK, "--token-file", str(token_file(ruled, token)), "--agent-id", claimed]
        done = subprocess.run(hook, input=given, env=ruled.scratch.environment(), capture_output=True, check=True)
        assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == decision
        assert (b"NOT_ALLOWED: " in done.stdout) is (decision == "deny")
        client = HttpClient(ruled.scratch, "/hooks/pre-tool-use?client=claude")
        client.headers |= {"Hearth-Role-Token": token, "X-Hearth-Agent": claimed}
        answer = client.request("POST", given).json()["hookSpecificOutput"]
        assert answer["permissionDecision"] == decision
        assert answer.get("permissionDecisionReason", "").startswith("NOT_ALLOWED: ") is (decision == "deny")


# --- what waits, with and without a policy


def test_without_a_policy_nothing_waits_and_nothing_is_refused(scratch: Scratch) -> None:
    Team(scratch, "").serve()
    assert scratch.hearth("approvals").stdout == "Nothing waits for a decision.\n"
    assert json.loads(scratch.hearth("approvals", "--json").stdout) == {"approvals": [], "grants": []}
    for verb in ("approve", "deny"):
        done = scratch.hearth(verb, "3f9a01c2")
        assert (done.returncode, "no approval '3f9a01c2' is pending" in done.stderr) == (5, True)
    assert "there is no policy" in scratch.hearth("approvals", "--revoke", "3f9a01c2").stderr


POST = """
import http.client, socket, sys
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request("POST", sys.argv[2], sys.argv[3], {"Content-Type": "application/json"})
answer = connection.getresponse()
print(answer.status)
print(answer.read().decode())
"""


def posted(team: Team, path: str, body: object) -> tuple[int, Message]:
    """Post as a person does, from a process that descends from no client; return the status and the document."""
    done = team.beside(sys.executable, "-I", "-c", POST, team.scratch.socket, path, json.dumps(body))
    assert done.returncode == 0, done.stderr
    status, _, document = done.stdout.partition("\n")
    return int(status), json.loads(document)


def decided_by_http(team: Team, web: LegacyHttp, key: str, action: str, **body: object) -> tuple[str, str]:
    """Call a tool that is asked about, and decide by HTTP; return the answers to the decision and to the call."""
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(lambda: web.call("count__once", key=key).messages()[-1])
        (waiting,) = team.wait_pending()
        desk, path = HttpClient(team.scratch), f"/api/v1/approvals/{waiting['id']}/{action}"
        assert desk.request("GET", path="/api/v1/approvals").json()["approvals"] == [waiting]
        assert desk.request("POST", {"scope": "for ever"}, path=path).status == 400
        assert desk.request("POST", {"reason": 3}, path=path).status == 400
        assert desk.request("GET", path=path).status == 405
        assert desk.request("POST", body, path=path).status == 403, "this process is the client that asks"
        status, answer = posted(team, path, body)
        assert status == 200
        said = answer["message"].replace(str(waiting["id"]), "ID")
        return said, str(call.result()["result"]["content"][0]["text"])


def test_what_waits_is_listed_and_decided_by_http(ruled: Team) -> None:
    web = LegacyHttp(ruled.scratch).opened()
    assert decided_by_http(ruled, web, "k1", "approve", scope="session") == ("approval ID is approved", "once k1")
    assert decided_by_http(ruled, web, "k2", "deny", reason="no") == ("approval ID is denied", "denied by person: no")
    assert web.call("count__once", key="k1").messages()[-1]["result"]["content"][0]["text"] == "once k1"
    assert posted(ruled, "/api/v1/approvals/00000000/approve", {})[0] == 404
    rows = ruled.scratch.hearth("audit", "--kind", "decision", "--json").stdout.splitlines()
    assert [json.loads(row)["channel"] for row in rows] == ["http", "http"]


def test_a_process_below_a_client_decides_nothing_by_http(ruled: Team) -> None:
    dev = ruled.client()
    dev.begin_call("count__once", key="k1")
    (waiting,) = ruled.wait_pending()
    found = HttpClient(ruled.scratch).request("POST", {}, path=f"/api/v1/approvals/{waiting['id']}/approve")
    assert (found.status, "for a person" in found.text()) == (403, True)
    assert len(ruled.pending()) == 1
