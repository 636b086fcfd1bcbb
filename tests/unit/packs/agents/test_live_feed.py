"""Live changes of one agent for a slow reader: progress may be lost, the final state never."""

from hearth.packs.agents.live_feed import LiveFeed


def test_a_slow_reader_loses_the_oldest_progress_and_is_told_how_much() -> None:
    feed = LiveFeed(lambda feed: None, limit=3)
    for number in range(5):
        feed.put({"type": "chunk", "text": str(number)})
    feed.put_state({"type": "status", "status": "running"})
    feed.put_state({"type": "status", "status": "idle"})
    found = feed.take()
    assert found[0] == {"type": "dropped", "count": 2}
    assert [each.get("text") for each in found[1:-1]] == ["2", "3", "4"]
    assert found[-1]["status"] == "idle"
    assert feed.take() == []


def test_a_reader_that_stands_still_holds_no_more_than_its_bytes() -> None:
    feed = LiveFeed(lambda feed: None, limit_bytes=100_000)
    for number in range(50):
        feed.put({"type": "item", "item": {"seq": 1, "kind": "message", "data": {"text": f"{number}" + 30_000 * "x"}}})
    found = feed.take()
    assert found[0] == {"type": "dropped", "count": 47}
    assert [each["item"]["data"]["text"][:2] for each in found[1:]] == ["47", "48", "49"]
    feed.put({"type": "chunk", "text": 200_000 * "x"})
    assert len(feed.take()) == 1


async def test_a_closed_feed_is_read_to_its_end() -> None:
    discarded: list[LiveFeed] = []
    with LiveFeed(discarded.append) as feed:
        feed.put_state({"type": "status", "status": "closed"})
    assert [each["status"] for each in await feed.wait()] == ["closed"]
    assert await feed.wait() == []
    assert discarded == [feed]


async def test_a_wait_without_a_change_ends_with_nothing() -> None:
    assert await LiveFeed(lambda feed: None).wait(0.01) == []


async def test_a_feed_that_the_daemon_has_closed_is_closed_again_by_its_reader() -> None:
    feeds: list[LiveFeed] = []
    feeds.append(LiveFeed(feeds.remove))
    with feeds[0] as feed:
        feed.close()
    assert feeds == []
