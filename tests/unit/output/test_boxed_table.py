"""Tables with a frame."""

from hearth.output.table import box


def test_figures_are_aligned_to_the_right_and_groups_are_separated() -> None:
    assert box([[["what", "n", "m"]], [["a", "10", "2"]]], unicode=True) == [
        "┌──────┬────┬───┐",
        "│ what │  n │ m │",
        "├──────┼────┼───┤",
        "│ a    │ 10 │ 2 │",
        "└──────┴────┴───┘",
    ]


def test_without_unicode_the_frame_is_plain_ascii() -> None:
    assert all(line.isascii() for line in box([[["a", "b", "c"]], [["d", "e", "f"]]], unicode=False))


def test_a_long_text_in_the_second_of_two_columns_is_wrapped_to_the_width() -> None:
    lines = box([[["label", "word " * 40]]], unicode=True, width=60)
    assert {len(line) for line in lines} == {60}
    assert sum("label" in line for line in lines) == 1
    assert " ".join(lines).count("word") == 40
