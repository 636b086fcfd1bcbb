"""docs/conformance.md: no failure that counts, no scenario that checks nothing and passes, every warning by name."""

import re
from collections import Counter

import pytest

from official.run import ALSO, NOTHING_TO_CHECK, PAGE, REVISIONS, Scenario, page, troubles, unproven

EXCUSED = Scenario("server-sse-polling", Counter({"INFO": 4}))
PROVEN = Scenario("ping", Counter({"SUCCESS": 2}))
WARNED = Scenario("caching", Counter({"WARNING": 1}), ("caching-hint",))
EMPTY = Scenario("tools-list", Counter({"INFO": 1}))
FAILED = Scenario("tools-list", Counter({"SUCCESS": 3, "FAILURE": 1}))
NOT_OFFERED = Scenario("tasks-lifecycle", Counter({"FAILURE": 1}))
WANTED = [Scenario(name, Counter({"SUCCESS": 1})) for name in ALSO]


def test_a_scenario_without_any_check_proves_nothing() -> None:
    assert unproven([EXCUSED, PROVEN, WARNED, EMPTY, Scenario("tasks-lifecycle", Counter())]) == [EXCUSED, EMPTY]
    assert EMPTY.name not in NOTHING_TO_CHECK


def test_the_page_says_in_words_which_ones_check_nothing_and_why() -> None:
    text = page({"2025-11-25": [EXCUSED, PROVEN]})
    assert "`server-sse-polling` checks nothing here: it wants a tool, `test_reconnection`," in text
    assert "`ping`" not in text


def test_the_page_names_what_warns_and_has_what_is_not_offered() -> None:
    text = page({"2025-11-25": [PROVEN], "2026-07-28": [PROVEN, WARNED, NOT_OFFERED]})
    assert text.count("Warnings: none.") == 1 and "Warnings: `caching-hint` of caching." in text
    assert "| tasks-lifecycle | 0 | 1 | 0 |" in text


def test_nothing_is_wrong_where_only_what_is_not_offered_fails() -> None:
    assert not any(troubles({"2025-11-25": [EXCUSED, PROVEN, WARNED], "2026-07-28": [*WANTED, NOT_OFFERED]}).values())


@pytest.mark.parametrize(
    ("results", "what", "name"),
    [
        ({"2025-11-25": [FAILED], "2026-07-28": WANTED}, "failed", "tools-list"),
        ({"2025-11-25": WANTED, "2026-07-28": [FAILED]}, "failed", "tools-list"),
        ({"2025-11-25": [PROVEN], "2026-07-28": WANTED[1:]}, "not run", ALSO[0]),
        ({"2025-11-25": [EMPTY], "2026-07-28": WANTED}, "without any check", "tools-list"),
    ],
)
def test_a_failure_that_counts_is_named(results: dict[str, list[Scenario]], what: str, name: str) -> None:
    assert {key: names for key, names in troubles(results).items() if names} == {what: [name]}


def test_the_page_as_it_is_kept_has_no_failure_that_counts() -> None:
    text = PAGE.read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == list(REVISIONS)
    results = {}
    for part in text.split("\n## ")[1:]:
        rows = re.findall(r"^\| ([\w-]+) \| (\d+) \| (\d+) \| (\d+) \|$", part, re.MULTILINE)
        assert len(rows) > 30
        results[part[:10]] = [
            Scenario(name, Counter({"SUCCESS": int(passed), "FAILURE": int(failed), "WARNING": int(warnings)}))
            for name, passed, failed, warnings in rows
        ]
    assert not any(troubles(results).values())
    assert any(each.name.startswith("tasks-") for each in results["2026-07-28"])
