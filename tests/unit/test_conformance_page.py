"""docs/conformance.md: a scenario that checks nothing is no success."""

from collections import Counter

from official.run import NOTHING_TO_CHECK, Scenario, page, unproven

EXCUSED = Scenario("server-sse-polling", Counter({"INFO": 4}))
PROVEN = Scenario("ping", Counter({"SUCCESS": 2}))
WARNED = Scenario("caching", Counter({"WARNING": 1}))
EMPTY = Scenario("tools-list", Counter({"INFO": 1}))
NOT_OFFERED = Scenario("tasks-lifecycle", Counter())


def test_a_scenario_without_any_check_proves_nothing() -> None:
    assert unproven([EXCUSED, PROVEN, WARNED, EMPTY, NOT_OFFERED]) == [EXCUSED, EMPTY]
    assert EMPTY.name not in NOTHING_TO_CHECK


def test_the_page_says_in_words_which_ones_check_nothing_and_why() -> None:
    text = page({"2025-11-25": [EXCUSED, PROVEN]})
    assert "`server-sse-polling` checks nothing here: it wants a tool, `test_reconnection`," in text
    assert "`ping`" not in text
