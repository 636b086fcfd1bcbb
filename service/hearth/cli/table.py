"""Text in columns. Pure: rows in, lines out."""

import unicodedata
from collections.abc import Sequence

GAP = "  "


def width_of(text: str) -> int:
    """How many terminal cells a text takes."""
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Cf", "Cc"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clean(text: str) -> str:
    """A text from elsewhere made harmless for a terminal: no escape sequences, no line ends."""
    return "".join(character if character.isprintable() else "�" for character in text)


def fit(text: str, width: int) -> str:
    """The text padded or cut to a width."""
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
    """Lines with the headers and the rows in columns; the widest column gives way when they do not fit."""
    lines = [list(headers), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(width_of(line[index]) for line in lines) for index in range(len(headers))]
    spare = width - sum(widths) - len(GAP) * (len(widths) - 1)
    if spare < 0:
        widest = widths.index(max(widths))
        widths[widest] = max(width_of(headers[widest]), widths[widest] + spare)
    return [GAP.join(fit(cell, size) for cell, size in zip(line, widths, strict=True)).rstrip() for line in lines]


def duration(seconds: float) -> str:
    """A length of time as a person says it."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
