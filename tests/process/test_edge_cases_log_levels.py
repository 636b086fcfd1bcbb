"""Which messages of servers reach whom: the level of each session, of each request, and of the server they share."""

import pytest

from support.conformance.clients import LOGGED
from support.kernel import until
from support.puppets.stage import INVALID_PARAMS, MODERN, Actor, Client, Errand, Message, Puppet, Stage

SET_LEVEL = "logging/setLevel"
LEVEL = "io.modelcontextprotocol/logLevel"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


@pytest.fixture
def actor(stage: Stage) -> Actor:
    """A legacy server for everybody, and a daemon in front of it."""
    return stage.serve(keys={"isolation": "shared"})


def set_level(client: Client, level: str) -> None:
    outcome = client.ask(SET_LEVEL, level=level)
    assert (outcome.result, outcome.error) == ({}, {})


def levels(actor: Actor) -> list[str]:
    """What the server was set to, one after another."""
    return [params["level"] for params in actor.told(SET_LEVEL)]


def talk(puppet: Puppet, call: Message, data: str) -> None:
    """The server says something at every level, then answers."""
    puppet.send(*({"method": LOGGED, "params": {"level": level, "data": data}} for level in LEVELS))
    puppet.say(call, data)


def heard(actor: Actor, client: Client, level: str | None = None) -> list[str]:
    """The levels of what reaches a client in a call of its own; `level` is the request's."""
    meta = {} if level is None else {"_meta": {LEVEL: level}}
    errand, puppet, call = actor.called_by(client, name="puppet__act", arguments={}, **meta)
    talk(puppet, call, client.name)
    found = errand.outcome()
    assert found.text == client.name
    assert {entry["data"] for entry in found.logs} <= {client.name}
    return [entry["level"] for entry in found.logs]


# --- sessions


def test_a_shared_server_is_as_verbose_as_the_most_curious_and_each_hears_what_it_asked_for(
    stage: Stage, actor: Actor
) -> None:
    quiet, curious, unset = (stage.legacy(name=name) for name in ("quiet", "curious", "unset"))
    set_level(quiet, "error")
    assert heard(actor, quiet) == list(LEVELS[4:])
    assert levels(actor) == ["error"]
    set_level(curious, "debug")
    assert heard(actor, curious) == list(LEVELS)
    assert levels(actor)[-1] == "debug"
    assert heard(actor, quiet) == list(LEVELS[4:])
    # Who sets none still expects messages.
    assert heard(actor, unset)[-1] == "emergency"
    set_level(quiet, "emergency")
    assert heard(actor, quiet) == ["emergency"]
    assert levels(actor)[-1] == "debug"


def test_when_the_most_curious_leaves_the_server_is_as_verbose_as_the_next(stage: Stage, actor: Actor) -> None:
    quiet, curious = stage.legacy(name="quiet"), stage.legacy(name="curious")
    for client, level in ((quiet, "warning"), (curious, "debug")):
        set_level(client, level)
        heard(actor, client)
    curious.close()
    until(lambda: levels(actor)[-1] == "warning", "the server is quieter")
    assert heard(actor, quiet) == list(LEVELS[3:])


def test_nobody_hears_what_another_s_call_made_the_server_say(stage: Stage, actor: Actor) -> None:
    one, other = stage.legacy(name="one"), stage.legacy(name="other")
    for client in (one, other):
        set_level(client, "debug")
        client.ask("tools/list")
    errands = [Errand(client) for client in (one, other)]
    calls = [actor.next("tools/call") for _ in errands]
    puppet = calls[0][0]
    puppet.notify(LOGGED, level="emergency", data="whose?")
    for _, call in calls:
        puppet.say(call, "done")
    assert [errand.outcome().logs for errand in errands] == [[], []]
    # Nobody's call is in flight.
    puppet.notify(LOGGED, level="emergency", data="whose?")
    actor.caught_up(puppet)
    for client in (one, other):
        client.ask("ping")
        assert client.notices == []


def test_the_only_client_of_a_server_hears_it_between_its_calls(stage: Stage) -> None:
    actor = stage.serve()
    client = stage.legacy()
    set_level(client, "notice")
    puppet = first_process(actor, client)
    puppet.notify(LOGGED, level="info", data="below")
    puppet.notify(LOGGED, level="notice", data="between")
    assert client.next_notice(LOGGED)["params"] == {"level": "notice", "data": "between"}


def first_process(actor: Actor, client: Client) -> Puppet:
    errand, puppet, call = actor.called_by(client)
    errand.finish(puppet, call, "here")
    return puppet


def test_a_level_that_there_is_not_is_refused_and_changes_nothing(stage: Stage, actor: Actor) -> None:
    client = stage.legacy()
    set_level(client, "error")
    for level in ("loud", "", 7, None, "ERROR"):
        assert client.ask(SET_LEVEL, level=level).error["code"] == INVALID_PARAMS
    assert client.ask(SET_LEVEL).error["code"] == INVALID_PARAMS
    assert heard(actor, client) == list(LEVELS[4:])


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_level_that_was_set_before_any_server_ran_counts(stage: Stage, revision: str) -> None:
    actor = stage.serve(keys={"isolation": "shared"})
    client = stage.legacy(revision)
    set_level(client, "alert")
    assert actor.record == []
    assert heard(actor, client) == ["alert", "emergency"]
    assert levels(actor) == ["alert"]


def test_a_server_that_dies_is_set_to_its_level_again(stage: Stage, actor: Actor) -> None:
    client = stage.legacy()
    set_level(client, "critical")
    errand, puppet, _ = actor.called_by(client)
    puppet.close()
    assert errand.outcome().error
    assert heard(actor, client) == list(LEVELS[5:])
    assert levels(actor) == ["critical", "critical"]


def test_a_level_outlives_the_daemon(stage: Stage, upstream: str) -> None:
    actor = stage.serve(upstream, keys={"isolation": "shared"})
    client = stage.legacy(wire=stage.bridge())
    for level in ("debug", "error"):
        set_level(client, level)
    assert heard(actor, client) == list(LEVELS[4:])
    stage.crash()
    # The bridge connects again by itself, and the level is replayed before anything else.
    errand, puppet, call = actor.called_by(client)
    if upstream == MODERN:
        assert call["params"]["_meta"][LEVEL] == "error"
    else:
        assert levels(actor) == ["error", "error"]
    talk(puppet, call, "after")
    assert [entry["level"] for entry in errand.outcome().logs] == list(LEVELS[4:])


# --- requests


def test_a_modern_request_hears_what_it_asked_for_and_only_that(stage: Stage, upstream: str) -> None:
    actor = stage.serve(upstream, keys={"isolation": "shared"})
    client = stage.modern()
    assert heard(actor, client) == []
    assert heard(actor, client, "error") == list(LEVELS[4:])
    assert heard(actor, client, "debug") == list(LEVELS)
    assert heard(actor, client, "emergency") == ["emergency"]
    assert heard(actor, client) == []


def test_a_legacy_server_is_never_made_quieter_by_a_modern_request(stage: Stage, actor: Actor) -> None:
    old, new = stage.legacy(name="old"), stage.modern("new")
    set_level(old, "info")
    assert heard(actor, old) == list(LEVELS[1:])
    assert heard(actor, new, "emergency") == ["emergency"]
    assert levels(actor) == ["info"]
    assert heard(actor, new, "debug") == list(LEVELS)
    assert levels(actor) == ["info", "debug"]
    # Its own level is what counts for each.
    assert heard(actor, old) == list(LEVELS[1:])


def test_a_legacy_session_on_a_modern_server_hears_its_level(stage: Stage) -> None:
    actor = stage.serve(MODERN, keys={"isolation": "shared"})
    client = stage.legacy()
    errand, puppet, call = actor.called_by(client)
    # A server of that revision says nothing unless it is told how loud.
    assert call["params"]["_meta"][LEVEL] in LEVELS
    puppet.say(call, "done")
    errand.outcome()
    set_level(client, "warning")
    errand, puppet, call = actor.called_by(client)
    assert call["params"]["_meta"][LEVEL] == "warning"
    puppet.say(call, "done")
    errand.outcome()
    assert heard(actor, client) == list(LEVELS[3:])
    assert actor.told(SET_LEVEL) == []


def test_a_request_with_a_level_that_there_is_not_is_refused(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    for level in ("loud", "", 7, None):
        error = Errand(client, name="puppet__act", _meta={LEVEL: level}).outcome().error
        assert error["code"] == INVALID_PARAMS
        assert LEVEL in error["message"]
    assert actor.told("tools/call") == []


def test_a_server_without_messages_is_not_told_how_loud_to_be(stage: Stage) -> None:
    actor = stage.actor(keys={"isolation": "shared"})
    actor.declared = {"tools": {}}
    stage.start()
    client = stage.legacy()
    set_level(client, "debug")
    errand, puppet, call = actor.called_by(client)
    errand.finish(puppet, call, "done")
    assert levels(actor) == []
