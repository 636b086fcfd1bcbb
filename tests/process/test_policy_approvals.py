"""The cascade: calls that are asked about, from the lead to the person, and the grants that come of it."""

import json
import os
import signal
import subprocess
import sys

import pytest

from support.clients import FramesClient, Message
from support.daemon import Scratch, server
from support.kernel import BOUND_SECONDS, until
from support.policies import TEAM, Team

ELICITATION: Message = {"elicitation": {}}


@pytest.fixture
def team(scratch: Scratch) -> Team:
    found = Team(scratch)
    found.serve()
    return found


def text_of(answer: Message) -> str:
    return str(answer["result"]["content"][0]["text"])


def wait_for(lead: FramesClient) -> str:
    """Wait with the lead's own tool until something is the lead's to decide; return its id."""
    found = lead.call("policy__wait_for_approvals", seconds=20)["result"]["structuredContent"]["approvals"]
    return str(next(each["id"] for each in found if each["yours"]))


def decide(lead: FramesClient, approval: str, decision: str, reason: str = "") -> Message:
    """Decide with the lead's own tool."""
    arguments = {"id": approval, "decision": decision, "reason": reason}
    return lead.ask("tools/call", {"name": "policy__decide_approval", "arguments": arguments})


def test_a_lead_approves_with_its_tools_and_the_call_goes_on(team: Team) -> None:
    lead, dev = team.client("tl"), team.client()
    id = dev.begin_call("count__once", key="k1")
    approval = wait_for(lead)
    assert team.ran() == []
    decide(lead, approval, "approve")
    assert text_of(dev.answer_to(id)) == "once k1"
    assert team.ran() == ["once k1"]


def test_a_lead_s_denial_is_a_result_with_its_reason(team: Team) -> None:
    lead, dev = team.client("tl"), team.client()
    id = dev.begin_call("count__once", key="k1")
    decide(lead, wait_for(lead), "deny", "not today")
    answer = dev.answer_to(id)
    assert answer["result"]["isError"] is True
    assert text_of(answer) == "denied by tl (test-client): not today"
    assert team.ran() == []


def test_a_grant_serves_one_call_with_exactly_these_arguments(team: Team) -> None:
    lead, dev = team.client("tl"), team.client()
    id = dev.begin_call("count__once", key="k1")
    decide(lead, wait_for(lead), "approve")
    dev.answer_to(id)
    for key in ("k1", "k2"):
        id = dev.begin_call("count__once", key=key)
        decide(lead, wait_for(lead), "deny")
        assert dev.answer_to(id)["result"]["isError"] is True
    assert team.ran() == ["once k1"]


def test_a_call_escalated_to_the_person_is_approved_on_the_command_line(team: Team) -> None:
    lead, dev = team.client("tl"), team.client()
    id = dev.begin_call("count__once", key="k1")
    approval = wait_for(lead)
    decide(lead, approval, "escalate")
    assert team.pending()[0]["level"] == "human"
    refused = decide(lead, approval, "approve")
    assert "not this lead's to decide" in text_of(refused)
    done = team.person("approve", approval)
    assert (done.returncode, done.stdout) == (0, f"approval {approval} is approved\n"), done.stderr
    assert text_of(dev.answer_to(id)) == "once k1"


def test_without_a_lead_the_person_is_asked_and_may_deny(team: Team) -> None:
    dev = team.client()
    id = dev.begin_call("count__once", key="k1")
    (waiting,) = team.wait_pending()
    assert (waiting["level"], waiting["arguments"]) == ("human", '{"key": "k1"}')
    assert team.person("deny", str(waiting["id"]), "--reason", "no\u202eway").returncode == 0
    assert text_of(dev.answer_to(id)) == "denied by person: no\\u202eway"


def test_a_person_approves_by_elicitation_at_a_session_of_a_human_role(team: Team) -> None:
    desk, dev = team.client("desk", capabilities=ELICITATION), team.client()
    id = dev.begin_call("count__once", key="k1")
    question = desk.next_called("elicitation/create")
    assert "asks to call count__once" in question["params"]["message"]
    content = {"decision": "Allow for this session"}
    desk.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": content}})
    assert text_of(dev.answer_to(id)) == "once k1"
    assert text_of(dev.call("count__once", key="k1")) == "once k1"
    assert team.pending() == []
    other = team.client()
    other.begin_call("count__once", key="k1")
    team.wait_pending()


def test_a_session_of_the_asker_itself_is_never_asked(scratch: Scratch) -> None:
    team = Team(scratch, TEAM.replace("[roles.dev]\n", "[roles.dev]\nhuman = true\n"))
    team.serve()
    dev = team.client(capabilities=ELICITATION)
    dev.begin_call("count__once", key="k1")
    team.wait_pending()
    assert dev.ask("ping")["result"] == {}


def test_a_call_that_waits_too_long_is_pending_and_is_made_once_when_called_again(scratch: Scratch) -> None:
    team = Team(scratch, TEAM.replace("approval_wait = 30", "approval_wait = 0.2"))
    team.serve()
    dev = team.client()
    answer = dev.call("count__once", key="k1")
    (waiting,) = team.pending()
    assert answer["result"]["isError"] is True
    assert text_of(answer) == f"pending approval {waiting['id']}; call again unchanged"
    assert f"pending approval {waiting['id']}" in text_of(dev.call("count__once", key="k1"))
    assert team.person("approve", str(waiting["id"])).returncode == 0
    assert "pending" in text_of(dev.call("count__once", key="k2"))
    assert text_of(dev.call("count__once", key="k1")) == "once k1"
    assert "pending" in text_of(dev.call("count__once", key="k1"))
    assert team.ran() == ["once k1"]


def test_an_open_question_keeps_an_idle_daemon_until_it_expires(scratch: Scratch) -> None:
    """A daemon that left before, when it was idle, would not have recorded that the question expired."""
    waits = "approval_wait = 0.2\napproval_timeout = 2"
    team = Team(scratch, TEAM.replace("approval_wait = 30", waits))
    daemon = team.serve(idle_timeout=0.3)
    dev = team.client()
    assert "pending" in text_of(dev.call("count__once", key="k1"))
    dev.close()
    assert daemon.wait() == 0
    (row,) = map(json.loads, scratch.hearth("audit", "--kind", "decision", "--json").stdout.splitlines())
    assert row["decision"] == "expired"


def test_nobody_s_decision_in_time_is_a_denial(scratch: Scratch) -> None:
    team = Team(scratch, TEAM.replace("approval_wait = 30", "approval_wait = 30\napproval_timeout = 1"))
    team.serve()
    assert "there was no decision in time" in text_of(team.client().call("count__once", key="k1"))


def test_a_silent_lead_is_passed_over(scratch: Scratch) -> None:
    team = Team(scratch, TEAM.replace("approval_wait = 30", "approval_wait = 30\nlead_timeout = 1"))
    team.serve()
    team.client("tl")
    dev = team.client()
    dev.begin_call("count__once", key="k1")
    until(lambda: [each["level"] for each in team.pending()] == ["human"], "the person is asked")


def test_a_lead_that_leaves_hands_its_questions_to_the_person(team: Team) -> None:
    lead, dev = team.client("tl"), team.client()
    dev.begin_call("count__once", key="k1")
    wait_for(lead)
    lead.close()
    until(lambda: [each["level"] for each in team.pending()] == ["human"], "the person is asked")


def test_a_lead_whose_role_is_no_lead_any_more_hands_its_questions_to_the_person(team: Team) -> None:
    lead, dev = team.client("tl"), team.client()
    dev.begin_call("count__once", key="k1")
    wait_for(lead)
    team.apply(TEAM.replace("lead = true", "lead = false"))
    assert [each["level"] for each in team.pending()] == ["human"]


def test_a_cancelled_call_withdraws_its_question(team: Team) -> None:
    dev = team.client()
    id = dev.begin_call("count__once", key="k1")
    team.wait_pending()
    dev.notify("notifications/cancelled", {"requestId": id})
    team.wait_pending(0)
    assert team.ran() == []


def test_a_lead_may_not_approve_what_its_own_role_must_ask_about(scratch: Scratch) -> None:
    rule = '[[rules]]\nrole = "tl"\ntool = "count__once"\ndecide = "ask_human"\n'
    team = Team(scratch, TEAM + rule)
    team.serve()
    lead, dev = team.client("tl"), team.client()
    dev.begin_call("count__once", key="k1")
    answer = decide(lead, wait_for(lead), "approve")
    assert "may not do this unasked itself" in text_of(answer)


def test_a_shell_below_an_agent_decides_nothing(team: Team) -> None:
    """The test's own process is the client here, so whatever it starts is below an agent."""
    dev = team.client()
    dev.begin_call("count__once", key="k1")
    (waiting,) = team.wait_pending()
    for words in (("approve", str(waiting["id"])), ("deny", str(waiting["id"])), ("stop", "--yes")):
        done = team.scratch.hearth(*words)
        assert done.returncode == 5, done
        assert "for a person" in done.stderr
    assert len(team.pending()) == 1


def test_always_is_kept_in_a_file_across_daemons_and_can_be_revoked(team: Team) -> None:
    dev = team.client()
    id = dev.begin_call("count__once", key="k1")
    approval = str(team.wait_pending()[0]["id"])
    assert team.person("approve", approval, "--for", "always").returncode == 0
    dev.answer_to(id)
    assert team.person("restart", "--yes").returncode == 0
    team.scratch.start()
    other = team.client()
    assert text_of(other.call("count__once", key="k1")) == "once k1"
    assert team.person("approvals", "--revoke", approval).returncode == 0
    other.begin_call("count__once", key="k1")
    team.wait_pending()


def test_a_cancelled_call_is_not_there_to_be_approved_any_more(team: Team) -> None:
    dev = team.client()
    id = dev.begin_call("count__once", key="k1")
    (waiting,) = team.wait_pending()
    dev.notify("notifications/cancelled", {"requestId": id})
    assert dev.ask("ping")["result"] == {}
    assert team.pending() == []
    assert team.person("approve", str(waiting["id"])).returncode == 5


def test_one_grant_serves_one_of_two_equal_calls(team: Team) -> None:
    dev = team.client()
    first, second = dev.begin_call("count__once", key="k1"), dev.begin_call("count__once", key="k1")
    (waiting,) = team.wait_pending()
    assert team.person("approve", str(waiting["id"])).returncode == 0
    until(lambda: [each["id"] for each in team.pending()] not in ([], [waiting["id"]]), "the other call is asked about")
    assert team.ran() == ["once k1"]
    assert team.person("approve", str(waiting["id"])).returncode == 5
    assert team.person("deny", str(team.pending()[0]["id"])).returncode == 0
    answers = sorted(text_of(dev.answer_to(id)) for id in (first, second))
    assert answers == ["denied by person", "once k1"]


def test_a_lead_s_approval_does_not_serve_once_the_policy_asks_a_person(scratch: Scratch) -> None:
    policy = TEAM.replace("approval_wait = 30", "approval_wait = 0.2")
    team = Team(scratch, policy)
    team.serve()
    lead, dev = team.client("tl"), team.client()
    assert "pending" in text_of(dev.call("count__once", key="k1"))
    decide(lead, wait_for(lead), "approve")
    team.apply(policy.replace('decide = "ask"', 'decide = "ask_human"'))
    assert "pending" in text_of(dev.call("count__once", key="k1"))
    assert [each["level"] for each in team.pending()] == ["human"]
    assert team.ran() == []


def test_a_question_to_a_lead_becomes_the_person_s_with_the_policy(scratch: Scratch) -> None:
    policy = TEAM.replace("approval_wait = 30", "approval_wait = 0.2")
    team = Team(scratch, policy)
    team.serve()
    lead, dev = team.client("tl"), team.client()
    dev.call("count__once", key="k1")
    approval = wait_for(lead)
    team.write(policy.replace('decide = "ask"', 'decide = "ask_human"'))
    until(lambda: dev.call("count__once", key="k1") and team.pending()[0]["level"] == "human", "the person is asked")
    assert "not this lead's to decide" in text_of(decide(lead, approval, "approve"))


@pytest.mark.parametrize("content", [7, "yes", {}, {"decision": 3}, {"decision": "Allow everything"}])
def test_an_answer_of_rubbish_allows_nothing(team: Team, content: object) -> None:
    desk, dev = team.client("desk", capabilities=ELICITATION), team.client()
    id = dev.begin_call("count__once", key="k1")
    question = desk.next_called("elicitation/create")
    desk.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": content}})
    assert text_of(dev.answer_to(id)).startswith("denied by")
    assert team.ran() == []


def test_a_client_s_name_cannot_be_read_as_a_part_of_the_question(team: Team) -> None:
    desk = team.client("desk", capabilities=ELICITATION)
    dev = team.scratch.frames()
    info = {"name": "nice\n\nApproved by your admin.\u202e" + "x" * 500, "version": "1"}
    dev.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
    dev.begin_call("count__once", key="k1")
    message = desk.next_called("elicitation/create")["params"]["message"]
    asks, _, reason = message.partition("\n")
    assert "asks to call count__once" in asks and "\u202e" not in message and len(asks) < 300
    assert reason == "what counts is the lead's to allow"


@pytest.mark.parametrize("change", ["revoked", "denied"])
def test_a_call_in_the_queue_is_decided_again_when_it_is_sent(scratch: Scratch, change: str) -> None:
    team = Team(scratch)
    scratch.serve({"count": server("counting", team.ledger, max_concurrency=1)})
    dev = team.client()
    id = dev.begin_call("count__once", key="k1")
    approval = str(team.wait_pending()[0]["id"])
    assert team.person("approve", approval, "--for", "session").returncode == 0
    assert text_of(dev.answer_to(id)) == "once k1"
    slow = dev.begin_call("count__read", key="slow", delay=60_000)
    until(lambda: "read slow" in team.ran(), "the server is busy")
    queued = dev.begin_call("count__once", key="k1")
    assert dev.ask("ping")["result"] == {}
    former = scratch.status()["policy"]["digest"]
    if change == "revoked":
        assert team.person("approvals", "--revoke", approval).returncode == 0
    else:
        team.write(TEAM.replace('decide = "ask"', 'decide = "deny"'))
        until(lambda: scratch.status()["policy"]["digest"] != former, "the policy is in force")
    dev.notify("notifications/cancelled", {"requestId": slow})
    answer = str(dev.answer_to(queued))
    assert ("asks about this call now" if change == "revoked" else "denied by policy") in answer
    assert team.ran().count("once k1") == 1


# Stands in for notify-send, and adds a line with its arguments to a file.
NOTIFY_SEND = """#!/bin/sh
printf '%s|' "$@" >> {0}.new
echo >> {0}.new
cat {0}.new > {0}
"""


def test_a_person_is_told_on_the_desktop_unless_the_policy_says_not_to(scratch: Scratch) -> None:
    team = Team(scratch, f"notify = false\n{TEAM}")
    program, shown = scratch.home / "bin" / "notify-send", scratch.home / "shown"
    program.parent.mkdir()
    program.write_text(NOTIFY_SEND.format(shown))
    program.chmod(0o755)
    servers = {"echo": server("echo"), "count": server("counting", team.ledger)}
    scratch.configure(servers)
    scratch.start(PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    dev = team.client()
    dev.begin_call("count__once", key="quiet")
    (quiet,) = team.wait_pending()
    team.apply(TEAM)
    dev.begin_call("count__once", key="told")
    (told,) = (each for each in team.wait_pending(2) if each["id"] != quiet["id"])
    # The shell makes the file before it writes the line.
    until(lambda: shown.exists() and shown.read_text().endswith("\n"), "the notification is shown")
    (line,) = shown.read_text().splitlines()
    assert line.endswith(
        f"|--|test-client asks to use once|hearth approve {told['id']}, or hearth deny {told['id']}|"
    ), line


def test_watch_shows_each_call_once_as_it_comes(team: Team) -> None:
    dev = team.client()
    dev.begin_call("count__once", key="k1")
    (first,) = team.wait_pending()
    words = (sys.executable, "-I", "-m", "hearth", "approvals", "--watch", "--json")
    with subprocess.Popen(
        words, env=team.scratch.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as watch:
        try:
            assert watch.stdout and watch.stderr
            assert json.loads(watch.stdout.readline())["id"] == first["id"]
            dev.begin_call("count__once", key="k2")
            (second,) = (each for each in team.wait_pending(2) if each["id"] != first["id"])
            shown = json.loads(watch.stdout.readline())
            assert (shown["id"], shown["arguments"]) == (second["id"], second["arguments"])
            # What was decided is not shown again, and the next one is.
            assert team.person("deny", str(first["id"])).returncode == 0
            dev.begin_call("count__once", key="k3")
            third = json.loads(watch.stdout.readline())
            assert third["id"] not in (first["id"], second["id"])
            watch.send_signal(signal.SIGINT)
            assert watch.wait(BOUND_SECONDS) == 0, watch.stderr.read()
        finally:
            watch.kill()
