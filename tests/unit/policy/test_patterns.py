"""Globs over pairs of server and name, and over captured values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.policy.patterns import (
    EVERYTHING,
    GLOB_CHARACTERS_LIMIT,
    INNER_WILDCARDS_LIMIT,
    NOTHING,
    PatternIndex,
    PatternSet,
    ValueGlob,
    fault,
)


@pytest.mark.parametrize(
    ("pattern", "server", "name", "matches"),
    [
        ("github__*", "github", "create_issue", True),
        ("github__*", "github", "a/b", False),
        ("github__*", "github", "a__b", False),
        ("github__**", "github", "a__b/c", True),
        ("github__*", "github_two", "x", False),
        ("github*__*", "github_two", "x", True),
        ("*", "github", "x", False),
        ("*__*", "github", "x", True),
        ("**", "github", "x", True),
        ("github__get_?", "github", "get_x", True),
        ("github__get_?", "github", "get_xy", False),
        ("github", "github", "x", False),
        ("github__x", "github", "X", False),
        # The pair counts, not the joined text.
        ("a__b__c", "a", "b__c", True),
        ("a__b__c", "a__b", "c", True),
        ("a___b", "a", "_b", True),
        ("a___b", "a_", "b", True),
        ("a__*", "a__b", "c", False),
        ("a.b__c", "axb", "c", False),
        ("fs__file:///**", "fs", "file:///etc/x", True),
        ("fs__file:///*", "fs", "file:///etc/x", False),
    ],
)
def test_a_pattern_is_matched_against_the_pair(pattern: str, server: str, name: str, matches: bool) -> None:
    assert PatternSet([pattern]).matches(server, name) is matches


@pytest.mark.parametrize(
    ("pattern", "tool", "matches"),
    [("Bash", "Bash", True), ("*", "Bash", True), ("**", "Bash", True), ("Ba*", "Bash", True), ("x__*", "Bash", False)],
)
def test_a_clients_own_tool_has_no_server(pattern: str, tool: str, matches: bool) -> None:
    assert PatternSet([pattern]).matches(None, tool) is matches


def test_an_exclusion_wins_wherever_it_stands() -> None:
    for texts in (["**", "!github__delete_*"], ["!github__delete_*", "**"]):
        assert not PatternSet(texts).matches("github", "delete_file")
        assert PatternSet(texts).matches("github", "create_file")


def test_an_exclusion_reaches_further_than_an_inclusion() -> None:
    assert not PatternSet(["**", "!github__delete_*"]).matches("github", "delete_a__b")
    assert not PatternSet(["github__delete_*"]).matches("github", "delete_a__b")


def test_a_pattern_that_takes_away_reaches_further_than_one_that_gives() -> None:
    assert PatternSet(["github__delete_*"], generous=True).matches("github", "delete_a__b")


def test_an_exclusion_from_a_pattern_that_takes_away_is_read_strictly() -> None:
    denied = PatternSet(["github__**", "!github__get_*"], generous=True)
    assert not denied.matches("github", "get_file")
    assert denied.matches("github", "get_a__b")


def test_sets_are_equal_if_they_match_alike() -> None:
    assert PatternSet(["a__*"]) == PatternSet(["a__*"])
    assert PatternSet(["a__*"]) != PatternSet(["a__*"], generous=True)
    assert PatternSet(["a__*"]) != PatternSet(["a__*"]).narrowed(EVERYTHING)
    assert PatternSet(["a__*"]) != "a__*"


def test_a_narrowed_set_has_the_names_of_both() -> None:
    both = PatternSet(["github__*"]).narrowed(PatternSet(["*__get_*"])).narrowed(PatternSet(["**", "!*__get_x"]))
    assert both.matches("github", "get_y")
    assert not both.matches("github", "get_x")
    assert not both.matches("github", "put_y")
    assert not both.matches("gitlab", "get_y")


@pytest.mark.parametrize(("server", "name"), [("a\0", "b"), ("a", "b\0c"), ("a", "x" * GLOB_CHARACTERS_LIMIT)])
def test_a_name_that_cannot_be_compared_matches_nothing(server: str, name: str) -> None:
    assert not EVERYTHING.matches(server, name)


@given(st.text(max_size=40), st.text(max_size=40))
def test_everything_and_nothing_are_what_they_say(server: str, name: str) -> None:
    assert EVERYTHING.matches(server, name) is ("\0" not in server + name)
    assert not NOTHING.matches(server, name)


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("feature/*", "feature/x", True),
        ("feature/*", "feature/x/y", False),
        ("feature/**", "feature/x/y", True),
        ("feature/**", "feature", False),
        ("feature/*", "feature/", True),
        ("**", "anything/at/all", True),
        ("v?", "v1", True),
        ("a.c", "abc", False),
        ("Feature/*", "feature/x", False),
    ],
)
def test_a_glob_over_values(pattern: str, value: str, matches: bool) -> None:
    assert ValueGlob(pattern).matches(value) is matches


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("./**", "src/a.py", True),
        ("./**", ".", True),
        ("src/**", "src/deep/a.py", True),
        ("./src/**", "src", True),
        ("src/**", "src2/a.py", False),
        ("*.md", "README.md", True),
        ("*.md", "docs/README.md", False),
    ],
)
def test_a_glob_over_paths(pattern: str, value: str, matches: bool) -> None:
    assert ValueGlob(pattern, is_path=True).matches(value) is matches


@pytest.mark.parametrize("value", ["secrets/x", "Secrets/x", "SECRETS/X", "\uff53ecrets/x"])
def test_a_glob_that_takes_away_ignores_case_and_width(value: str) -> None:
    assert ValueGlob("secrets/**", generous=True, is_path=True).matches(value)


@pytest.mark.parametrize(
    ("pattern", "phrase"),
    [
        ("", "empty"),
        ("!", "empty"),
        ("a***", "three"),
        ("a\u200b", "cannot be seen"),
        ("x" * 2000, "characters"),
        ("*a" * (INNER_WILDCARDS_LIMIT + 1), "wildcards"),
    ],
)
def test_an_unusable_pattern_has_a_fault(pattern: str, phrase: str) -> None:
    assert phrase in (fault(pattern) or "")


@pytest.mark.timeout(20)
def test_the_worst_pattern_and_name_are_compared_within_a_bound() -> None:
    pattern = "a*" * INNER_WILDCARDS_LIMIT + "b"
    assert fault(pattern) is None
    assert not PatternSet([pattern]).matches("a", "a" * (GLOB_CHARACTERS_LIMIT - 2))
    assert not ValueGlob(pattern.replace("*", "**")).matches("a" * GLOB_CHARACTERS_LIMIT)


_TEXT = st.text(min_size=1, max_size=6, alphabet="ab_*?")


@given(st.lists(st.lists(_TEXT, max_size=3), max_size=6), st.none() | st.text(max_size=4, alphabet="ab_"), _TEXT)
def test_an_index_finds_every_set_that_matches(lists: list[list[str]], server: str | None, name: str) -> None:
    sets = [PatternSet([text for text in texts if fault(text) is None], generous=True) for texts in lists]
    found = PatternIndex(sets).candidates(server, name)
    assert found == sorted(found)
    assert {number for number, each in enumerate(sets) if each.matches(server, name)} <= set(found)


def test_an_index_leaves_out_sets_of_other_servers() -> None:
    sets = [PatternSet([f"server{number}__tool_*"]) for number in range(100)]
    assert PatternIndex([*sets, EVERYTHING, NOTHING]).candidates("server7", "tool_x") == [7, 100]
