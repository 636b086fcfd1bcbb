"""Bounds of what waits for a decision, and arguments that are too large to look into."""

import pytest

from support.clients import FramesClient, Message
from support.daemon import Scratch
from support.policies import TEAM, Team

PER_CLIENT, FOR_ALL = 20, 1000
PADDING = "x" * (10 * 1024 * 1024)
# `put` is covered by a permission that looks at its arguments, `read` is allowed by its name.
MATCHED = """
default_role = "dev"
notify = false

[roles.dev]
tools = ["**"]
grants = ["put(k1)"]
otherwise = "{otherwise}"

[permissions.put]
tool = "count__put"
arguments = {{ key = "{{key:word}}", "*" = "*" }}
"""


@pytest.fixture
def team(scratch: Scratch) -> Team:
    return Team(scratch, TEAM.replace("approval_wait = 30", "approval_wait = 30\nnotify = false"))


def fill(team: Team) -> FramesClient:
    """Return a client with as many calls that wait as one may have."""
    client = team.client()
    for number in range(PER_CLIENT):
        client.begin_call("count__once", key=f"k{number}")
    return client


def sentence(answer: Message) -> str:
    return str(answer["error"]["message"] if "error" in answer else answer["result"]["content"][0]["text"])


def test_a_client_has_twenty_requests_that_wait_at_most(team: Team) -> None:
    team.serve()
    dev, other = fill(team), team.client()
    waiting = team.wait_pending(PER_CLIENT)
    refused = dev.call("count__once", key="one more")
    assert sentence(refused) == (
        "20 requests of this client already wait for a decision; wait for those, then call again"
    )
    # The same call joins the request that waits, and other clients have room of their own.
    again = dev.begin_call("count__once", key="k0")
    other.begin_call("count__once", key="k0")
    team.wait_pending(PER_CLIENT + 1)
    # A decision makes room.
    first = next(each["id"] for each in waiting if each["arguments"] == '{"key": "k0"}')
    assert team.person("deny", str(first)).returncode == 0
    assert "denied by person" in sentence(dev.answer_to(again))
    dev.begin_call("count__once", key="one more")
    team.wait_pending(PER_CLIENT + 1)
    assert team.ran() == []


def test_all_clients_have_a_thousand_requests_that_wait_at_most(team: Team) -> None:
    team.serve()
    for _ in range(FOR_ALL // PER_CLIENT):
        fill(team)
    team.wait_pending(FOR_ALL)
    other = team.client()
    refused = other.call("count__once", key="one more")
    assert sentence(refused) == "1000 requests already wait for a decision; `hearth approvals` lists them"
    assert sentence(other.call("echo__echo", text="still here")) == "still here"
    assert team.ran() == []


@pytest.mark.parametrize("otherwise", ["ask", "deny"])
def test_arguments_with_ten_megabytes_of_padding_are_not_allowed(scratch: Scratch, otherwise: str) -> None:
    team = Team(scratch, MATCHED.format(otherwise=otherwise))
    team.serve()
    dev, other = team.client(), team.client()
    assert sentence(dev.call("count__put", key="k1")) == "put k1"
    id = dev.begin_call("count__put", key="k1", padding=PADDING)
    if otherwise == "ask":
        (waiting,) = team.wait_pending()
        assert str(waiting["arguments"]).endswith("bytes, too many to show; the digest identifies them)")
        assert sentence(other.call("count__put", key="k1")) == "put k1"
        assert team.person("deny", str(waiting["id"])).returncode == 0
    assert "denied by" in sentence(dev.answer_to(id))
    assert set(team.ran()) == {"put k1"}


def test_a_call_that_is_too_large_for_a_policy_is_the_person_s_and_not_the_lead_s(team: Team) -> None:
    team.serve()
    lead, dev = team.client("tl"), team.client()
    dev.begin_call("count__once", key="k1", padding=PADDING)
    (waiting,) = team.wait_pending()
    assert waiting["level"] == "human"
    arguments = {"id": waiting["id"], "decision": "approve", "reason": ""}
    refused = lead.ask("tools/call", {"name": "policy__decide_approval", "arguments": arguments})
    assert "not this lead's to decide" in sentence(refused)
    assert team.ran() == []


def test_a_protected_file_behind_ten_megabytes_of_padding_is_not_written(scratch: Scratch) -> None:
    team = Team(scratch, MATCHED.format(otherwise="deny"))
    team.serve()
    dev = team.client()
    dev.begin_call("count__once", padding=PADDING, path="/home/u/.config/hearth/policy.toml", key="k1")
    team.wait_pending()
    assert team.ran() == []
