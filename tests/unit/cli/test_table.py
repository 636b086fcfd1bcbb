"""Columns of text."""

from hearth.cli.table import clean, columns, duration, fit, width_of


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert columns(("A", "B"), [("long cell", "x"), ("y", "z")]) == ["A          B", "long cell  x", "y          z"]


def test_the_widest_column_gives_way_when_the_terminal_is_narrow() -> None:
    lines = columns(("NAME", "FOLDER"), [("abc", "/a/very/long/folder/name")], width=20)
    assert all(width_of(line) <= 20 for line in lines)
    assert lines[1].endswith("…")


def test_a_column_never_becomes_narrower_than_its_header() -> None:
    lines = columns(("HEADER", "B"), [("x" * 50, "y")], width=3)
    assert lines[0].startswith("HEADER")


def test_wide_and_combining_characters_are_counted_in_cells() -> None:
    assert width_of("火") == 2
    assert width_of("e\N{COMBINING ACUTE ACCENT}") == 1


def test_cutting_never_exceeds_the_width_even_in_the_middle_of_a_wide_character() -> None:
    assert width_of(fit("火火火", 4)) == 4


def test_a_client_cannot_move_the_cursor_with_its_name() -> None:
    lines = columns(("CLIENT",), [("evil\x1b[2J\r\nname",)])
    assert "\x1b" not in "".join(lines)
    assert len(lines) == 2
    assert clean("a\nb") == "a\N{REPLACEMENT CHARACTER}b"


def test_a_duration_is_told_in_its_largest_unit() -> None:
    assert [duration(seconds) for seconds in (5, 60, 7200, 200000)] == ["5 s", "1 min", "2 h", "2 d"]
