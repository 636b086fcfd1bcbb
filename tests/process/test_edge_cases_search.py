"""What seldom happens, through `call_tool`: questions in the midst of a call, retries, errors, odd results.

Each is what the direct call would have had.
"""

from typing import Any

import pytest

from support.conformance.clients import Message
from support.conformance.revisions import MODERN, NEWEST_LEGACY
from support.puppets.server import Puppet
from support.puppets.stage import FORM_ANSWER, INVALID_PARAMS, QUESTIONS, Actor, Errand, Stage, page

INNER: Message = {"name": "puppet__act", "arguments": {"key": "value"}}
THROUGH: Message = {"name": "call_tool", "arguments": INNER}
PAIRS = pytest.mark.parametrize(
    ("client", "server"), [(client, server) for client in (NEWEST_LEGACY, MODERN) for server in (NEWEST_LEGACY, MODERN)]
)


def staged(stage: Stage, revision: str, **settings: Any) -> Actor:
    found = stage.actor(revision)
    stage.start(mode="search", **settings)
    return found


@PAIRS
@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": "no", "annotations": {"x": 1}}], "isError": True},
        {"content": [], "structuredContent": {"a": [1.5, None]}, "x-own": {"deep": [[]]}},
    ],
    ids=["failed", "structured"],
)
def test_results_are_those_of_the_direct_call(stage: Stage, client: str, server: str, result: Message) -> None:
    actor = staged(stage, server)
    somebody = stage.guest(client)
    found = []
    for params in (INNER, THROUGH):
        errand, puppet, call = actor.called_by(somebody, **params)
        assert (call["params"]["name"], call["params"]["arguments"]) == ("act", {"key": "value"})
        puppet.answer(call, **result)
        found.append(errand.outcome().result)
    assert found[0] == found[1]


@PAIRS
def test_errors_are_those_of_the_direct_call(stage: Stage, client: str, server: str) -> None:
    actor = staged(stage, server)
    somebody = stage.guest(client)
    found = []
    for params in (INNER, THROUGH):
        errand, puppet, call = actor.called_by(somebody, **params)
        puppet.refuse(call, INVALID_PARAMS, "not like this", {"hint": [1]})
        found.append(errand.outcome().error)
    assert found[0] == found[1] == {"code": INVALID_PARAMS, "message": "not like this", "data": {"hint": [1]}}


# --- modern clients on legacy servers that ask


def parked(stage: Stage) -> tuple[Actor, Errand, Puppet, Message]:
    """A call in the midst of which the server has asked `q-1`; the client knows."""
    actor = staged(stage, NEWEST_LEGACY)
    errand, puppet, call = actor.called_by(stage.modern(), **THROUGH)
    puppet.ask("q-1", "elicitation/create", **QUESTIONS["elicitation/create"])
    assert len(errand.wishes()) == 1
    return actor, errand, puppet, call


def goes_on(actor: Actor, errand: Errand, puppet: Puppet, call: Message) -> None:
    """The client answers, and the call ends as it should."""
    errand.fill_in(actor, "q-1")
    errand.finish(puppet, call, "thanks")


def test_a_parked_call_goes_on_with_a_retry_of_call_tool(stage: Stage) -> None:
    goes_on(*parked(stage))


def test_a_retry_with_other_arguments_or_of_another_tool_is_refused(stage: Stage) -> None:
    actor, errand, puppet, call = parked(stage)
    for inner in ({**INNER, "arguments": {"key": "other"}}, {**INNER, "name": "puppet__other"}):
        errand.call_again(arguments=inner, inputResponses={})
        assert errand.outcome().error["code"] == INVALID_PARAMS
    goes_on(actor, errand, puppet, call)


def test_the_retry_may_be_the_direct_call_that_it_stands_for(stage: Stage) -> None:
    actor, errand, puppet, call = parked(stage)
    errand.params = INNER
    goes_on(actor, errand, puppet, call)


def test_urls_that_are_demanded_first_are_visited_and_the_tool_is_called_again(stage: Stage) -> None:
    actor = staged(stage, NEWEST_LEGACY)
    errand, puppet, call = actor.called_by(stage.modern(), **THROUGH)
    puppet.refuse(call, -32042, "first this", {"elicitations": [page()]})
    assert len(errand.wishes()) == 1
    errand.go_on()
    puppet.notify("notifications/elicitation/complete", elicitationId="e-1")
    again, second = actor.next("tools/call")
    assert (second["params"]["name"], second["params"]["arguments"]) == ("act", {"key": "value"})
    errand.finish(again, second, "seen")


# --- modern servers that require input


def test_a_legacy_client_is_asked_and_the_tool_called_again(stage: Stage) -> None:
    actor = staged(stage, MODERN)
    client = stage.legacy()
    errand, puppet, call = actor.called_by(client, **THROUGH)
    asked = {"method": "elicitation/create", "params": QUESTIONS["elicitation/create"]}
    puppet.answer(call, resultType="input_required", inputRequests={"q": asked}, requestState="s")
    assert client.next_question()["method"] == "elicitation/create"
    puppet, call = actor.next("tools/call")
    assert call["params"]["name"] == "act"
    assert call["params"]["arguments"] == {"key": "value"}
    assert (call["params"]["inputResponses"], call["params"]["requestState"]) == ({"q": FORM_ANSWER}, "s")
    errand.finish(puppet, call, "thanks")


def test_a_modern_clients_wish_and_retry_pass_untouched(stage: Stage) -> None:
    actor = staged(stage, MODERN)
    errand, puppet, call = actor.called_by(stage.modern(), **THROUGH)
    asked = {"method": "elicitation/create", "params": QUESTIONS["elicitation/create"]}
    puppet.answer(call, resultType="input_required", inputRequests={"q": asked}, requestState="odd /\u2028")
    assert errand.wishes() == {"q": asked}
    errand.go_on()
    puppet, call = actor.next("tools/call")
    assert call["params"]["name"] == "act"
    assert call["params"]["requestState"] == "odd /\u2028"
    assert call["params"]["inputResponses"] == {"q": FORM_ANSWER}
    errand.finish(puppet, call, "thanks")


# --- time


def test_a_call_that_takes_too_long_ends_as_the_direct_one_does(stage: Stage) -> None:
    actor = stage.actor(NEWEST_LEGACY, keys={"call_timeout": 1})
    stage.start(mode="search")
    client = stage.legacy()
    found = []
    for params in (INNER, THROUGH):
        errand = Errand(client, **params)
        actor.next("tools/call")
        found.append(errand.outcome().error)
        actor.next("notifications/cancelled")
    assert found[0] == found[1]
    assert "call_timeout" in found[0]["message"]
