"""Text in columns. Pure: rows in, lines out."""

import textwrap
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hearth.masking import REPLACEMENT, replaced

GAP = "  "
# Text of a cell without a value.
NOTHING = "-"

_UNICODE = {"top": "┌┬┐", "middle": "├┼┤", "bottom": "└┴┘", "line": "─", "side": "│"}
_ASCII = {"top": "+++", "middle": "+++", "bottom": "+++", "line": "-", "side": "|"}


def width_of(text: str) -> int:
    """Return the width of a text in terminal cells."""
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Cf", "Cc"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clean(text: str) -> str:
    """Return an untrusted text without escape sequences and line ends, safe for a terminal."""
    return replaced(text).replace("\n", REPLACEMENT).replace("\t", REPLACEMENT)


def harmless(text: str) -> str:
    """Return an untrusted text of several lines with line ends and tabs, but without other control characters."""
    return replaced(text.replace("\r\n", "\n"))


def fit(text: str, width: int) -> str:
    """Return the text padded or cut to a width."""
    missing = width - width_of(text)
    if missing >= 0:
        return text + " " * missing
    kept = ""
    for character in text:
        if width_of(kept + character) > width - 1:
            break
        kept += character
    return kept + "…" + " " * (width - 1 - width_of(kept))


def columns(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int = 100) -> list[str]:
    """Return lines with the headers and the rows in columns; if they do not fit, the widest column is cut."""
    lines = [list(headers), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(width_of(line[index]) for line in lines) for index in range(len(headers))]
    spare = width - sum(widths) - len(GAP) * (len(widths) - 1)
    if spare < 0:
        widest = widths.index(max(widths))
        widths[widest] = max(width_of(headers[widest]), widths[widest] + spare)
    return [GAP.join(fit(cell, size) for cell, size in zip(line, widths, strict=True)).rstrip() for line in lines]


class Column(NamedTuple):
    """Column that may be left out on a narrow terminal.

    A column of `rank` 0 is never left out or cut; of the others, the highest rank is left out first. An `optional`
    column is left out if it is empty in every row; a `flexible` one, such as a path, loses its beginning before any
    column is left out. The `cell` of a document is its member of that name, or the text that a function makes of it.
    """

    header: str
    rank: int = 0
    cell: str | Callable[[Any], str] = ""
    optional: bool = False
    flexible: bool = False


# The end of a path distinguishes it from others.
FLEXIBLE_CELLS = 16


def ranked(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the rows below their headers, without the columns for which there is no room."""
    cells = [[clean(cell) for cell in row] for row in rows]
    kept = [
        index
        for index, column in enumerate(columns)
        if not column.optional or any(row[index] not in ("", NOTHING) for row in cells)
    ]
    while True:
        sizes = _sizes(columns, cells, kept, width)
        dispensable = [index for index in kept if columns[index].rank]
        if sum(sizes) + len(GAP) * (len(kept) - 1) <= width or not dispensable:
            break
        kept.remove(max(dispensable, key=lambda index: columns[index].rank))
    lines = [[columns[index].header for index in kept], *([row[index] for index in kept] for row in cells)]
    return [GAP.join(_fit_end(cell, size) for cell, size in zip(line, sizes, strict=True)).rstrip() for line in lines]


def listed(columns: Sequence[Column], documents: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """Return a row for each document, below the headers."""
    return ranked(columns, [[_cell(column, each) for column in columns] for each in documents], width)


def _cell(column: Column, document: Mapping[str, Any]) -> str:
    return text_of(document.get(column.cell)) if isinstance(column.cell, str) else column.cell(document)


def text_of(value: object) -> str:
    """Return a value of a document as text; a dash where there is none."""
    return str(value) if value not in (None, "", [], {}) else NOTHING


def _sizes(columns: Sequence[Column], cells: Sequence[Sequence[str]], kept: Sequence[int], width: int) -> list[int]:
    sizes = [max(width_of(text) for text in (columns[i].header, *(row[i] for row in cells))) for i in kept]
    excess = sum(sizes) + len(GAP) * (len(kept) - 1) - width
    for number, index in enumerate(kept):
        if excess > 0 and columns[index].flexible:
            least = min(sizes[number], FLEXIBLE_CELLS)
            sizes[number] = max(least, sizes[number] - excess)
    return sizes


def _fit_end(text: str, width: int) -> str:
    """Pad a text to a width, or cut its beginning."""
    return fit(text, width) if width_of(text) <= width else fit(text[::-1], width)[::-1]


def megabytes(size: object, digits: int = 0) -> str:
    """Return a size in bytes as megabytes; a dash if it is unknown."""
    return f"{size / 1e6:.{digits}f} MB" if isinstance(size, int | float) else NOTHING


def duration(seconds: float) -> str:
    """Return a duration as a person says it."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


# --- tables with a frame


def box(groups: Sequence[Sequence[Sequence[str]]], unicode: bool, width: int = 80) -> list[str]:
    """Return groups of rows in one frame, with a line between the groups.

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
            lines += [_box_row(marks["side"], cells, sizes, wraps) for cells in _wrapped(row, sizes, wraps)]
    return [*lines, _rule(marks, "bottom", sizes)]


def _wrapped(row: Sequence[str], sizes: Sequence[int], wraps: bool) -> list[list[str]]:
    if not wraps:
        return [list(row)]
    parts = textwrap.wrap(row[1], sizes[1]) or [""]
    return [[row[0] if index == 0 else "", part] for index, part in enumerate(parts)]


def _rule(marks: dict[str, str], place: str, sizes: Sequence[int]) -> str:
    left, cross, right = tuple(marks[place])
    return left + cross.join(marks["line"] * (size + 2) for size in sizes) + right


def _box_row(side: str, cells: Sequence[str], sizes: Sequence[int], wraps: bool) -> str:
    padded = []
    for index, (cell, size) in enumerate(zip(cells, sizes, strict=True)):
        gap = " " * (size - width_of(cell))
        padded.append(cell + gap if index == 0 or wraps else gap + cell)
    return f"{side} {f' {side} '.join(padded)} {side}"
