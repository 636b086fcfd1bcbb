"""Changes of tools as a person sees them: every character, line by line."""

import json

import pytest

from hearth.cli.tools import pinned
from hearth.cli.tools.pinned import definition_lines, visible
from hearth.mcp.pinning import CHANGED, NEW, VANISHED, Change, canonical


def of(**members: str) -> str:
    return canonical({key: json.dumps(value).encode() for key, value in members.items()})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, äöü, 漢字, עברית, emoji 🙂", "plain text, äöü, 漢字, עברית, emoji 🙂"),
        ("a\u202eb\u2066c", "a<U+202E>b<U+2066>c"),
        ("zero\u200bwidth\ufeff\u2060", "zero<U+200B>width<U+FEFF><U+2060>"),
        ("tags\U000e0041\U000e0042", "tags<U+E0041><U+E0042>"),
        ("selected\ufe0f\U000e0100", "selected<U+FE0F><U+E0100>"),
        ("esc\x1b[31m bell\x07 del\x7f c1\x9b", "esc<U+001B>[31m bell<U+0007> del<U+007F> c1<U+009B>"),
        ("blank\u00a0\u3000\u2028\u2800\u3164", "blank<U+00A0><U+3000><U+2028><U+2800><U+3164>"),
        ("half\ud800 own\ue000 none\u0378", "half<U+D800> own<U+E000> none<U+0378>"),
        ("tab\tline\n", "tab<U+0009>line<U+000A>"),
    ],
)
def test_what_does_not_show_is_made_to_be_seen(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_definition_has_a_line_for_each_line_of_its_texts_and_begins_with_what_a_model_reads_first() -> None:
    assert definition_lines(of(inputSchema="x", description="one\ntwo \\n not a line", name="n")) == [
        "{",
        '  "name": "n",',
        r'  "description": "one\n',
        r'      two \\n not a line",',
        '  "inputSchema": "x"',
        "}",
    ]


def test_what_is_no_json_is_shown_as_it_is() -> None:
    assert definition_lines(canonical({"a": b"9" * 5000}))[0].startswith('b\'{"a":999')


def test_a_changed_tool_is_a_unified_diff_against_what_was_approved_last() -> None:
    known = (of(name="t", description="old"), of(name="t", description="a"))
    change = Change("t", CHANGED, known, (of(name="t", description="b\u200b"),))
    shown = pinned.change_lines("s", [change], is_pinned=True)
    assert shown[0] == "s: t is not as it was first seen or last approved; it is withheld"
    assert [line for line in shown if line.startswith(("+ ", "- "))] == [
        '-  "description": "a"',
        '+  "description": "b<U+200B>"',
    ]


def test_a_new_tool_is_shown_whole_and_one_that_is_gone_by_its_name() -> None:
    changes = [Change("n", NEW, (), (of(name="n"),)), Change("v", VANISHED, (of(name="v"),), ())]
    shown = pinned.change_lines("s", changes, is_pinned=False)
    assert shown[0] == "s: n is new"
    assert '+  "name": "n"' in shown
    assert "s: v is no longer offered" in shown
    assert pinned.change_summary(changes) == "2 tools: 1 new, 1 vanished"


def test_names_cannot_draw_on_the_terminal() -> None:
    shown = pinned.change_lines("s", [Change("t\x1b[2J", VANISHED, (), ())], is_pinned=False)
    assert shown[0] == "s: t<U+001B>[2J is no longer offered"


def test_for_machines_definitions_are_as_they_are() -> None:
    (found,) = pinned.change_documents("s", [Change("t", NEW, (), (of(name="t\u200b"),))], is_pinned=True)
    assert found == {
        "server": "s", "tool": "t", "change": "new", "withheld": True, "known": [], "offered": [{"name": "t\u200b"}],
    }  # fmt: skip
