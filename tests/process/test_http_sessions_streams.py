"""Streams that break: each event arrives once, wherever the connection was cut, and whichever daemon there is."""

import contextlib
import random
import threading

import pytest

from hearth.daemon.http.streams import STREAMS_LIMIT
from support.clients import text_of
from support.daemon import Scratch, server
from support.http.clients import Connection, Event, LegacyHttp, Message, ModernHttp, knowing_tools
from support.http.sessions import ENDS, End, go_out, kill, told
from support.kernel import until
from support.puppets.stage import Stage

STEPS = 40
# Larger than all buffers on the way, and than what is kept of what was read before.
LARGE = 3 * 1024 * 1024
LOST = -32603


class Dropping:
    """A client whose connections break after some bytes; it comes back for the rest until the answer is there."""

    def __init__(self, client: LegacyHttp, chance: random.Random) -> None:
        self._client = client
        self._chance = chance
        self.events: list[Event] = []
        self.connections = 1

    def read(self, sizes: tuple[int, ...] = (1, 10, 100, 400, 1500)) -> list[Message]:
        """Every message that came, the answer last. Something was read of the stream that broke first."""
        while "method" in (self.events[-1].message or {"method": ""}):
            self._client.close()
            got = self._client.request("GET", headers={"Last-Event-ID": self.events[-1].id or ""})
            assert got.is_stream, got.text()
            self.connections += 1
            self.events += got.events_within(self._chance.choice(sizes))
        return [event.message for event in self.events if event.message]


@pytest.fixture
def counting(shared: Scratch) -> LegacyHttp:
    """A session in front of a server that reports its progress."""
    if not shared.registry.exists():
        shared.serve({"count": server("counting", shared.home / "ledger")})
    return LegacyHttp(shared).opened()


@pytest.mark.parametrize("seed", range(12))
def test_a_client_that_drops_its_stream_anywhere_gets_every_event_once(counting: LegacyHttp, seed: int) -> None:
    chance = random.Random(seed)
    dropping = Dropping(counting, chance)
    # All at once, or little by little.
    delay = chance.choice([0, 100, 400])
    got = counting.call("count__read", meta={"progressToken": "p"}, key="k", delay=delay, steps=STEPS)
    # It has to know where it is: what comes first tells it.
    events = got.events()
    dropping.events += [next(events) for _ in range(chance.choice([1, 1, 2, 8]))]
    messages = dropping.read()
    assert [each["params"]["progress"] for each in messages[:-1]] == list(range(1, STEPS + 1))
    assert text_of(messages[-1]) == "read k"
    ids = [event.id for event in dropping.events]
    assert len(set(ids)) == len(ids)
    assert dropping.connections > 1


@pytest.mark.parametrize("seed", range(4))
def test_a_result_that_is_cut_in_its_middle_comes_whole(stage: Stage, seed: int) -> None:
    chance = random.Random(seed)
    actor = stage.serve()
    client = LegacyHttp(stage.scratch).opened()
    dropping = Dropping(client, chance)

    def begin() -> None:
        events = client.call("puppet__act", meta={"progressToken": "p"}).events()
        dropping.events += [next(events), next(events)]

    beginning = threading.Thread(target=begin)
    beginning.start()
    puppet, call = actor.next("tools/call")
    puppet.notify("notifications/progress", progressToken=call["params"]["_meta"]["progressToken"], progress=1)
    beginning.join()
    text = chance.randbytes(LARGE // 2).hex()
    puppet.say(call, text)
    # Nearly nothing of it is read, or a part, or all but the end, or all.
    messages = dropping.read((1, LARGE // 3, LARGE - chance.randrange(200), LARGE + 1000))
    assert [text_of(each) for each in messages[1:]] == [text]


def test_all_that_was_on_its_way_when_the_connection_broke_comes_again(counting: LegacyHttp, shared: Scratch) -> None:
    """However many pieces it went out in, into buffers that nobody has read."""
    first = next(counting.call("count__read", meta={"progressToken": "p"}, key="k", delay=400, steps=STEPS).events())
    # What is due later is answered later: by then everything has gone out.
    assert ModernHttp(shared).call("count__read", key="after", delay=800).status == 200
    counting.close()
    messages = counting.request("GET", headers={"Last-Event-ID": first.id or ""}).messages()
    assert [each["params"]["progress"] for each in messages[:-1]] == list(range(1, STEPS + 1))
    assert text_of(messages[-1]) == "read k"


def test_who_has_read_a_stream_to_its_end_is_not_sent_an_empty_one(counting: LegacyHttp) -> None:
    events = list(counting.call("count__read", meta={"progressToken": "p"}, key="k", delay=50, steps=2).events())
    # Clients take an end without an answer for another broken connection, and would come back for ever.
    assert counting.request("GET", headers={"Last-Event-ID": events[-1].id or ""}).status == 400
    again = counting.request("GET", headers={"Last-Event-ID": events[-2].id or ""})
    assert [event.id for event in again.events()] == [events[-1].id]


def test_who_comes_back_for_what_was_let_go_is_told_that_it_is_not_kept(counting: LegacyHttp) -> None:
    def middle() -> str:
        """The id of an event behind which there is one more."""
        got = counting.call("count__read", meta={"progressToken": "p"}, key="k", delay=2, steps=2)
        return [event.id or "" for event in got.events()][-2]

    first, *others = [middle() for _ in range(STREAMS_LIMIT + 1)]
    got = counting.request("GET", headers={"Last-Event-ID": first})
    assert (got.status, "is not kept" in got.json()["error"]["message"]) == (400, True)
    for each in (others[0], others[-1]):
        assert len(list(counting.request("GET", headers={"Last-Event-ID": each}).events())) == 1


# --- somebody else reads it, while the former connection is still open


def test_an_event_id_of_another_session_is_refused(counting: LegacyHttp, shared: Scratch) -> None:
    got = counting.call("count__once", meta={"progressToken": "p"}, key="mine", delay=1, steps=2)
    ids = [event.id or "" for event in got.events()]
    other = LegacyHttp(shared).opened()
    for id in ids:
        assert other.request("GET", headers={"Last-Event-ID": id}).status == 400


def test_who_takes_over_the_general_stream_is_told_and_the_former_reader_hears_its_end(scratch: Scratch) -> None:
    daemon = scratch.serve({"change": server("changing")}, idle_timeout=0.5)
    client, other = knowing_tools(scratch), knowing_tools(scratch)
    former = client.request("GET").events()
    assert next(former).message is None
    newer = client.request("GET").events()
    assert next(newer).message is None
    assert list(former) == []
    other.call("change__grow", name="leaf").messages()
    assert told(next(newer)) == "notifications/tools/list_changed"
    client.close()
    other.close()
    assert daemon.wait() == 0


def test_who_takes_over_the_stream_of_a_call_gets_its_answer(scratch: Scratch) -> None:
    daemon = scratch.serve({"count": server("counting", scratch.home / "ledger")}, idle_timeout=0.5)
    client = LegacyHttp(scratch).opened()
    former = client.call("count__read", meta={"progressToken": "p"}, key="k", delay=1000, steps=2).events()
    newer = client.request("GET", headers={"Last-Event-ID": next(former).id or ""})
    assert newer.is_stream
    messages = newer.messages()
    assert [each["params"]["progress"] for each in messages[:-1]] == [1, 2]
    assert text_of(messages[-1]) == "read k"
    assert not [event for event in former if event.message and "method" not in event.message]
    client.close()
    assert daemon.wait() == 0


# --- from daemon to daemon


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("former", [0, 1, 5])
def test_the_general_stream_of_a_former_daemon_goes_on_with_all_that_this_one_says(
    scratch: Scratch, end: End, former: int
) -> None:
    daemon = scratch.serve({"change": server("changing")})
    client, other = knowing_tools(scratch), knowing_tools(scratch)
    general = client.request("GET").events()
    # The first has no data.
    seen = [next(general)]
    for turn in range(former):
        other.call("change__grow", name=f"leaf{turn}").messages()
        seen.append(next(general))
    end(daemon)
    scratch.start()
    resumed = client.request("GET", headers={"Last-Event-ID": seen[-1].id or ""})
    assert resumed.is_stream
    events = resumed.events()
    fresh = [next(events) for _ in range(4)]
    assert len({told(event) for event in fresh if event.message}) == 3
    assert {event.id for event in fresh}.isdisjoint({event.id for event in seen})
    # In this daemon it is as ever: what is behind, and nothing else.
    client.close()
    again = client.request("GET", headers={"Last-Event-ID": fresh[2].id or ""}).events()
    assert next(again) == fresh[3]
    client.post("tools/list").json()
    other.call("change__grow", name="new").messages()
    assert told(next(again)) == "notifications/tools/list_changed"


@pytest.mark.parametrize("id", [7, "a-b", 'ü"'])
def test_an_answer_that_died_with_its_daemon_is_told_of_as_an_error(scratch: Scratch, id: object) -> None:
    ledger = scratch.home / "ledger"
    daemon = scratch.serve({"count": server("counting", ledger)}, drain_timeout=0.1)
    client = LegacyHttp(scratch).opened()
    events = client.call("count__once", id=id, meta={"progressToken": "p"}, key="k", delay=60_000, steps=600).events()
    seen = [next(events), next(events)]
    kill(daemon)
    client.close()
    scratch.start()
    # In this daemon a stream of the same number is another's.
    rival = client.call("count__read", id="rival", meta={"progressToken": "r"}, key="r", delay=60_000, steps=600)
    assert next(rival.events()).message is None
    for last in seen:
        resumed = client.request("GET", headers={"Last-Event-ID": last.id or ""})
        messages = [event for event in resumed.events() if event.message]
        [answer] = [event.message for event in messages if event.message]
        assert (answer["id"], answer["error"]["code"]) == (id, LOST)
        assert "may or may not have run" in answer["error"]["message"]
        assert client.request("GET", headers={"Last-Event-ID": messages[0].id or ""}).status == 400
    assert ledger.read_text().count("once k") == 1


def test_a_stream_of_many_answers_that_died_with_its_daemon_cannot_be_resumed(scratch: Scratch) -> None:
    daemon = scratch.serve({"count": server("counting", scratch.home / "ledger")})
    client = LegacyHttp(scratch).opened("2025-03-26")
    params = {"name": "count__read", "arguments": {"delay": 60_000, "steps": 600}, "_meta": {"progressToken": "p"}}
    calls = [{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params} for id in (1, 2)]
    last = next(client.request("POST", calls).events()).id
    kill(daemon)
    client.close()
    scratch.start()
    assert client.request("GET", headers={"Last-Event-ID": last or ""}).status == 400
    assert client.post("ping").status == 200


def test_a_daemon_that_goes_out_lets_calls_finish_and_says_when_to_come_back(scratch: Scratch) -> None:
    daemon = scratch.serve({"count": server("counting", scratch.home / "ledger")})
    client = LegacyHttp(scratch).opened()
    events = client.call("count__read", meta={"progressToken": "p"}, key="k", delay=1000, steps=3).events()
    next(events)
    late = Connection(scratch.socket)
    late.connect()
    ending = threading.Thread(target=lambda: go_out(daemon))
    ending.start()
    until(lambda: "shutting down" in scratch.logged(), "the daemon is on its way out")
    with contextlib.closing(late):
        late.request("POST", "/mcp", b"{}", {"Accept": "*/*", "Content-Type": "application/json"})
        refused = late.getresponse()
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        refused.read()
    messages = [event.message for event in events if event.message]
    assert text_of(messages[-1]) == "read k"
    ending.join()
