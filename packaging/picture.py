"""Draws what a terminal has shown as an SVG: README's picture. Pure; `make picture` has the real terminal.

`shown` turns the bytes that a program wrote into the lines that stayed on the screen, `draw` the lines into a picture,
and `text_of` a picture into its lines again, so that a test can hold them against a new run.
"""

import html
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# In pixels, of a font in which every character is as wide as this at this size.
FONT_SIZE, CHARACTER_WIDTH, LINE_HEIGHT = 13, 7.8, 19
MARGIN, TITLE_HEIGHT = 18, 34
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
PROMPT = "$ "
# Of a line, for a picture to be like it: enough to tell the steps apart, and before the lists that may grow.
LIKE_WORDS = 3
_ERASED = "\r\x1b[K"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Shot(NamedTuple):
    """One command, and what it left on the screen."""

    command: str
    lines: list[str]


def shown(output: str) -> list[str]:
    """What stays of a program's output; a line that was erased, as a spinner's is, does not."""
    lines = [line.rstrip("\r").rpartition(_ERASED)[2] for line in output.split("\n")]
    return "\n".join(_CONTROL.sub("", line).rstrip() for line in lines).strip("\n").split("\n")


def draw(shots: Sequence[Shot], columns: int) -> str:
    """The picture, with room for this many columns."""
    rows = [row for shot in shots for row in _rows(shot, columns)]
    width = round(columns * CHARACTER_WIDTH) + 2 * MARGIN
    height = TITLE_HEIGHT + len(rows) * LINE_HEIGHT + MARGIN
    return "\n".join([*_frame(width, height), *_drawn(rows), "</svg>", ""])


def _rows(shot: Shot, columns: int) -> Iterable[tuple[str, str]]:
    """The rows of a screen, each with its kind; what does not fit goes on in the next, as on a terminal."""
    yield "typed", PROMPT + shot.command
    for line in shot.lines:
        yield "", line[:columns]
        for start in range(columns, len(line), columns):
            yield "more", line[start : start + columns]


def _frame(width: int, height: int) -> Iterable[str]:
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    yield "<title>Hearth in a terminal</title>"
    yield "<style>"
    yield f"text {{ font: {FONT_SIZE}px {FONTS}; fill: #d8dee9; white-space: pre; }}"
    yield ".typed { fill: #ffb454; font-weight: bold; }"
    yield "</style>"
    yield f'<rect width="{width}" height="{height}" rx="8" fill="#1b1f27"/>'
    for index, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        yield f'<circle cx="{MARGIN + index * 18}" cy="17" r="6" fill="{colour}"/>'


def _drawn(rows: Iterable[tuple[str, str]]) -> Iterable[str]:
    for index, (kind, line) in enumerate(rows):
        y = TITLE_HEIGHT + index * LINE_HEIGHT + FONT_SIZE
        attribute = f' class="{kind}"' if kind else ""
        yield f'<text x="{MARGIN}" y="{y}" xml:space="preserve"{attribute}>{html.escape(line, quote=False)}</text>'


def text_of(picture: str) -> list[str]:
    """The lines of a picture, prompts included, those that go on in the next row put together."""
    lines: list[str] = []
    for kind, text in re.findall(r'<text [^>]*?(?: class="(\w+)")?>(.*?)</text>', picture):
        if kind == "more":
            lines[-1] += html.unescape(text)
        else:
            lines.append(html.unescape(text))
    return lines


def likeness(lines: Iterable[str]) -> list[str]:
    """How lines begin, without numbers: what a new run has to have in common with a picture."""
    return [" ".join(re.sub(r"\d+(\.\d+)?", "0", line).split()[:LIKE_WORDS]) for line in lines]
