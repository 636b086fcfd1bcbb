"""Forms that servers ask people to fill in."""

from typing import Any

import click
import pytest

from hearth.cli.tools import call_terminal as questions


def field(schema: dict[str, Any], required: bool = True) -> questions.Field:
    (found,) = questions.form_fields({"properties": {"x": schema}, "required": ["x"] if required else []})
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
    assert len(questions.form_fields(schema)) <= 1


def test_the_prompt_tells_what_may_be_typed() -> None:
    schema = {
        "type": "string",
        "title": "Size",
        "description": "of the box",
        "oneOf": [{"const": "s", "title": "small"}],
    }
    assert field(schema, required=False).prompt() == "Size (of the box) [s: small], or nothing"
