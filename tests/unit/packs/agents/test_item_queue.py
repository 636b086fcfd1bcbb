"""Queue of timeline items: coalescing, bounds, and fairness among agents."""

from hearth.packs.agents.storage.item_queue import ItemQueue
from hearth.packs.agents.timeline_items import TimelineItem


def item(seq: int, text: str = "x") -> TimelineItem:
    return TimelineItem(seq, "message", float(seq), {"text": text})


def seqs(items: list[TimelineItem]) -> list[int]:
    return [each.seq for each in items]


def test_an_item_that_changes_again_is_queued_once_with_its_newest_data() -> None:
    queue = ItemQueue()
    queue.put("a", [item(1, "old"), item(2)])
    queue.put("a", [item(1, "new")])
    assert len(queue) == 2
    assert [each.data["text"] for each in queue.take("a")] == ["new", "x"]
    assert (len(queue), queue.take("a"), queue.agents()) == (0, [], [])


def test_agents_take_turns() -> None:
    queue = ItemQueue()
    queue.put("flood", map(item, range(10)))
    queue.put("quiet", [item(1)])
    assert seqs(queue.take("flood", 4)) == [0, 1, 2, 3]
    assert queue.agents() == ["quiet", "flood"]
    assert seqs(queue.take("flood", 4)) == [4, 5, 6, 7]
    assert len(queue) == 3


def test_items_that_could_not_be_written_do_not_replace_newer_ones() -> None:
    queue = ItemQueue()
    queue.put("a", [item(1, "old"), item(2, "old")])
    failed = queue.take("a")
    queue.put("a", [item(2, "new"), item(3, "new")])
    assert queue.put_back("a", failed) == 0
    assert [(each.seq, each.data["text"]) for each in queue.take("a")] == [(1, "old"), (2, "new"), (3, "new")]


def test_the_oldest_items_are_dropped_beyond_the_limit_and_one_says_how_many() -> None:
    queue = ItemQueue(limit=8)
    assert [queue.put("a", [item(seq)]) for seq in range(1, 10)] == [0] * 8 + [4]
    kept = queue.take("a")
    assert seqs(kept) == [4, 5, 6, 7, 8, 9]
    assert (kept[0].kind, kept[0].data["missing"]) == ("system", 4)
    assert kept[0].data["text"] == "4 entries are missing here: they came faster than the disk could take them"


def test_the_number_of_missing_items_is_summed_up() -> None:
    queue = ItemQueue(limit=8)
    dropped = sum(queue.put("a", [item(seq)]) for seq in range(1, 1001))
    first, *rest = queue.take("a")
    assert first.data["missing"] == dropped == 1000 - len(rest)
    assert seqs([first, *rest]) == list(range(first.seq, 1001))


def test_a_flood_costs_no_other_agent_an_item() -> None:
    queue = ItemQueue(limit=100)
    queue.put("quiet", map(item, range(10)))
    for seq in range(1000):
        queue.put("flood", [item(seq)])
    assert all(each.kind == "message" for each in queue.take("quiet"))
    assert len(queue) <= 90


def test_large_items_are_dropped_beyond_the_limit_of_bytes() -> None:
    queue = ItemQueue(limit_bytes=1_000_000)
    queue.put("quiet", map(item, range(200)))
    for seq in range(1000):
        queue.put("flood", [item(seq, "y" * 10_000)])
    assert len(queue.take("quiet")) == 200
    flood = queue.take("flood")
    assert 40 < len(flood) < 100
    assert flood[0].data["missing"] + len(flood) - 1 == 1000


def test_one_large_item_of_each_agent_always_has_room() -> None:
    queue = ItemQueue(limit=2, limit_bytes=1000)
    for agent in "abc":
        assert queue.put(agent, [item(1, "y" * 5000)]) == 0
    assert len(queue) == 3
