"""Templates of commands and arguments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.policy.captures import NoMatch, Surroundings
from hearth.policy.matchers import BadTemplate, head_of, parse_arguments, parse_command
from hearth.policy.model import Permission
from hearth.policy.patterns import EVERYTHING

NOWHERE = Surroundings(None)


def captured(template: str, command: str) -> dict[str, list[str]] | None:
    try:
        return parse_command(template).match(command.split(), NOWHERE)
    except NoMatch:
        return None


@pytest.mark.parametrize(
    ("template", "command", "found"),
    [
        ("make test", "make test", {}),
        ("make {target:word}", "make all", {"target": ["all"]}),
        ("make {word}", "make all", {"word": ["all"]}),
        ("x [-q] {a:word}", "x -q y", {"a": ["y"]}),
        ("x [-q] {a:word}", "x y", {"a": ["y"]}),
        ("x {a:word...}", "x y z", {"a": ["y", "z"]}),
        ("x {a:word...} {b:word}", "x y z w", {"a": ["y", "z"], "b": ["w"]}),
        ("x [{a:word...}]", "x", {}),
        ("x --n={a:word}", "x --n=5", {"a": ["5"]}),
        ("x [-m {a:text}] [-m {b:text}]", "x -m y -m z", {"a": ["y"], "b": ["z"]}),
        ("go test ./...", "go test ./...", {}),
    ],
)
def test_a_command_of_the_form_matches(template: str, command: str, found: dict[str, list[str]]) -> None:
    assert captured(template, command) == found


@pytest.mark.parametrize(
    ("template", "command"),
    [
        ("make test", "make"),
        ("make test", "make test x"),
        ("make test", "make tests"),
        ("make {a:word}", "make -x"),
        ("make {a:word...}", "make a -x"),
        ("make {a:text}", "make --x"),
        ("x [-q] y", "x -q -q y"),
        ("x --n={a:word}", "x --n="),
        ("x --n={a:word}", "x --n=-5"),
        ("x a{b:word}a", "x a"),
        ("x {a:word}", "/bin/x y"),
    ],
)
def test_another_command_does_not_match(template: str, command: str) -> None:
    assert captured(template, command) is None


@pytest.mark.parametrize(
    ("command", "certain"),
    [
        ("ls", True),
        ("git", True),
        ("git status", True),
        ("git push", False),
        ("git push -f origin main", False),
        ("git -C x push origin main", False),
        ("git push origin HEAD:main", False),
        ("git push origin main x", False),
        ("/usr/bin/git push origin main", False),
        ("GIT push origin main", False),
        ("git.exe push origin main", False),
        ("sudo git push origin main", False),
        ("bash -c x", False),
    ],
)
def test_a_refusal_says_whether_the_command_certainly_differs(command: str, certain: bool) -> None:
    template = parse_command("git push {remote:word} {branch:branch}")
    with pytest.raises(NoMatch) as refusal:
        template.match(command.split(), NOWHERE)
    assert refusal.value.certain is certain


@pytest.mark.timeout(20)
def test_many_optional_parts_and_words_are_matched_within_a_bound() -> None:
    template = " ".join(["x", *(f"[{{{name}:word...}}]" for name in "abcdefghijkl"), "end"])
    assert captured(template, "x " + "y " * 100) is None


@pytest.mark.parametrize(
    ("template", "phrase"),
    [
        ("", "empty"),
        ("{a:word} x", "name of a program"),
        ("[x] y", "name of a program"),
        ("x [y", "without its `]`"),
        ("x y]", "without its `\\["),
        ("x []", "empty"),
        ("x [[y]]", "inside another"),
        ("x {a:wrod}", "did you mean 'word'"),
        ("x {a:zzzz}", "known: branch"),
        ("x {a", "no capture"),
        ("x {a:word}{b:word}", "two captures in one word"),
        ("x {a:word} {a:word}", "two captures with the name"),
        ("x " * 100, "words"),
    ],
)
def test_a_template_that_cannot_be_read_is_refused(template: str, phrase: str) -> None:
    with pytest.raises(BadTemplate, match=phrase):
        parse_command(template)


def test_arguments_are_matched_by_key() -> None:
    template = parse_arguments({"kind": "bug", "title": "{title:text}", "count?": "{count:word}"})
    assert template.match({"kind": "bug", "title": "a\nb"}, NOWHERE) == {"title": ["a\nb"]}
    assert template.match({"kind": "bug", "title": "-", "count": 5}, NOWHERE)["count"] == ["5"]
    for values in (
        {"kind": "bug"},
        {"kind": "other", "title": "x"},
        {"kind": "bug", "title": "x", "more": 1},
        {"kind": "bug", "title": None},
        {"kind": "bug", "title": ["x"]},
        {"kind": "bug", "title": "a\u202e"},
        {"kind": True, "title": "x"},
    ):
        with pytest.raises(NoMatch):
            template.match(values, NOWHERE)


def test_further_arguments_are_taken_where_the_template_says_so() -> None:
    template = parse_arguments({"id": "{id:word}", "*": "*"})
    assert template.match({"id": "x", "more": {"a": [1]}}, NOWHERE) == {"id": ["x"]}


def test_a_repeated_capture_takes_a_list() -> None:
    template = parse_arguments({"ids": "{ids:word...}"})
    assert template.match({"ids": ["a", "b"]}, NOWHERE) == {"ids": ["a", "b"]}
    with pytest.raises(NoMatch):
        template.match({"ids": ["a", "-b"]}, NOWHERE)


@pytest.mark.parametrize(
    "table", [{"*": "x"}, {"a": 1}, {"a": ""}, {"a": "{x:nope}"}, {"a": "{x:word}", "b": "{x:word}"}]
)
def test_arguments_that_cannot_be_read_are_refused(table: dict[str, object]) -> None:
    with pytest.raises(BadTemplate):
        parse_arguments(table)


_FIRST = st.sampled_from(["git", "Git", "./git", "make", "sudo", "sudo.exe", "x"])
_SECOND = st.sampled_from(["push", "Push", "add", "-C", "$x"])


@given(
    st.lists(st.tuples(_FIRST, _SECOND | st.just("[-q]")), min_size=1, max_size=4),
    _FIRST,
    st.lists(_SECOND, max_size=2),
)
def test_a_permission_is_passed_over_only_if_no_template_could_match(
    templates: list[tuple[str, str]], first: str, rest: list[str]
) -> None:
    commands = tuple(parse_command(" ".join(words)) for words in templates)
    permission = Permission(name="x", tools=EVERYTHING, reach=EVERYTHING, commands=commands)
    words = (first, *rest)
    head = head_of(words)
    is_passed_over = permission.is_about_others(head)
    for template in commands:
        if is_passed_over or template.is_other(head):
            with pytest.raises(NoMatch) as refusal:
                template.match(words, NOWHERE)
            assert refusal.value.certain
            assert not refusal.value.fits
