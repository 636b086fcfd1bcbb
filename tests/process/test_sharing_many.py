"""Many at once: nobody waits for somebody else's call, and a server gets no more at a time than it can take."""

import json
import os
import signal

import pytest

from support.clients import text_of
from support.conformance.clients import CANCELLED, Client, Message
from support.daemon import Scratch, pids_of, server
from support.kernel import until
from support.puppets.server import Puppet, PuppetServer
from support.puppets.sharing import FORM, House, act, called, finish, heard_nothing, outcome


def numbered(client: Client, number: int) -> object:
    """Begin a call with a number in it."""
    return client.begin("tools/call", name="puppet__act", arguments={"number": number})


def number_of(call: Message) -> int:
    return int(call["params"]["arguments"]["number"])


def known(server: PuppetServer, client: Client) -> Client:
    """The client, once it has its process: which that is must be found out at first."""
    puppet, call = called(server, client, id_ := act(client))
    finish(client, id_, puppet, call, "done")
    return client


def has_no_more(server: PuppetServer, puppet: Puppet) -> bool:
    """Whether the puppet has been sent nothing but what the test has taken: an answer comes behind all that was."""
    puppet.ask("ping", "ping")
    return server.next()[1] == {"jsonrpc": "2.0", "id": "ping", "result": {}}


# --- nobody waits for another


def test_later_calls_may_be_answered_first(house: House, revision: str, upstream: str) -> None:
    server = house.serve(upstream)
    client = house.client(revision)
    ids = [numbered(client, number) for number in range(5)]
    calls = [server.next("tools/call") for _ in ids]
    for id_, (puppet, call) in reversed(list(zip(ids, calls, strict=True))):
        puppet.say(call, f"answer {number_of(call)}")
        assert outcome(client, id_).text == f"answer {ids.index(id_)}"


def test_a_call_that_is_never_answered_holds_up_nobody(house: House) -> None:
    server, other = house.server(), house.server(name="other")
    house.start()
    ann, bob = house.legacy("ann"), house.modern("bob")
    called(server, ann, act(ann))
    for client, upstream, name in ((ann, server, "puppet"), (ann, other, "other"), (bob, server, "puppet")):
        puppet, call = called(upstream, client, id_ := act(client, name))
        finish(client, id_, puppet, call, "done")


def test_a_server_that_is_slow_to_start_holds_up_nobody(scratch: Scratch) -> None:
    gate = scratch.home / "gate"
    os.mkfifo(gate)
    scratch.serve({"slow": server("keeping", "--gate", gate), "quick": server("keeping")})
    client, other = scratch.frames(), scratch.lines()
    client.initialize()
    late = client.begin_call("slow__count")
    pids_of(scratch, "slow")
    assert json.loads(text_of(client.call("quick__count")))["count"] == 1
    assert json.loads(text_of(other.call("quick__count")))["count"] == 2
    gate.write_text("")
    assert json.loads(text_of(client.answer_to(late)))["count"] == 1


def test_a_server_that_does_not_read_holds_up_nobody(scratch: Scratch) -> None:
    scratch.serve({"deaf": server("deaf", "tools/list"), "quick": server("keeping")}, upstream_queue_limit=100_000)
    client = scratch.frames().initialized()
    client.tools()
    # More than the pipe and the queue take: what is too much fails at once and by name.
    ids = [client.begin_call("deaf__echo", text="x" * 50_000) for _ in range(10)]
    assert json.loads(text_of(client.call("quick__count")))["count"] == 1
    assert "server 'deaf' does not read its input" in client.answer_to(ids[-1])["error"]["message"]


# --- no more at a time than a server can take


@pytest.mark.parametrize("limit", [1, 3])
def test_a_server_is_never_given_more_at_a_time_than_it_takes(scratch: Scratch, limit: int) -> None:
    scratch.serve({"crowd": server("crowded", limit + 1, max_concurrency=limit)})
    clients = [scratch.frames(), scratch.lines(), scratch.frames()]
    for client in clients:
        client.initialize()
    begun = [(client, client.begin_call("crowd__wait", key=key), key) for key in range(8) for client in clients]
    found = [json.loads(text_of(client.answer_to(id_))) for client, id_, _ in begun]
    assert [item["mine"] for item in found] == [{"key": key} for _, _, key in begun]
    assert max(item["most"] for item in found) == limit


def test_without_a_limit_a_server_is_given_everything_at_once(scratch: Scratch) -> None:
    client = scratch.serve({"crowd": server("crowded", 24)}).frames().initialized()
    ids = [client.begin_call("crowd__wait", key=key) for key in range(24)]
    assert max(json.loads(text_of(client.answer_to(id_)))["most"] for id_ in ids) == 24


def test_calls_that_wait_are_sent_in_the_order_of_their_coming(house: House, revision: str) -> None:
    server = house.serve(max_concurrency=2)
    clients = [known(server, house.client(revision, name)) for name in ("ann", "bob")]
    ids = []
    for number in range(6):
        client = clients[number % 2]
        ids.append((client, numbered(client, number)))
        # It has been taken when what came after it is answered.
        assert heard_nothing(client)
    calls = [server.next("tools/call") for _ in range(2)]
    puppet = calls[0][0]
    assert has_no_more(server, puppet)
    for number, (client, id_) in enumerate(ids):
        puppet, call = calls[number]
        assert number_of(call) == number
        puppet.say(call, f"answer {number}")
        assert outcome(client, id_).text == f"answer {number}"
        if number < 4:
            calls.append(server.next("tools/call"))
            assert has_no_more(server, puppet)


def test_a_call_that_is_cancelled_while_it_waits_is_never_sent(house: House, revision: str) -> None:
    server = house.serve(max_concurrency=1)
    client = house.client(revision)
    first = numbered(client, 0)
    puppet, call = server.next("tools/call")
    ids = [numbered(client, number) for number in (1, 2, 3)]
    client.cancel(ids[0])
    client.cancel(ids[1])
    assert heard_nothing(client)
    finish(client, first, puppet, call, "done")
    puppet, call = server.next("tools/call", CANCELLED)
    assert number_of(call) == 3
    assert has_no_more(server, puppet)
    puppet.say(call, "done")
    assert outcome(client, ids[2]).text == "done"


def test_the_calls_of_a_client_that_leaves_make_room_and_are_not_sent(house: House) -> None:
    server = house.serve(max_concurrency=1, isolation="shared")
    ann, bob = (known(server, house.legacy(name)) for name in ("ann", "bob"))
    numbered(ann, 0)
    puppet, _ = server.next("tools/call")
    numbered(ann, 1)
    assert heard_nothing(ann)
    last = numbered(bob, 2)
    assert heard_nothing(bob)
    ann.close()
    puppet, call = server.next("tools/call")
    assert number_of(call) == 2
    finish(bob, last, puppet, call, "done")


def waiting_calls(server: PuppetServer, house: House) -> tuple[Client, Client, list[object]]:
    """One call of ann's that the server has, and one of hers and one of bob's that wait for their turn."""
    ann, bob = known(server, house.legacy("ann")), known(server, house.modern("bob"))
    first, second = numbered(ann, 0), numbered(ann, 1)
    server.next("tools/call")
    third = numbered(bob, 2)
    assert heard_nothing(ann) and heard_nothing(bob)
    return ann, bob, [first, second, third]


def test_calls_that_wait_have_their_turn_in_the_next_process_of_a_server_that_died(house: House) -> None:
    server = house.serve(max_concurrency=1)
    ann, bob, (first, *waiting) = waiting_calls(server, house)
    os.kill(house.pids()[0], signal.SIGKILL)
    # Only what was inside the process is lost with it.
    failed = ann.wire.receive()
    assert (failed["id"], failed["error"]["code"]) == (first, -32603)
    assert "server 'puppet' ended (signal 9) before it answered" in failed["error"]["message"]
    for number, (client, id_) in enumerate(zip((ann, bob), waiting, strict=True), start=1):
        puppet, call = server.next("tools/call")
        assert number_of(call) == number
        puppet.say(call, f"answer {number}")
        assert outcome(client, id_).text == f"answer {number}"


def test_calls_that_wait_fail_with_a_server_that_is_taken_out_of_the_config(house: House) -> None:
    server = house.server(max_concurrency=1)
    house.start(drain_timeout=0.2)
    ann, bob, ids = waiting_calls(server, house)
    house.scratch.reconfigure({}, drain_timeout=0.2)
    answers = {message["id"]: message["error"] for message in (ann.wire.receive(), ann.wire.receive())}
    answers["bob"] = bob.wire.receive()["error"]
    assert {error["code"] for error in answers.values()} == {-32603}
    assert "has not finished within 0.2 s (drain_timeout)" in answers[ids[0]]["message"]
    for waited in (ids[1], "bob"):
        assert "server 'puppet' ended before it took the call" in answers[waited]["message"]


def test_each_process_has_its_own_limit(house: House) -> None:
    server = house.serve(max_concurrency=1, isolation="session")
    clients = [house.legacy(name) for name in ("ann", "bob")]
    ids = [numbered(client, number) for number, client in enumerate(clients)]
    calls = [server.next("tools/call") for _ in ids]
    for puppet, call in calls:
        puppet.say(call, f"answer {number_of(call)}")
    assert [outcome(client, id_).text for client, id_ in zip(clients, ids, strict=True)] == ["answer 0", "answer 1"]


def test_a_call_that_was_given_up_makes_room(house: House) -> None:
    server = house.serve(max_concurrency=1, call_timeout=0.5)
    client = house.legacy("ann")
    first, second = numbered(client, 0), numbered(client, 1)
    server.next("tools/call")
    assert "call_timeout" in outcome(client, first).error["message"]
    puppet, call = server.next("tools/call")
    assert number_of(call) == 1
    finish(client, second, puppet, call, "done")


def test_a_list_that_is_never_answered_makes_room_for_calls(house: House) -> None:
    server = house.serve(max_concurrency=1, start_timeout=0.5)
    client = house.legacy("ann")
    puppet, call = called(server, client, id_ := act(client))
    finish(client, id_, puppet, call, "done")
    server.mute.add("tools/list")
    puppet.notify("notifications/tools/list_changed")
    server.next("tools/list")
    # Hearth's own request is in flight, and is given up after a while.
    puppet, call = called(server, client, id_ := act(client))
    finish(client, id_, puppet, call, "done")


# --- what a question does to calls in flight


@pytest.mark.parametrize("ceiling", [0, 300])
def test_calls_on_a_process_that_is_no_longer_shared_finish_there_in_their_own_time(house: House, ceiling: int) -> None:
    server, clock = house.server(call_ceiling=ceiling), house.server(name="clock", isolation="session")
    house.start(drain_timeout=0.1, question_timeout=1)
    ann, bob = house.legacy("ann"), house.legacy("bob", silent=True)
    (puppet, call), (_, other) = called(server, ann, id_ := act(ann)), called(server, bob, second := act(bob))
    puppet.ask("q", "elicitation/create", **FORM)
    assert "error" in server.next(None)[1]
    # A while passes: that of a question which nobody answers.
    asking, timed = called(clock, bob, third := act(bob, "clock"))
    asking.ask("q", "elicitation/create", **FORM)
    assert "nobody answered" in clock.next(None)[1]["error"]["message"]
    asking.say(timed, "done")
    bob.next_question()
    assert outcome(bob, third).text == "done"
    finish(ann, id_, puppet, call, "done")
    finish(bob, second, puppet, other, "done")


def test_calls_on_a_process_that_is_no_longer_shared_still_have_their_time(house: House) -> None:
    server = house.serve(call_timeout=0.5)
    ann, bob = house.legacy("ann"), house.legacy("bob")
    (puppet, _), _ = called(server, ann, id_ := act(ann)), called(server, bob, act(bob))
    puppet.ask("q", "elicitation/create", **FORM)
    assert "error" in server.next(None)[1]
    assert "call_timeout" in outcome(ann, id_).error["message"]
    until(lambda: house.pids() == [], "the former process has ended")
