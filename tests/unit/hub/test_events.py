"""The bus of events: bounded queues, the ring, and no call events while nobody follows."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.hub import events
from hearth.hub.events import EVENT_TYPES, KEPT_EVENTS, Dropped, EventBus, HubEvent, ServerRestarted

DOCS = Path(__file__).parents[3] / "docs" / "http.md"


@pytest.fixture
def bus() -> Iterator[EventBus]:
    found = EventBus()
    yield found
    found.close()


def restarted(number: int) -> ServerRestarted:
    return ServerRestarted(server=f"s{number}")


def names(found: list[HubEvent]) -> list[str]:
    return [each.server for each in found if isinstance(each, ServerRestarted)]


def test_the_ring_keeps_the_newest_events(bus: EventBus) -> None:
    for number in range(KEPT_EVENTS + 3):
        bus.emit(restarted(number))
    assert len(bus.kept()) == KEPT_EVENTS
    assert names(bus.kept(2)) == [f"s{KEPT_EVENTS + 1}", f"s{KEPT_EVENTS + 2}"]
    assert bus.kept(0) == []


async def test_a_subscriber_gets_each_event_once_and_in_order(bus: EventBus) -> None:
    bus.emit(restarted(0))
    with bus.subscribe() as one, bus.subscribe() as other:
        bus.emit(restarted(1))
        bus.emit(restarted(2))
        assert names(await one.wait()) == ["s1", "s2"]
        bus.emit(restarted(3))
        assert (names(await one.wait()), names(await other.wait())) == (["s3"], ["s1", "s2", "s3"])
        assert await one.wait(0.001) == []


async def test_a_slow_subscriber_loses_its_oldest_events_and_is_told_how_many(bus: EventBus) -> None:
    with bus.subscribe(limit=2) as slow, bus.subscribe() as quick:
        for number in range(5):
            bus.emit(restarted(number))
        found = slow.take()
        assert isinstance(found[0], Dropped) and found[0].count == 3
        assert names(found) == ["s3", "s4"]
        bus.emit(restarted(5))
        assert names(slow.take()) == ["s5"]
        assert len(quick.take()) == 6


async def test_calls_are_followed_only_while_somebody_subscribes(bus: EventBus) -> None:
    assert not bus.is_followed
    one, other = bus.subscribe(), bus.subscribe()
    one.close()
    assert bus.is_followed
    other.close()
    other.close()
    assert not bus.is_followed


async def test_the_end_of_the_bus_wakes_its_subscribers_who_read_to_the_end(bus: EventBus) -> None:
    subscription = bus.subscribe()
    bus.emit(restarted(0))
    bus.close()
    bus.emit(restarted(1))
    assert subscription.is_closed
    assert names(await subscription.wait()) == ["s0"]
    assert await subscription.wait() == []


def test_an_event_is_an_object_with_its_type_and_time() -> None:
    found = json.loads(events.encode(restarted(1)))
    assert found.pop("at") > 0
    assert found == {"type": "server.restarted", "server": "s1"}


def test_every_event_is_in_the_documentation() -> None:
    section = DOCS.read_text(encoding="utf-8").partition("### Events")[2].partition("\n## ")[0]
    types = [str(each.__struct_config__.tag) for each in EVENT_TYPES]
    assert [each for each in types if f"`{each}`" not in section] == []
    assert len(EVENT_TYPES) == len(HubEvent.__subclasses__())
