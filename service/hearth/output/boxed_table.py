"""Tables with a frame. Pure: rows in, lines out."""

import textwrap
from collections.abc import Sequence

from hearth.output.table import width_of

_UNICODE = {"top": "┌┬┐", "middle": "├┼┤", "bottom": "└┴┘", "line": "─", "side": "│"}
_ASCII = {"top": "+++", "middle": "+++", "bottom": "+++", "line": "-", "side": "|"}


def box(groups: Sequence[Sequence[Sequence[str]]], unicode: bool, width: int = 80) -> list[str]:
    """Groups of rows in one frame, a line between the groups.

    The first column is aligned to the left and the others to the right, except that the last one, when
    there are only two, holds text and is wrapped to the width.
    """
    marks = _UNICODE if unicode else _ASCII
    rows = [row for group in groups for row in group]
    sizes = [max(width_of(row[index]) for row in rows) for index in range(len(rows[0]))]
    wraps = len(sizes) == 2
    if wraps:
        # Frame and padding of two columns take seven cells; the frame is as wide as a table above it.
        sizes[1] = width - sizes[0] - 7
    lines = [_rule(marks, "top", sizes)]
    for number, group in enumerate(groups):
        if number:
            lines.append(_rule(marks, "middle", sizes))
        for row in group:
            lines += [_row(marks["side"], cells, sizes, wraps) for cells in _wrapped(row, sizes, wraps)]
    return [*lines, _rule(marks, "bottom", sizes)]


def _wrapped(row: Sequence[str], sizes: Sequence[int], wraps: bool) -> list[list[str]]:
    if not wraps:
        return [list(row)]
    parts = textwrap.wrap(row[1], sizes[1]) or [""]
    return [[row[0] if index == 0 else "", part] for index, part in enumerate(parts)]


def _rule(marks: dict[str, str], place: str, sizes: Sequence[int]) -> str:
    left, cross, right = tuple(marks[place])
    return left + cross.join(marks["line"] * (size + 2) for size in sizes) + right


def _row(side: str, cells: Sequence[str], sizes: Sequence[int], wraps: bool) -> str:
    padded = []
    for index, (cell, size) in enumerate(zip(cells, sizes, strict=True)):
        gap = " " * (size - width_of(cell))
        padded.append(cell + gap if index == 0 or wraps else gap + cell)
    return f"{side} {f' {side} '.join(padded)} {side}"
