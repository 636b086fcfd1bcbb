"""What is typed behind a tool's name, and what the tool is given."""

from pathlib import Path
from typing import Any

import click
import pytest

from hearth.cli.tools import call_arguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "size": {"type": "number"},
        "deep": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "options": {"type": "object"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "text or none": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "loose": {"type": ["string", "integer"]},
        "colour": {"$ref": "#/$defs/Colour"},
        "anything": {},
    },
    "$defs": {"Colour": {"enum": ["red", "green"], "type": "string"}},
}


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["text=3"], {"text": "3"}),
        (["text="], {"text": ""}),
        (["text=a=b"], {"text": "a=b"}),
        (["count=3"], {"count": 3}),
        (["size=2.5"], {"size": 2.5}),
        (["size=2"], {"size": 2}),
        (["deep=yes"], {"deep": True}),
        (["deep=False"], {"deep": False}),
        (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
        (['tags=["a", "b"]'], {"tags": ["a", "b"]}),
        (["tags=7"], {"tags": ["7"]}),
        (["numbers=1", "numbers=2"], {"numbers": [1, 2]}),
        (['options={"a": 1}'], {"options": {"a": 1}}),
        (["either=3"], {"either": 3}),
        (["either=null"], {"either": None}),
        (["text or none=null"], {"text or none": "null"}),
        (["loose=3"], {"loose": 3}),
        (["loose=x"], {"loose": "x"}),
        (["colour=red"], {"colour": "red"}),
        (["anything=[1]"], {"anything": [1]}),
        (["anything=word"], {"anything": "word"}),
        (["text:=7"], {"text": 7}),
        (['{"text": 1, "b": 2}'], {"text": 1, "b": 2}),
        (['{"text": "a"}', "count=2"], {"text": "a", "count": 2}),
        ([], {}),
    ],
)
def test_values_are_typed_by_the_schema(words: list[str], arguments: dict[str, Any]) -> None:
    assert call_arguments.parse(words, SCHEMA) == arguments


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["count=many"], "count must be a whole number, not 'many'"),
        (["count=1.5"], "count must be a whole number"),
        (["deep=perhaps"], "deep must be true or false"),
        (["options=1"], "options must be an object"),
        (["numbers=a"], "numbers must be a whole number"),
        (["colour=blue"], "one of red, green"),
        (["txt=a"], "Did you mean 'text'?"),
        (["word"], "name=value"),
        (["=x"], "name=value"),
        (["text:=x"], "text is not valid JSON"),
        (["{"], "not valid JSON"),
        (["@/nowhere"], "/nowhere cannot be read"),
        (["[1]"], "name=value"),
        (["{" * 100_000], "not valid JSON"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(words: list[str], sentence: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        call_arguments.parse(words, SCHEMA)
    assert sentence in caught.value.format_message()


def test_arguments_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "arguments.json"
    path.write_text('{"text": "ä"}', encoding="utf-8")
    assert call_arguments.parse([f"@{path}"], SCHEMA) == {"text": "ä"}


def test_what_is_missing_is_named_before_the_call_when_arguments_are_typed_one_by_one() -> None:
    schema = {"properties": {"a": {}, "b": {}}, "required": ["a", "b"]}
    with pytest.raises(click.UsageError, match="It needs b=…"):
        call_arguments.parse(["a=1"], schema)
    # A whole object is for the server to judge.
    assert call_arguments.parse(["{}"], schema) == {}


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"required": 3}, {"properties": {"a": 3}}])
def test_a_schema_that_is_none_is_no_obstacle(schema: dict[str, Any]) -> None:
    assert call_arguments.parse(["a=1"], schema) == {"a": 1}
    assert isinstance(call_arguments.usage(schema), str)


def test_a_schema_that_refers_to_itself_has_an_end() -> None:
    schema: dict[str, Any] = {
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/B"}},
        "$defs": {"A": {"$ref": "#/$defs/A"}, "B": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "string"}]}},
    }
    assert call_arguments.parse(["a=x", "b=3"], schema) == {"a": "x", "b": "3"}


def test_the_usage_tells_names_types_and_what_is_needed() -> None:
    schema = {**SCHEMA, "required": ["text"]}
    assert call_arguments.usage(schema).startswith("text=STRING [count=INTEGER] [size=NUMBER]")
