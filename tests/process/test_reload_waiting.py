"""What waits while the config changes: questions to clients, and those who wait to hear of resources."""

from support.conformance.clients import UPDATED, Client, Message
from support.daemon import Scratch, server
from support.kernel import is_gone, until
from support.puppets.server import Puppet
from support.puppets.sharing import NEWEST_LEGACY, House
from support.puppets.stage import FAILED, FORM_ANSWER, QUESTIONS, Actor, Errand, Stage

SUBSCRIBE = "resources/subscribe"
URI = "test://one"
OFFERS = {"resources": [{"uri": URI, "name": "one"}]}


def reload(scratch: Scratch) -> None:
    assert scratch.control().control("reload")[0]["ok"] is True


def told(client: Client, puppet: Puppet) -> bool:
    puppet.notify(UPDATED, uri=URI)
    return bool(client.next_notice(UPDATED)["params"]["uri"] == URI)


def test_a_subscription_is_there_again_when_its_server_is(house: House, revision: str) -> None:
    puppets = house.server(offers=OFFERS)
    house.start()
    client = house.client(revision, bare=True)
    client.subscribe(URI)
    former, _ = puppets.next(SUBSCRIBE)
    (pid,) = house.pids()
    house.scratch.configure()
    reload(house.scratch)
    until(lambda: is_gone(pid), "its process has ended")
    house.scratch.configure({"puppet": puppets.entry()})
    reload(house.scratch)
    puppet, _ = puppets.next(SUBSCRIBE)
    assert puppet is not former
    assert told(client, puppet)


def test_a_subscription_to_what_stays_hears_nothing_of_a_reload(house: House) -> None:
    puppets = house.server(offers=OFFERS)
    house.start()
    client = house.client(NEWEST_LEGACY, bare=True)
    client.subscribe(URI)
    puppet, _ = puppets.next(SUBSCRIBE)
    (pid,) = house.pids()
    house.scratch.configure({"puppet": puppets.entry(instance_idle=7), "echo": server("echo")})
    reload(house.scratch)
    assert told(client, puppet)
    assert house.pids() == [pid]


def parked(stage: Stage) -> tuple[Actor, Errand, tuple[Puppet, Message]]:
    """A call that waits for its client's answer."""
    actor = stage.actor()
    stage.start()
    errand = Errand(stage.modern())
    puppet, call = actor.next(errand.method)
    puppet.ask("q-1", "elicitation/create", **QUESTIONS["elicitation/create"])
    assert errand.wishes()
    return actor, errand, (puppet, call)


def test_a_call_that_is_parked_at_a_removed_server_goes_on_with_its_client_s_answer(stage: Stage) -> None:
    actor, errand, (puppet, call) = parked(stage)
    stage.scratch.configure()
    reload(stage.scratch)
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    puppet.say(call, "thanks")
    assert errand.outcome().text == "thanks"


def test_a_call_that_is_parked_for_longer_than_its_removed_server_is_kept_gets_an_error(stage: Stage) -> None:
    _, errand, _ = parked(stage)
    (pid,) = stage.scratch.upstream("puppet")["pids"]
    stage.scratch.configure(drain_timeout=0.1)
    reload(stage.scratch)
    until(lambda: is_gone(pid), "its process has ended")
    errand.go_on()
    error = errand.outcome().error
    assert error is not None
    assert error["code"] == FAILED
    assert "server 'puppet' is ended, for another config" in error["message"]
