"""Who may stop or reload the daemon: the owner may; another session's wish is put to the owner, and answered."""

import json
from typing import Any

import pytest

from support.clients import Client, FramesClient, Message
from support.daemon import Scratch
from support.kernel import is_gone, until

ELICITATION: Message = {"elicitation": {}}


def owner_over(scratch: Scratch, wire: str, **handshake: Any) -> Client:
    client: Client = scratch.frames() if wire == "frames" else scratch.lines()
    client.initialize(**{"capabilities": ELICITATION, **handshake})
    return client


def reply(owner: Client, question: Message, **result: object) -> None:
    owner.send({"jsonrpc": "2.0", "id": question["id"], "result": result})


def asker_of(scratch: Scratch) -> FramesClient:
    client = scratch.frames(clientId="asker")
    client.initialize()
    return client


def asked(
    scratch: Scratch, wire: str = "lines", act: str = "shutdown", **handshake: Any
) -> tuple[Client, FramesClient, Message]:
    """An owner, a session that asks for something, and the question that the owner is shown."""
    owner, asker = owner_over(scratch, wire, **handshake), asker_of(scratch)
    asker.begin_control(act)
    return owner, asker, owner.next_called("elicitation/create")


def test_the_first_session_is_the_owner_and_may_stop_the_daemon(scratch: Scratch) -> None:
    daemon = scratch.start()
    owner = scratch.frames()
    assert owner.session["isOwner"] is True
    answer, _ = owner.control("shutdown")
    assert answer["ok"] is True
    assert owner.receive_type("goodbye")[0]["reconnect"] is False
    assert daemon.wait() == 0


def test_a_restart_tells_the_sessions_to_come_back(scratch: Scratch) -> None:
    daemon = scratch.start()
    owner = scratch.frames()
    assert owner.control("shutdown", restart=True)[0]["ok"] is True
    assert owner.receive_type("goodbye")[0]["reconnect"] is True
    assert daemon.wait() == 0


@pytest.mark.parametrize("wire", ["frames", "lines"])
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_the_owner_is_asked_and_its_yes_stops_the_daemon(scratch: Scratch, wire: str, version: str) -> None:
    daemon = scratch.start()
    owner, asker, question = asked(scratch, wire, version=version)
    assert asker.session["isOwner"] is False
    assert "test-client asks to shut the shared MCP daemon down" in question["params"]["message"]
    assert question["params"]["requestedSchema"]["properties"]["approve"]["type"] == "boolean"
    assert question["id"].startswith(f"hearth-{scratch.status()['daemonId']}-")
    reply(owner, question, action="accept", content={"approve": True})
    assert asker.receive_type("shutdown")[0]["ok"] is True
    assert daemon.wait() == 0


def test_anything_but_a_yes_is_a_no_and_the_asker_is_told(scratch: Scratch) -> None:
    scratch.start()
    owner = owner_over(scratch, "frames")
    asker = asker_of(scratch)
    unwilling = {"action": "accept", "content": {"approve": False}}
    for answer in (unwilling, {"action": "decline"}, {"action": "cancel"}, {"action": "accept"}, {}):
        asker.begin_control("shutdown")
        reply(owner, owner.next_called("elicitation/create"), **answer)
        refused, _ = asker.receive_type("shutdown")
        assert refused["ok"] is False
        assert "the owner said no" in refused["message"]
    assert asker.ask("ping")["result"] == {}


def test_the_question_is_settled_by_its_answer(scratch: Scratch) -> None:
    scratch.start()
    owner, asker, question = asked(scratch, "frames")
    assert isinstance(owner, FramesClient)
    assert next(header["ask"] for header in owner.headers if "ask" in header) == question["id"]
    reply(owner, question, action="decline")
    asker.receive_type("shutdown")
    while question["id"] not in (header := owner.receive_type("ack")[0]).get("answered", []):
        pass
    assert header["answered"] == [question["id"]]


def test_an_error_in_place_of_an_answer_is_a_no_with_its_reason(scratch: Scratch) -> None:
    scratch.start()
    owner, asker, question = asked(scratch)
    owner.send({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32603, "message": "no dialog here"}})
    refused, _ = asker.receive_type("shutdown")
    assert refused["ok"] is False
    assert "no dialog here" in refused["message"]


@pytest.mark.parametrize("wire", ["frames", "lines"])
def test_an_owner_that_leaves_while_it_is_asked_leaves_a_no(scratch: Scratch, wire: str) -> None:
    scratch.start()
    owner, asker, _ = asked(scratch, wire)
    owner.close()
    refused, _ = asker.receive_type("shutdown")
    assert refused["ok"] is False
    assert "has left" in refused["message"]
    assert asker.control("shutdown")[0]["ok"] is True


def test_an_asker_that_leaves_takes_its_question_back(scratch: Scratch) -> None:
    scratch.start()
    owner, asker, question = asked(scratch)
    asker.close()
    assert owner.next_called("notifications/cancelled")["params"]["requestId"] == question["id"]
    reply(owner, question, action="accept", content={"approve": True})
    assert owner.ask("ping")["result"] == {}
    assert [session["isOwner"] for session in scratch.status()["sessions"]] == [True]


def test_another_session_cannot_answer_in_the_owner_s_name(scratch: Scratch) -> None:
    scratch.start()
    owner, asker, question = asked(scratch)
    reply(asker, question, action="accept", content={"approve": True})
    assert asker.ask("ping")["result"] == {}
    reply(owner, question, action="decline")
    assert asker.receive_type("shutdown")[0]["ok"] is False


@pytest.mark.parametrize(
    "handshake",
    [
        {"capabilities": {}},
        {"version": "2025-03-26"},  # elicitation came later
    ],
)
@pytest.mark.parametrize(("policy", "stops"), [("never", False), ("always", True)])
def test_where_the_owner_cannot_be_asked_the_policy_answers(
    scratch: Scratch, handshake: Message, policy: str, stops: bool
) -> None:
    daemon = scratch.serve(owner__approve=policy)
    owner_over(scratch, "frames", **handshake)
    asker = asker_of(scratch)
    answer, _ = asker.control("shutdown")
    assert answer["ok"] is stops
    if stops:
        assert daemon.wait() == 0
    else:
        assert "owner.approve is 'never'" in answer["message"]
        assert not is_gone(daemon.pid)


def test_a_reload_is_asked_for_in_the_same_way(scratch: Scratch) -> None:
    scratch.serve()
    owner, asker, question = asked(scratch, act="reload")
    assert "reload the configuration" in question["params"]["message"]
    reply(owner, question, action="accept", content={"approve": True})
    answer, _ = asker.receive_type("reload")
    assert answer["ok"] is True
    assert str(scratch.config) in answer["message"]


def test_the_person_at_the_terminal_outranks_every_session(scratch: Scratch) -> None:
    daemon = scratch.start()
    owner_over(scratch, "lines")
    control = scratch.control()
    assert control.control("shutdown")[0]["ok"] is True
    assert daemon.wait() == 0


def test_a_control_connection_owns_nothing_and_is_no_session(scratch: Scratch) -> None:
    scratch.start()
    control = scratch.control()
    status = json.loads(control.control("status")[1])
    assert (status["sessions"], status["owner"]) == ([], None)


def test_when_the_owner_leaves_the_earliest_other_becomes_it_and_all_are_told(scratch: Scratch) -> None:
    scratch.start()
    first, second, third = scratch.frames(), scratch.frames(), scratch.frames()
    first.close()
    heard = [client.receive_type("ownerChanged")[0] for client in (second, third)]
    assert [item["sessionId"] for item in heard] == [second.session["sessionId"]] * 2
    assert [item["isOwner"] for item in heard] == [True, False]
    until(lambda: scratch.status()["owner"] == second.session["sessionId"], "the second is the owner")


def test_a_server_is_restarted_by_the_owner_and_not_by_another_without_its_word(scratch: Scratch) -> None:
    scratch.start()
    owner, asker = scratch.frames(), asker_of(scratch)
    refused, _ = asker.control("restart", server="nobody")
    assert (refused["ok"], "owner" in refused["message"]) == (False, True)
    answer, _ = owner.control("restart", server="nobody")
    assert (answer["ok"], "there is no server 'nobody'" in answer["message"]) == (False, True)
