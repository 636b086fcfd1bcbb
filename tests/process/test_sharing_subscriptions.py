"""Who waits to hear of a resource hears of it from whichever process serves it, whatever becomes of the others."""

import pytest

from support.conformance.clients import UPDATED, Client
from support.conformance.revisions import NEWEST_LEGACY
from support.daemon import server as echo
from support.kernel import is_gone, until
from support.puppets.server import Puppet, PuppetServer
from support.puppets.sharing import PROMPT, House, act, called, finish, heard_nothing, outcome

SUBSCRIBE = "resources/subscribe"
URI = "test://one"
OFFERS = {"resources": [{"uri": URI, "name": "one"}]}


def told(client: Client, puppet: Puppet) -> bool:
    """Whether the client hears of a change that the puppet announces."""
    puppet.notify(UPDATED, uri=URI)
    return bool(client.next_notice(UPDATED)["params"]["uri"] == URI)


def subscribed(server: PuppetServer, client: Client) -> Puppet:
    """The puppet that was asked for notices, of those that were not asked before."""
    client.subscribe(URI)
    return server.next(SUBSCRIBE)[0]


def test_a_subscription_follows_its_client_to_a_process_of_its_own(house: House, revision: str) -> None:
    server = house.serve(offers=OFFERS)
    client = house.client(revision, bare=True)
    former = subscribed(server, client)
    (pid,) = house.pids()
    assert told(client, former)
    puppet, call = called(server, client, id_ := act(client))
    assert puppet is former
    puppet.ask("q", "sampling/createMessage", **PROMPT)
    # Nobody calls: it is asked for its notices all the same.
    puppet, _ = server.next(SUBSCRIBE)
    assert puppet is not former
    finish(client, id_, former, call, "done")
    until(lambda: is_gone(pid), "the former process has ended")
    assert told(client, puppet)


def test_a_subscription_follows_its_client_to_another_workspace(house: House) -> None:
    server = house.serve(offers=OFFERS, isolation="workspace")
    client = house.legacy("ann")
    id_ = client.begin(SUBSCRIBE, uri=URI)
    client.next_question()
    former = server.next(SUBSCRIBE)[0]
    assert outcome(client, id_).result == {}
    client.name = "bob"
    client.wire.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
    client.next_question()
    puppet, _ = server.next(SUBSCRIBE)
    assert puppet is not former
    assert told(client, puppet)
    former.notify(UPDATED, uri=URI)
    assert heard_nothing(client)


def test_a_subscription_survives_a_reload_that_changes_its_server(house: House, revision: str) -> None:
    server = house.serve(offers=OFFERS)
    client = house.client(revision, bare=True)
    former = subscribed(server, client)
    house.scratch.reconfigure({"puppet": server.entry(isolation="session")})
    puppet, _ = server.next(SUBSCRIBE)
    assert puppet is not former
    assert told(client, puppet)


def test_a_subscription_is_there_again_when_its_server_is(house: House, revision: str) -> None:
    server = house.serve(offers=OFFERS)
    client = house.client(revision, bare=True)
    former = subscribed(server, client)
    (pid,) = house.pids()
    house.scratch.reconfigure()
    until(lambda: is_gone(pid), "its process has ended")
    house.scratch.reconfigure({"puppet": server.entry()})
    puppet, _ = server.next(SUBSCRIBE)
    assert puppet is not former
    assert told(client, puppet)


def test_a_subscription_to_what_stays_hears_nothing_of_a_reload(house: House) -> None:
    server = house.serve(offers=OFFERS)
    client = house.client(NEWEST_LEGACY, bare=True)
    puppet = subscribed(server, client)
    (pid,) = house.pids()
    house.scratch.reconfigure({"puppet": server.entry(instance_idle=7), "echo": echo("echo")})
    assert told(client, puppet)
    assert house.pids() == [pid]


@pytest.mark.parametrize("isolation", ["workspace", "session"])
def test_a_change_is_told_to_those_whose_process_says_so(house: House, isolation: str) -> None:
    server = house.serve(offers=OFFERS, isolation=isolation)
    ann, bob = (house.client(NEWEST_LEGACY, name, bare=True) for name in ("ann", "bob"))
    puppets = [subscribed(server, client) for client in (ann, bob)]
    assert puppets[0] is not puppets[1]
    assert told(ann, puppets[0])
    assert heard_nothing(bob)
    assert told(bob, puppets[1])
    assert heard_nothing(ann)


def test_a_server_that_is_shared_is_asked_once_and_until_the_last_one_has_left(house: House) -> None:
    server = house.serve(offers=OFFERS, isolation="shared")
    ann, bob = (house.client(NEWEST_LEGACY, name, bare=True) for name in ("ann", "bob"))
    puppet = subscribed(server, ann)
    bob.subscribe(URI)
    puppet.notify(UPDATED, uri=URI)
    assert [client.next_notice(UPDATED)["params"]["uri"] for client in (ann, bob)] == [URI, URI]
    ann.close()
    assert told(bob, puppet)
    assert not {SUBSCRIBE, "resources/unsubscribe"} & set(server.methods())
    bob.unsubscribe(URI, None)
    assert server.next("resources/unsubscribe")[1]["params"] == {"uri": URI}
