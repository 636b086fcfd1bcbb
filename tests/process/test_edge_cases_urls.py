"""Elicitation by URL for modern clients: legacy servers demand it by an error, and say when it is complete."""

from typing import Any

import pytest

from support.conformance.clients import CANCELLED, Message, ModernClient
from support.conformance.vocabulary import COMPLETED
from support.kernel import describe, pids_at_home, until
from support.puppets.server import Puppet
from support.puppets.stage import DEMANDED, FAILED, FORM, OTHER_CALLS, Actor, Errand, Stage, demand, page, shown

MISSING_CAPABILITY = -32021


def sent_away(actor: Actor, client: ModernClient, *pages: Message, **params: Any) -> tuple[Errand, Puppet]:
    """A call that its server has refused until those pages were visited; the client knows."""
    errand = Errand(client, **params)
    puppet, call = actor.next(errand.method)
    demand(puppet, call, *pages)
    assert list(errand.wishes().values()) == [shown(each) for each in pages]
    return errand, puppet


def finish(actor: Actor, errand: Errand, text: str = "visited") -> Message:
    """The call is made afresh and comes to its end; its params."""
    puppet, call = actor.next("tools/call")
    puppet.say(call, text)
    assert errand.outcome().text == text
    return call["params"]


def daemon_is_past_what_was_said(client: ModernClient) -> None:
    assert client.ask("tools/list").result["tools"]


def is_called_once(actor: Actor, client: ModernClient) -> None:
    """The call is not made afresh by what was said until now."""
    daemon_is_past_what_was_said(client)
    assert len(actor.told("tools/call")) == 1


# --- a legacy server demands, a modern client is sent


def test_the_retry_waits_until_the_server_calls_the_visit_complete(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    errand, puppet = sent_away(actor, client, page())
    errand.go_on()
    is_called_once(actor, client)
    puppet.notify(COMPLETED, elicitationId="e-1")
    assert finish(actor, errand) == {"name": "act", "arguments": {"key": "value"}}


def test_a_visit_that_was_completed_before_the_retry_is_not_waited_for(stage: Stage, actor: Actor) -> None:
    errand, puppet = sent_away(actor, stage.modern(), page())
    puppet.notify(COMPLETED, elicitationId="e-1")
    actor.caught_up(puppet)
    errand.go_on()
    finish(actor, errand)


def test_a_page_without_an_id_cannot_be_waited_for(stage: Stage, actor: Actor) -> None:
    nameless = {key: value for key, value in page().items() if key != "elicitationId"}
    errand, _ = sent_away(actor, stage.modern(), nameless)
    errand.go_on()
    finish(actor, errand)


def test_the_completion_of_another_page_is_not_taken_for_it(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    errand, puppet = sent_away(actor, client, page())
    errand.go_on()
    puppet.notify(COMPLETED, elicitationId="e-2")
    puppet.notify(COMPLETED)
    actor.caught_up(puppet)
    is_called_once(actor, client)
    puppet.notify(COMPLETED, elicitationId="e-1")
    finish(actor, errand)


def test_pages_of_one_id_on_two_processes_are_not_mixed_up(stage: Stage, actor: Actor) -> None:
    one, other = stage.modern("one"), stage.modern("other")
    first, puppet = sent_away(actor, one, page())
    second, rival = sent_away(actor, other, page())
    assert puppet is not rival
    first.go_on()
    second.go_on()
    rival.notify(COMPLETED, elicitationId="e-1")
    finish(actor, second)
    daemon_is_past_what_was_said(one)
    assert len(actor.told("tools/call")) == 3
    puppet.notify(COMPLETED, elicitationId="e-1")
    finish(actor, first)


def test_several_pages_are_asked_together_and_all_of_them_waited_for(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    errand, puppet = sent_away(actor, client, page(1), page(2))
    key, left = errand.wish["inputRequests"]
    errand.go_on(**{key: {"action": "accept"}})
    assert errand.wishes() == {left: shown(page(2))}
    errand.go_on()
    puppet.notify(COMPLETED, elicitationId="e-2")
    actor.caught_up(puppet)
    is_called_once(actor, client)
    puppet.notify(COMPLETED, elicitationId="e-1")
    finish(actor, errand)


def test_the_call_that_is_made_afresh_has_the_token_and_the_level_of_the_retry(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    params = {"name": "puppet__act", "arguments": {}}
    errand, puppet = sent_away(actor, client, page(), **params, _meta={"progressToken": "old"})
    errand.params = {**params, "_meta": {"progressToken": "new", "io.modelcontextprotocol/logLevel": "info"}}
    errand.go_on()
    puppet.notify(COMPLETED, elicitationId="e-1")
    _, call = actor.next("tools/call")
    assert actor.told("logging/setLevel") == [{"level": "info"}]
    puppet.notify("notifications/progress", progressToken=call["params"]["_meta"]["progressToken"], progress=1)
    puppet.notify("notifications/message", level="info", data="at work")
    puppet.say(call, "done")
    found = errand.outcome()
    assert found.progress == [{"progressToken": "new", "progress": 1}]
    assert found.logs == [{"level": "info", "data": "at work"}]


def test_a_server_may_send_its_client_away_more_than_once(stage: Stage, actor: Actor) -> None:
    errand, puppet = sent_away(actor, stage.modern(), page(1))
    first = errand.wish["requestState"]
    puppet.notify(COMPLETED, elicitationId="e-1")
    errand.go_on()
    puppet, call = actor.next("tools/call")
    demand(puppet, call, page(2))
    assert list(errand.wishes().values()) == [shown(page(2))]
    assert errand.wish["requestState"] != first
    puppet.notify(COMPLETED, elicitationId="e-2")
    errand.go_on()
    finish(actor, errand)


def test_a_call_made_afresh_may_ask_questions(stage: Stage, actor: Actor) -> None:
    errand, puppet = sent_away(actor, stage.modern(), page())
    puppet.notify(COMPLETED, elicitationId="e-1")
    errand.go_on()
    puppet, call = actor.next("tools/call")
    puppet.ask("q-1", "elicitation/create", **FORM)
    errand.wishes()
    errand.fill_in(actor, "q-1")
    errand.finish(puppet, call, "done")


def test_a_server_that_demands_while_its_call_is_parked_has_the_retry_sent_away(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = actor.called_by(stage.modern())
    puppet.ask("q-1", "elicitation/create", **FORM)
    errand.wishes()
    demand(puppet, call, page())
    actor.caught_up(puppet)
    errand.go_on()
    assert list(errand.wishes().values()) == [shown(page())]
    puppet.notify(COMPLETED, elicitationId="e-1")
    errand.go_on()
    finish(actor, errand)


def test_the_process_that_demands_a_visit_is_kept_for_it_also_when_it_takes_no_other_calls(stage: Stage) -> None:
    actor = stage.serve(keys={"isolation": "auto"})
    client = stage.modern()
    errand, puppet, call = actor.called_by(client)
    puppet.ask("q-1", "elicitation/create", **FORM)
    errand.wishes()
    errand.go_on()
    actor.reply_to("q-1")
    demand(puppet, call, page())
    errand.wishes()
    # One that asks is no longer shared.
    other, successor, call = actor.called_by(client)
    assert successor is not puppet
    other.finish(successor, call, "other")
    errand.go_on()
    daemon_is_past_what_was_said(client)
    puppet.notify(COMPLETED, elicitationId="e-1")
    again, call = actor.next("tools/call")
    assert again is puppet
    errand.finish(again, call, "visited")
    home = str(stage.scratch.home)
    until(lambda: describe(pids_at_home(home)).count("puppet_server") == 1, "the former process has ended")


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_visit_that_is_not_made_fails_the_call_which_is_not_made_afresh(
    stage: Stage, actor: Actor, action: str
) -> None:
    client = stage.modern()
    errand, _ = sent_away(actor, client, page())
    (key,) = errand.wish["inputRequests"]
    errand.go_on(**{key: {"action": action}})
    assert "declined" in errand.outcome().error["message"]
    is_called_once(actor, client)
    assert stage.scratch.status()["parked"] == 0


@pytest.mark.parametrize("declared", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
def test_a_client_that_visits_no_pages_is_told_which_capability_that_takes(stage: Stage, declared: Message) -> None:
    actor = stage.serve(keys={"isolation": "shared"})
    errand = Errand(stage.modern(capabilities=declared))
    demand(*actor.next("tools/call"), page())
    error = errand.outcome().error
    assert error["code"] == MISSING_CAPABILITY
    assert error["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert stage.scratch.status()["parked"] == 0


@pytest.mark.parametrize(
    "data", [None, {}, {"elicitations": []}, {"elicitations": [{"message": "no url"}]}, {"elicitations": "x"}]
)
def test_a_demand_without_pages_is_an_error_of_the_server(stage: Stage, actor: Actor, data: Any) -> None:
    errand, puppet, call = actor.called_by(stage.modern())
    puppet.refuse(call, DEMANDED, "Go there first.", data)
    error = errand.outcome().error
    assert (error["code"], error["message"]) == (FAILED, "Go there first.")


@OTHER_CALLS
def test_prompts_and_resources_may_demand_visits_too(
    stage: Stage, method: str, params: Message, result: Message
) -> None:
    actor = stage.serve(prompts=[{"name": "greet"}])
    errand, puppet = sent_away(actor, stage.modern(), page(), method=method, **params)
    puppet.notify(COMPLETED, elicitationId="e-1")
    errand.go_on()
    puppet, call = actor.next(method)
    puppet.answer(call, **result)
    assert errand.outcome().result.items() >= result.items()


def test_a_completion_cannot_demand_visits(stage: Stage) -> None:
    actor = stage.serve(prompts=[{"name": "greet"}])
    ref = {"type": "ref/prompt", "name": "puppet__greet"}
    errand = Errand(stage.modern(), method="completion/complete", ref=ref, argument={"name": "name", "value": ""})
    demand(*actor.next("completion/complete"), page())
    assert errand.outcome().error["code"] == FAILED


def test_a_retry_that_is_cancelled_while_it_waits_is_not_called_afresh(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    errand, puppet = sent_away(actor, client, page())
    errand.go_on()
    errand.cancel()
    daemon_is_past_what_was_said(client)
    puppet.notify(COMPLETED, elicitationId="e-1")
    actor.caught_up(puppet)
    assert len(actor.told("tools/call")) == 1
    # Its call has long been over.
    assert actor.told(CANCELLED) == []
    errand.go_on()
    assert errand.outcome().error["data"]["reason"] == "spent"


def test_a_server_that_died_meanwhile_is_called_afresh_in_its_next_life(stage: Stage, actor: Actor) -> None:
    errand, puppet = sent_away(actor, stage.modern(), page())
    puppet.close()
    errand.go_on()
    again, call = actor.next("tools/call")
    assert again is not puppet
    errand.finish(again, call, "visited")


def test_a_server_that_dies_while_the_retry_waits_is_called_afresh(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    errand, puppet = sent_away(actor, client, page())
    errand.go_on()
    daemon_is_past_what_was_said(client)
    puppet.close()
    finish(actor, errand)


def test_a_client_that_leaves_instead_of_visiting_leaves_nothing(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    _, puppet = sent_away(actor, client, page())
    client.close()
    stage.modern("other").ask("tools/list")
    actor.caught_up(puppet)
    assert stage.scratch.status()["parked"] == 0
    assert actor.told(CANCELLED) == []


def test_a_demand_expires_like_any_question(stage: Stage) -> None:
    actor = stage.actor()
    stage.start(parked_timeout=0.1)
    errand, _ = sent_away(actor, stage.modern(), page())
    until(lambda: stage.scratch.status()["parked"] == 0, "nothing is parked")
    errand.go_on()
    assert errand.outcome().error["data"]["reason"] == "expired"
    assert len(actor.told("tools/call")) == 1
