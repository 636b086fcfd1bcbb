"""The splitter is certain, or it refuses. Where it is certain, bash and dash split alike."""

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.policy.shell import COMMAND_CHARACTERS_LIMIT, WORDS_LIMIT, Unsplittable, may_run, split

from .real_shells import BASH, FRAGMENTS, KEPT, RUN_SECONDS, TEXTS_OF_ONE_RUN, batches, recorded

texts = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=14).map("".join)
# Mostly well-formed: words and quoted texts between operators, so that many examples are certain.
plain = st.text("xyzgit0_@%+=:,./-", min_size=1, max_size=5)
single = st.text('xy "\\$`;|&<>*?~#!(){}é\t', max_size=6).map(lambda text: f"'{text}'")
double = st.text("xy ';|&<>*?~#(){}é\t", max_size=6).map(lambda text: f'"{text}"')
escaped = st.sampled_from(['"\\""', '"\\\\"', '"\\$x"', '"\\`x"'])
word = st.lists(st.one_of(plain, single, double, escaped), min_size=1, max_size=3).map("".join)
command = st.lists(word, min_size=1, max_size=4).map(" ".join)
operator = st.sampled_from([";", " ; ", "&&", " && ", "||", " || ", "|", " | "])
lines = st.lists(st.tuples(command, operator), min_size=1, max_size=4).map(
    lambda pairs: "".join(part for pair in pairs for part in pair)[: -len(pairs[-1][1])]
)


def certain(text: str) -> list[tuple[str, ...]] | None:
    """Return the words of each command, or None if the splitter refuses."""
    try:
        return [command.words for command in split(text)]
    except Unsplittable:
        return None


def compare(sources: list[str]) -> None:
    """Fail for a text that bash splits otherwise than the splitter."""
    expected = {}
    for text in sources:
        commands = certain(text)
        # A name with a slash is looked for in the file system, and the function is not called.
        if commands and not any("/" in words[0] or words[0] in KEPT for words in commands):
            expected[text] = set(commands)
    found = recorded(list(expected))
    for (text, commands), ran in zip(expected.items(), found, strict=True):
        assert ran == commands, text


@pytest.mark.skipif(not os.path.exists(BASH), reason="there is no bash")
@batches
@given(st.lists(texts, min_size=TEXTS_OF_ONE_RUN, max_size=TEXTS_OF_ONE_RUN))
def test_bash_splits_arbitrary_text_as_the_splitter_does(sources: list[str]) -> None:
    compare(sources)


@pytest.mark.skipif(not os.path.exists(BASH), reason="there is no bash")
@batches
@given(st.lists(lines, min_size=TEXTS_OF_ONE_RUN, max_size=TEXTS_OF_ONE_RUN))
def test_bash_splits_lists_of_commands_as_the_splitter_does(sources: list[str]) -> None:
    compare(sources)


@pytest.mark.skipif(not os.path.exists("/bin/dash"), reason="there is no dash")
@batches
@given(st.lists(command, min_size=TEXTS_OF_ONE_RUN, max_size=TEXTS_OF_ONE_RUN))
def test_dash_makes_the_same_words(sources: list[str]) -> None:
    expected = {text: words for text in sources if (words := certain(text)) and len(words) == 1}
    script = "\n".join(f'set -- {text}; printf \'%s\\0\' "$#" "$@"' for text in expected)
    output = subprocess.run(
        ["/bin/dash", "-c", script], capture_output=True, timeout=RUN_SECONDS, env={"LC_ALL": "C.UTF-8"}, check=True
    ).stdout
    fields = output.split(b"\0")
    for (words,) in expected.values():
        count = int(fields.pop(0))
        assert tuple(os.fsdecode(field) for field in fields[:count]) == words
        del fields[:count]


@given(st.text(max_size=200))
def test_any_text_is_split_or_refused(text: str) -> None:
    commands = certain(text)
    assert commands is None or all(words and words[0] for words in commands)


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("git push", [("git", "push")]),
        ("  git   push\t", [("git", "push")]),
        ("a;b&&c||d|e", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("a;", [("a",)]),
        ("a 'b c' \"d e\"f", [("a", "b c", "d ef")]),
        ("a '' \"\"", [("a", "", "")]),
        ('a "\\"\\\\\\$"', [("a", '"\\$')]),
        ("a b=c -d=e", [("a", "b=c", "-d=e")]),
        ("a 'größe'", [("a", "größe")]),
        ("a ';' '&&' '$x'", [("a", ";", "&&", "$x")]),
    ],
)
def test_plain_commands_are_split(text: str, commands: list[tuple[str, ...]]) -> None:
    assert certain(text) == commands


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("a $x", "expansion"),
        ("a `x`", "substitution"),
        ("a > b", "redirection"),
        ("a *", "glob"),
        ("a ~", "tilde"),
        ("a & b", "background"),
        ("a\nb", "line end"),
        ("a 'b", "quote that is not closed"),
        ("A=1 b", "assignment"),
        ("if a", "reserved word"),
        ("", "no command"),
        ("a &&", "no command behind"),
        ("; a", "no command before"),
        ("a \u00a0 b", "U+00A0"),
        ("a \u200b", "not seen"),
        ("a ё", "not ASCII"),
        ("a 'b\u202ec'", "not seen"),
        ("a \x01", "control character"),
        ("'a''b'", "side by side"),
        ("=a", "some shells expand"),
        ("a %x", "some shells expand"),
        ("a 'b\\c'", "backslash inside quotes"),
        ("'' a", "empty word"),
        ("'%1' a", "job"),
        ("a " * (WORDS_LIMIT + 1), "words"),
        ("a" * (COMMAND_CHARACTERS_LIMIT + 1), "characters"),
    ],
)
def test_a_refusal_says_what_was_found(text: str, phrase: str) -> None:
    with pytest.raises(Unsplittable, match=phrase.replace("+", r"\+")):
        split(text)


@pytest.mark.parametrize(
    "text", ["git $x", "g''it x >y", "$x y", "`x`", "/usr/bin/g?t x > y", "eval x", "x | xargs y", "gіt >x"]
)
def test_a_command_that_cannot_be_split_may_run_a_program(text: str) -> None:
    assert may_run(text, "git")


@pytest.mark.parametrize("text", ["ls *.py", "pytest > out", "echo ~", "cat <x &"])
def test_a_command_without_the_name_of_a_program_does_not_run_it(text: str) -> None:
    assert not may_run(text, "git")


@pytest.mark.parametrize("text", ["a 'b c'", "a b%B%", "a b,c", "a; b", "a b@c"])
def test_a_command_that_the_shells_of_windows_read_differently_is_refused_there(text: str) -> None:
    with pytest.raises(Unsplittable, match="shells of Windows"):
        split(text, for_windows=True)
    assert split(text, for_windows=False)


def test_plain_commands_are_split_for_windows_too() -> None:
    assert [found.words for found in split('a "b c" && d/e | f', for_windows=True)] == [("a", "b c"), ("d/e",), ("f",)]
