"""Servers of both eras of MCP: one process for the clients of both, until the server shows that it needs two."""

import pytest

from support.conformance.revisions import MODERN, NEWEST_LEGACY
from support.kernel import is_gone, until
from support.puppets.server import PuppetServer
from support.puppets.shared_questions import AMBIGUOUS, all_called
from support.puppets.sharing import FORM, House, act, asked, called, finish, heard_nothing, outcome

UNSUPPORTED_VERSION = -32022


def eras_of(house: House) -> list[str]:
    return [instance["era"] for instance in house.scratch.upstream("puppet")["instances"]]


def speaks_modern(server: PuppetServer) -> None:
    """Have the processes that are started from now on answer to the modern era."""
    server.revision = MODERN


def test_a_question_that_cannot_be_attributed_restarts_the_server_in_the_modern_era(house: House) -> None:
    server = house.server()
    daemon = house.start()
    clients = [house.legacy("ann"), house.modern("bob")]
    # The legacy client is the first, so the server is not asked for the modern era.
    puppet, call = called(server, clients[0], id_ := act(clients[0]))
    puppet.say(call, "done")
    assert outcome(clients[0], id_).text == "done"
    ids, begun = all_called(server, clients)
    (puppet,) = {puppet for puppet, _ in begun.values()}
    (pid,) = house.pids()
    puppet.ask("q", "elicitation/create", **FORM)
    assert AMBIGUOUS in server.next(None)[1]["error"]["message"]
    for client, id_ in zip(clients, ids, strict=True):
        puppet.say(begun[client.name][1], "done without")
        assert outcome(client, id_).text == "done without"
    speaks_modern(server)
    for _ in range(2):
        both_are_asked_by_one_process(server, house)
        until(lambda gone=pid: is_gone(gone), "the former process has ended")
        assert (eras_of(house), house.mode(), len(house.pids())) == (["modern"], "shared", 1)
        # The era is remembered, also for a legacy client that comes first.
        (pid,) = house.pids()
        assert daemon.stop() == 0
        daemon = house.scratch.start()


def test_a_server_that_starts_eagerly_is_started_in_the_modern_era_without_a_call(house: House) -> None:
    server = house.server()
    daemon = house.start()
    ann = house.legacy("ann")
    # A legacy client is the first, so the server is known as a legacy one, and not asked for the modern era.
    puppet, call = called(server, ann, id_ := act(ann))
    finish(ann, id_, puppet, call, "done")
    assert daemon.stop() == 0
    house.scratch.configure({"puppet": server.entry(start="eager")})
    house.scratch.start()
    bob = house.legacy("bob")
    puppet, call = called(server, bob, id_ := act(bob))
    speaks_modern(server)
    puppet.ask("q", "elicitation/create", **FORM)
    bob.next_question()
    # Its own list is read, too, while it works.
    while server.next("tools/list")[0] is puppet:
        pass
    puppet.send({"id": call["id"], "result": {"content": [{"type": "text", "text": "done"}]}})
    assert outcome(bob, id_).text == "done"
    until(lambda: eras_of(house) == ["modern"], "the successor runs")


def both_are_asked_by_one_process(server: PuppetServer, house: House) -> None:
    """Each client gets its own question although both are inside a call of one process."""
    clients = [house.legacy("ann"), house.modern("bob")]
    ids, begun = all_called(server, clients)
    (puppet,) = {puppet for puppet, _ in begun.values()}
    for name, (_, call) in begun.items():
        wish = {"method": "elicitation/create", "params": {**FORM, "message": f"Are you {name}?"}}
        puppet.answer(call, resultType="input_required", inputRequests={"q": wish}, requestState=name)
    for client, id_ in zip(clients, ids, strict=True):
        question, id_ = asked(client, id_)
        assert question["params"]["message"] == f"Are you {client.name}?"
        again, call = server.next("tools/call")
        assert again is puppet
        assert call["params"]["requestState"] == client.name
        puppet.say(call, f"done for {client.name}")
        assert outcome(client, id_).text == f"done for {client.name}"
    assert all(map(heard_nothing, clients))
    for client in clients:
        client.close()


@pytest.mark.parametrize("isolation", ["auto", "workspace"])
@pytest.mark.parametrize("first", [NEWEST_LEGACY, MODERN])
def test_a_process_that_refuses_the_other_era_s_calls_gets_one_beside_it(
    house: House, isolation: str, first: str
) -> None:
    server = house.serve(first, isolation=isolation)
    second = MODERN if first == NEWEST_LEGACY else NEWEST_LEGACY
    ann, bob = house.client(first, "ann", "here"), house.client(second, "bob", "here")
    puppet, call = called(server, ann, id_ := act(ann))
    finish(ann, id_, puppet, call, "done")
    puppet, call = called(server, bob, id_ := act(bob, _meta={"org.example/mark": "kept"}))
    server.revision = second
    puppet.refuse(call, UNSUPPORTED_VERSION, "not in this era")
    other, call = server.next("tools/call")
    assert other is not puppet
    assert call["params"]["_meta"]["org.example/mark"] == "kept"
    finish(bob, id_, other, call, "done beside")
    # Each era keeps a process of its own, and both are called.
    server.revision = first
    ids, begun = all_called(server, [ann, bob])
    assert len({id(puppet) for puppet, _ in begun.values()}) == 2
    for client, id_ in zip((ann, bob), ids, strict=True):
        puppet, call = begun[client.name]
        server.revision = client.revision
        finish(client, id_, puppet, call, "done")
    assert sorted(eras_of(house)) == ["legacy", "modern"]
