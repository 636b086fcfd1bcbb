"""Tools and their answers as text."""

import base64
from pathlib import Path
from typing import Any

import pytest

from hearth.cli.tools import call_terminal as tool_lines
from hearth.errors import HearthError
from hearth.output import table

PNG = base64.b64encode(b"\x89PNG" * 500).decode()
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def test_a_tool_is_shown_with_its_arguments_and_the_first_line_of_what_it_is_for() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    tool = {"name": "t", "description": "Does it.\nAnd more.", "inputSchema": schema}
    assert tool_lines.tool_lines([tool, {"name": "u"}], 80) == ["t a=STRING [b=INTEGER]", "    Does it.", "u"]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (IMAGE, "[image: image/png, 2.0 KB]"),
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, "[audio: audio/wav, 3 bytes]"),
        ({"type": "resource_link", "uri": "x://y", "name": "y"}, "[link to x://y: y]"),
        ({"type": "resource", "resource": {"uri": "x:y", "blob": "AA"}}, "[resource x:y: of an unknown kind, 1 bytes]"),
        ({"type": "hologram"}, "[hologram: of an unknown kind]"),
        ({}, "[None: of an unknown kind]"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_described(block: dict[str, Any], text: str) -> None:
    assert tool_lines.text_of(block) is None
    assert tool_lines.description_of(block) == text


def test_texts_are_shown_as_they_are_and_structure_where_there_is_no_text() -> None:
    assert [
        tool_lines.text_of(block) for block in tool_lines.blocks_of({"content": [{"type": "text", "text": "a"}]})
    ] == ["a"]
    embedded = {"type": "resource", "resource": {"uri": "x://y", "text": "t"}}
    assert tool_lines.text_of(embedded) == "[x://y]\nt"
    (block,) = tool_lines.blocks_of({"content": [], "structuredContent": {"a": 1}})
    assert tool_lines.text_of(block) == '{\n  "a": 1\n}'
    assert tool_lines.blocks_of({"content": 3}) == []


def test_nothing_that_a_tool_says_steers_the_terminal() -> None:
    assert table.harmless("a\tb\r\nc\x1b[2J\x07") == "a\tb\nc�[2J�"


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"progress": 5, "total": 10, "message": "half"}, "[##########          ]  50% half"),
        ({"progress": 30, "total": 10}, "[####################] 100%"),
        ({"progress": 3}, "3"),
        ({"progress": 3, "total": 0, "message": "m"}, "3 m"),
        ({"progress": "x", "message": "m"}, "m"),
        ({}, ""),
    ],
)
def test_progress_is_one_line(params: dict[str, Any], text: str) -> None:
    assert tool_lines.progress_text(params) == text


def test_data_are_saved_under_a_name_that_is_free(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    first, second = (tool_lines.save_content(IMAGE, str(folder), "shot/../x") for _ in range(2))
    assert (first, second) == (str(folder / "shot_.._x-1.png"), str(folder / "shot_.._x-2.png"))
    assert Path(str(first)).read_bytes() == b"\x89PNG" * 500
    assert tool_lines.save_content({"type": "text", "text": "a"}, str(folder), "t") is None


def test_what_cannot_be_saved_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HearthError, match="cannot save into"):
        tool_lines.save_content(IMAGE, str(tmp_path / "file"), "t")
    with pytest.raises(HearthError, match="no base64"):
        tool_lines.save_content({"type": "image", "data": "%"}, str(tmp_path), "t")
