"""Terminal side of a call: tools and their answers as text, and forms that servers ask people to fill in."""

import base64
from pathlib import Path
from typing import Any

import click
import pytest

from hearth.cli.tools import call_terminal
from hearth.errors import HearthError
from hearth.output import table

PNG = base64.b64encode(b"\x89PNG" * 500).decode()
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def test_a_tool_is_shown_with_its_arguments_and_the_first_line_of_what_it_is_for() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    tool = {"name": "t", "description": "Does it.\nAnd more.", "inputSchema": schema}
    assert call_terminal.tool_lines([tool, {"name": "u"}], 80) == ["t a=STRING [b=INTEGER]", "    Does it.", "u"]


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
    assert call_terminal.text_of(block) is None
    assert call_terminal.description_of(block) == text


def test_texts_are_shown_as_they_are_and_structure_where_there_is_no_text() -> None:
    (block,) = call_terminal.blocks_of({"content": [{"type": "text", "text": "a"}]})
    assert call_terminal.text_of(block) == "a"
    assert call_terminal.text_of({"type": "resource", "resource": {"uri": "x://y", "text": "t"}}) == "[x://y]\nt"
    (block,) = call_terminal.blocks_of({"content": [], "structuredContent": {"a": 1}})
    assert call_terminal.text_of(block) == '{\n  "a": 1\n}'
    assert call_terminal.blocks_of({"content": 3}) == []


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
    assert call_terminal.progress_text(params) == text


def test_data_are_saved_under_a_name_that_is_free(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    first, second = (call_terminal.save_content(IMAGE, str(folder), "shot/../x") for _ in range(2))
    assert (first, second) == (str(folder / "shot_.._x-1.png"), str(folder / "shot_.._x-2.png"))
    assert Path(str(first)).read_bytes() == b"\x89PNG" * 500
    assert call_terminal.save_content({"type": "text", "text": "a"}, str(folder), "t") is None


def test_what_cannot_be_saved_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HearthError, match="cannot save into"):
        call_terminal.save_content(IMAGE, str(tmp_path / "file"), "t")
    with pytest.raises(HearthError, match="no base64"):
        call_terminal.save_content({"type": "image", "data": "%"}, str(tmp_path), "t")


def field(schema: dict[str, Any], required: bool = True) -> call_terminal.Field:
    (found,) = call_terminal.form_fields({"properties": {"x": schema}, "required": ["x"] if required else []})
    return found


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "7", "7"),
        ({"type": "integer"}, "7", 7),
        ({"type": "number"}, "7.5", 7.5),
        ({"type": "boolean"}, "no", False),
        ({"type": "string", "default": "a"}, "", "a"),
        ({"type": "boolean", "default": False}, "", False),
        ({"type": "string", "enum": ["a", "b"]}, "B", "b"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"]}, "second", "b"),
        ({"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}]}, "red", "#f00"),
        ({"type": "array", "items": {"enum": ["a", "b", "c"]}}, "a, c", ["a", "c"]),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "First"}]}}, "first", ["a"]),
        ({"type": "string", "maxLength": 3}, "abc", "abc"),
    ],
)
def test_what_is_typed_becomes_what_the_schema_wants(schema: dict[str, Any], text: str, value: object) -> None:
    assert field(schema).parse(text) == value


@pytest.mark.parametrize(
    ("schema", "text", "sentence"),
    [
        ({"type": "string"}, " ", "It needs an answer."),
        ({"type": "integer"}, "x", "x must be a whole number"),
        ({"type": "string", "enum": ["a", "b"]}, "c", "Choose from a, b."),
        ({"type": "integer", "minimum": 3}, "2", "It must be at least 3."),
        ({"type": "integer", "maximum": 3}, "4", "It must be at most 3."),
        ({"type": "string", "minLength": 2}, "a", "It must have at least 2 characters."),
        ({"type": "string", "maxLength": 2}, "abc", "It must have at most 2 characters."),
    ],
)
def test_what_does_not_fit_is_asked_again(schema: dict[str, Any], text: str, sentence: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        field(schema).parse(text)
    assert sentence in caught.value.format_message()


def test_what_is_optional_may_be_left_out() -> None:
    assert field({"type": "integer"}, required=False).parse("") is None


@pytest.mark.parametrize("schema", [None, [], {}, {"properties": 3}, {"properties": {"a": 3}, "required": "a"}])
def test_a_schema_that_is_none_has_few_fields(schema: object) -> None:
    assert len(call_terminal.form_fields(schema)) <= 1


def test_the_prompt_tells_what_may_be_typed() -> None:
    choices = [{"const": "s", "title": "small"}]
    schema = {"type": "string", "title": "Size", "description": "of the box", "oneOf": choices}
    assert field(schema, required=False).prompt() == "Size (of the box) [s: small], or nothing"
