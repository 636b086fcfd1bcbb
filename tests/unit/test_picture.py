"""README's picture of a terminal: how it is drawn, and that it is drawn."""

import importlib.util
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).parents[2]

_spec = importlib.util.spec_from_file_location("picture", ROOT / "packaging" / "picture.py")
assert _spec and _spec.loader
picture = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(picture)

SHOTS = [picture.Shot("hearth status", ["one <daemon> & two", "", "  indented │ ─"]), picture.Shot("ls", ["x"])]


def test_what_was_drawn_can_be_read_again() -> None:
    lines = ["$ hearth status", "one <daemon> & two", "", "  indented │ ─", "$ ls", "x"]
    assert picture.text_of(picture.draw(SHOTS, 80)) == lines


def test_the_picture_is_xml_with_a_line_below_the_other() -> None:
    root = ElementTree.fromstring(picture.draw(SHOTS, 80))
    rows = [int(text.attrib["y"]) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert rows == sorted(set(rows))
    assert rows[-1] < int(root.attrib["height"])


def test_of_a_spinner_nothing_stays_and_colours_are_left_out() -> None:
    assert picture.shown("\r\x1b[K⠋ trying\r\x1b[K⠙ trying\r\x1b[K\x1b[31mdone\x1b[0m\r\nnext\r\n") == ["done", "next"]


def test_numbers_and_the_room_they_take_make_no_difference() -> None:
    assert picture.likeness(["pid  123   4.5 s"]) == picture.likeness(["pid 7 61.25 s"])
    assert picture.likeness(["ready"]) != picture.likeness(["failed"])


def test_a_line_that_does_not_fit_goes_on_in_the_next_row() -> None:
    drawn = picture.draw([picture.Shot("ls", ["abcdefgh", "ij"])], 3)
    assert picture.text_of(drawn) == ["$ ls", "abcdefgh", "ij"]
    assert drawn.count("<text") == 5


def test_the_readme_shows_the_picture() -> None:
    assert "(docs/terminal.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert picture.text_of((ROOT / "docs" / "terminal.svg").read_text(encoding="utf-8"))[0] == "$ hearth setup --yes"
