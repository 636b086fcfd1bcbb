"""Elicitation by URL for legacy clients: demanded by an error, or asked for, by servers of either era."""

import pytest

from support.conformance.clients import LegacyClient, Message
from support.conformance.revisions import LEGACY, MODERN, NEWEST_LEGACY
from support.conformance.vocabulary import COMPLETED
from support.puppets.server import Puppet
from support.puppets.stage import DEMANDED, FAILED, Actor, Errand, Stage, demand, page, shown

# --- legacy clients on legacy servers


def asked_for_a_visit(actor: Actor, client: LegacyClient) -> tuple[Errand, Puppet, Message, Message]:
    """A call in which the client was asked to visit a page, and has."""
    errand, puppet, call = actor.called_by(client)
    puppet.ask("q-1", "elicitation/create", **page())
    question = client.next_question()
    assert actor.reply_to("q-1")["result"] == {"action": "accept"}
    return errand, puppet, call, question


def test_a_legacy_client_is_asked_with_the_id_and_told_of_the_completion(stage: Stage, actor: Actor) -> None:
    client, other = stage.legacy(), stage.legacy(name="other")
    errand, puppet, call, question = asked_for_a_visit(actor, client)
    assert question["params"] == page()
    puppet.notify(COMPLETED, elicitationId="e-1")
    errand.finish(puppet, call, "done")
    assert client.next_notice(COMPLETED)["params"] == {"elicitationId": "e-1"}
    assert other.ask("ping").result == {}
    assert other.notices == []


def test_completions_of_one_id_reach_the_client_whose_server_said_so(stage: Stage, actor: Actor) -> None:
    one, other = stage.legacy(name="one"), stage.legacy(name="other")
    first, puppet, call, _ = asked_for_a_visit(actor, one)
    second, rival, rivals, _ = asked_for_a_visit(actor, other)
    puppet.notify(COMPLETED, elicitationId="e-1")
    first.finish(puppet, call, "one")
    assert one.next_notice(COMPLETED)["params"] == {"elicitationId": "e-1"}
    second.finish(rival, rivals, "other")
    assert other.notices == []
    rival.notify(COMPLETED, elicitationId="e-1")
    assert other.next_notice(COMPLETED)["params"] == {"elicitationId": "e-1"}


def test_a_demand_reaches_the_newest_legacy_client_untouched_and_so_does_the_completion(
    stage: Stage, actor: Actor
) -> None:
    client, other = stage.legacy(), stage.legacy(name="other")
    errand, puppet, call = actor.called_by(client)
    data = {"elicitations": [page(1), page(2)], "vendor": [1]}
    puppet.refuse(call, DEMANDED, "Go there first.", data)
    assert errand.outcome().error == {"code": DEMANDED, "message": "Go there first.", "data": data}
    for number in (2, 1):
        puppet.notify(COMPLETED, elicitationId=f"e-{number}")
        assert client.next_notice(COMPLETED)["params"] == {"elicitationId": f"e-{number}"}
    assert other.ask("ping").result == {}
    assert other.notices == []


def test_of_two_processes_each_announces_the_completions_of_its_own_demands(stage: Stage, actor: Actor) -> None:
    clients = [stage.legacy(name=name) for name in ("one", "other")]
    puppets = []
    for client in clients:
        errand, puppet, call = actor.called_by(client)
        demand(puppet, call, page())
        assert errand.outcome().error["code"] == DEMANDED
        puppets.append(puppet)
    assert puppets[0] is not puppets[1]
    puppets[0].notify(COMPLETED, elicitationId="e-1")
    assert clients[0].next_notice(COMPLETED)["params"] == {"elicitationId": "e-1"}
    assert clients[1].ask("ping").result == {}
    assert clients[1].notices == []


@pytest.mark.parametrize("revision", LEGACY[:-1])
def test_a_demand_is_another_error_for_a_client_that_does_not_know_it(
    stage: Stage, actor: Actor, revision: str
) -> None:
    errand, puppet, call = actor.called_by(stage.legacy(revision))
    demand(puppet, call, page())
    failed = errand.outcome()
    assert failed.error["code"] == FAILED
    assert "Go there first." in failed.text


@pytest.mark.parametrize(
    ("revision", "declared", "named"),
    [*((each, None, each) for each in LEGACY[:-1]), (NEWEST_LEGACY, {"elicitation": {}}, "elicitation.url")],
)
def test_a_legacy_client_that_makes_no_visits_is_not_asked_and_its_server_told_so(
    stage: Stage, revision: str, declared: Message | None, named: str
) -> None:
    actor = stage.serve(keys={"isolation": "shared"})
    errand, puppet, call = actor.called_by(stage.legacy(revision, capabilities=declared))
    puppet.ask("q-1", "elicitation/create", **page())
    assert named in actor.reply_to("q-1")["error"]["message"]
    puppet.notify(COMPLETED, elicitationId="e-1")
    errand.finish(puppet, call, "without")


# --- legacy clients on modern servers


def test_a_legacy_client_gets_an_id_with_a_modern_server_s_page(stage: Stage) -> None:
    actor = stage.serve(MODERN)
    client = stage.legacy(capabilities={"elicitation": {"url": {}}})
    ids = set()
    for _ in range(2):
        errand, puppet, call = actor.called_by(client)
        puppet.answer(call, resultType="input_required", inputRequests={"there": shown(page())}, requestState="s")
        params = client.next_question()["params"]
        ids.add(params.pop("elicitationId"))
        assert params == shown(page())["params"]
        puppet, call = actor.next("tools/call")
        assert call["params"]["inputResponses"] == {"there": {"action": "accept"}}
        errand.finish(puppet, call, "visited")
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("revision", "declared", "named"),
    [
        (NEWEST_LEGACY, {"elicitation": {}}, "elicitation.url"),
        (NEWEST_LEGACY, {"elicitation": {"form": {}}}, "elicitation.url"),
        (NEWEST_LEGACY, {}, "elicitation"),
        ("2025-06-18", {"elicitation": {"url": {}}}, "2025-06-18"),
        ("2025-03-26", {"elicitation": {"url": {}}}, "2025-03-26"),
    ],
)
def test_a_page_that_a_legacy_client_cannot_be_shown_fails_the_call_with_the_reason(
    stage: Stage, revision: str, declared: Message, named: str
) -> None:
    errand, puppet, call = stage.serve(MODERN).called_by(stage.legacy(revision, capabilities=declared))
    puppet.answer(call, resultType="input_required", inputRequests={"there": shown(page())})
    assert named in errand.outcome().error["message"]
