"""Columns of text."""

from hearth.output.table import Column, clean, columns, duration, fit, ranked, width_of


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert columns(("A", "B"), [("long cell", "x"), ("y", "z")]) == ["A          B", "long cell  x", "y          z"]


def test_the_widest_column_gives_way_when_the_terminal_is_narrow() -> None:
    lines = columns(("NAME", "FOLDER"), [("abc", "/a/very/long/folder/name")], width=20)
    assert all(width_of(line) <= 20 for line in lines)
    assert lines[1].endswith("…")


def test_a_column_never_becomes_narrower_than_its_header() -> None:
    assert columns(("HEADER", "B"), [("x" * 50, "y")], width=3)[0].startswith("HEADER")


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


def test_columns_go_by_their_rank_and_none_is_cut() -> None:
    columns = (Column("NAME"), Column("FIRST", 2), Column("LAST", 1))
    rows = [("n" * 20, "f" * 20, "l" * 20)]
    assert ranked(columns, rows, 64)[1] == f"{'n' * 20}  {'f' * 20}  {'l' * 20}"
    assert ranked(columns, rows, 63)[1] == f"{'n' * 20}  {'l' * 20}"
    assert ranked(columns, rows, 10)[1] == "n" * 20


def test_a_flexible_column_loses_its_beginning_before_any_goes() -> None:
    columns = (Column("NAME"), Column("FOLDER", 1, flexible=True))
    rows = [("name", "/home/somebody/projects/one")]
    assert ranked(columns, rows, 26)[1] == "name  …mebody/projects/one"
    assert ranked(columns, rows, 21)[1] == "name"


def test_an_optional_column_is_there_only_if_a_row_has_something_in_it() -> None:
    columns = (Column("NAME"), Column("ROLE", optional=True))
    assert ranked(columns, [("a", "-")], 80) == ["NAME", "a"]
    assert ranked(columns, [("a", "-"), ("b", "lead")], 80) == ["NAME  ROLE", "a     -", "b     lead"]
