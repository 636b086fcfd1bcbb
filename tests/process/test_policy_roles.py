"""Roles of sessions: what each sees and may call, and the ways to get another role that are refused."""

import json

import pytest

from support.clients import FramesClient
from support.daemon import Scratch, server
from support.kernel import until
from support.policies import TEAM, Team

REFUSED = "tool 'count__put' not available for role 'dev'"


@pytest.fixture
def team(scratch: Scratch) -> Team:
    found = Team(scratch)
    found.serve()
    return found


def test_roles_see_different_lists_and_a_call_outside_gets_the_sentence(team: Team) -> None:
    dev, lead = team.client(), team.client("tl")
    assert "echo__echo" in dev.tools()
    assert not [name for name in dev.tools() if name.startswith(("other__", "policy__")) or name == "count__put"]
    assert {"count__put", "other__echo", "policy__decide_approval"} <= set(lead.tools())
    refused = dev.call("count__put")["error"]
    assert (refused["code"], refused["message"]) == (-32602, REFUSED)
    assert refused["data"]["reason"] == "role"
    assert "other__echo' not available for role 'dev'" in dev.call("other__echo", text="x")["error"]["message"]
    assert lead.call("other__echo", text="x")["result"]["content"][0]["text"] == "x"


def test_a_denied_call_is_a_result_that_the_model_can_read(team: Team) -> None:
    result = team.client().call("echo__add", a=1, b=1)["result"]
    assert result["isError"] is True
    assert result["content"][0]["text"] == "denied by policy: adding is not for devs"


def test_a_tool_that_was_allowed_before_is_decided_again_for_each_call(team: Team) -> None:
    dev = team.client()
    for _ in range(2):
        assert dev.call("echo__echo", text="x")["result"]["content"][0]["text"] == "x"
    guarded = dev.call("echo__echo", text="x", path=str(team.policy))["result"]["content"][0]["text"]
    assert guarded.startswith("denied by policy: no agent may do this")
    assert dev.call("echo__echo", text="x")["result"]["content"][0]["text"] == "x"
    team.apply(TEAM + '[[rules]]\ntool = "echo__echo"\ndecide = "deny"\nreason = "no more echoes"\n')
    assert dev.call("echo__echo", text="x")["result"]["content"][0]["text"] == "denied by policy: no more echoes"
    team.apply(TEAM)
    assert dev.call("echo__echo", text="x")["result"]["content"][0]["text"] == "x"


def test_raw_lines_have_the_default_role(team: Team) -> None:
    client = team.scratch.lines()
    client.initialize()
    assert client.call("count__put")["error"]["message"] == REFUSED


def test_a_client_of_one_server_is_held_to_its_role_under_the_tool_s_own_name(team: Team) -> None:
    client = team.scratch.frames(server="count")
    client.initialize()
    assert "put" not in client.tools()
    assert "'put' not available for role 'dev'" in client.call("put")["error"]["message"]


@pytest.mark.parametrize(
    ("hello", "sentence"),
    [
        ({"role": "tl"}, "role 'tl' needs a role token"),
        ({"role": "boss"}, "there is no role 'boss'"),
        ({"roleToken": "forged"}, "the role token is unknown"),
    ],
)
def test_a_role_without_its_token_is_refused(team: Team, hello: dict[str, str], sentence: str) -> None:
    client = team.scratch.own(FramesClient(team.scratch.socket))
    client.send_frame({"type": "hello", "seq": 1, "protocol": 1, **hello})
    assert sentence in client.receive_type("error")[0]["message"]


def test_a_token_of_another_role_and_a_revoked_one_are_refused(team: Team) -> None:
    token = team.token("tl")
    client = team.scratch.own(FramesClient(team.scratch.socket))
    client.send_frame({"type": "hello", "seq": 1, "protocol": 1, "role": "dev", "roleToken": token})
    assert "is for role 'tl', not for 'dev'" in client.receive_type("error")[0]["message"]
    team.tokens.revoke(team.tokens.list()[-1].id)
    client = team.scratch.own(FramesClient(team.scratch.socket))
    client.send_frame({"type": "hello", "seq": 1, "protocol": 1, "roleToken": token})
    assert "was revoked" in client.receive_type("error")[0]["message"]


def test_a_session_ends_with_its_role_token(team: Team) -> None:
    lead, other, dev = team.client("tl"), team.client("tl"), team.client()
    (first, _) = team.tokens.list()
    team.tokens.revoke(first.id)
    until(lambda: len(team.scratch.status()["sessions"]) == 2, "the session of the revoked token has ended")
    left = {each["id"] for each in team.scratch.status()["sessions"]}
    assert left == {other.session["sessionId"], dev.session["sessionId"]}
    assert lead.session["sessionId"] not in left
    assert "result" in other.answer_to(other.begin_call("count__once", key="k1"))


def test_a_policy_that_comes_and_goes_changes_the_lists_of_running_sessions(scratch: Scratch) -> None:
    team = Team(scratch, policy="")
    team.serve()
    client = scratch.frames()
    client.initialize()
    client.notify("notifications/initialized")
    assert "count__put" in client.tools()
    team.write(TEAM)
    scratch.status()
    client.next_called("notifications/tools/list_changed")
    assert "count__put" not in client.tools()
    assert client.call("count__put")["error"]["message"] == REFUSED


def test_a_broken_policy_keeps_the_last_good_one_and_the_status_says_so(team: Team) -> None:
    dev = team.client()
    team.write(TEAM.replace("otherwise", "otherwhise"))
    assert "otherwhise" in team.scratch.status()["policy"]["error"]
    assert dev.call("count__put")["error"]["message"] == REFUSED


def test_a_start_with_a_broken_policy_asks_about_everything(scratch: Scratch) -> None:
    Team(scratch, policy="nonsense = [")
    scratch.serve({"echo": server("echo")}, idle_timeout=0)
    client = scratch.frames()
    client.initialize()
    client.begin_call("echo__echo", text="x")
    assert Team(scratch, policy="").wait_pending()[0]["level"] == "human"


def test_without_a_policy_nothing_of_it_is_loaded_or_written(scratch: Scratch) -> None:
    Team(scratch, policy="").serve()
    client = scratch.frames(role="anything")
    client.initialize()
    assert "count__put" in client.tools()
    assert "policy" not in scratch.status()
    state = scratch.home / ".local" / "state" / "hearth"
    assert not {"audit", "grants", "policy", "roles"} & {each.name for each in state.iterdir()}


def test_sessions_are_shown_with_the_role_in_force(team: Team) -> None:
    lead, dev = team.client("tl"), team.client()
    done = team.person("sessions", "--json")
    assert [each["role"] for each in json.loads(done.stdout)] == ["tl", "dev"]
    assert "roles tl, dev (default), desk" in team.person("status").stdout
    lead.close()
    dev.close()
