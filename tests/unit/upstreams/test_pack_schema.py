"""The subset of JSON Schema that packs are checked by."""

import pytest

from hearth.upstreams import pack_schema

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "count": {"type": ["integer", "null"], "minimum": 1, "maximum": 3},
        "kind": {"enum": ["a", "b"]},
        "items": {"type": "array", "items": {"type": "number"}, "maxItems": 2},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "value", [{"name": "x"}, {"name": "x", "count": 3.0}, {"name": "x", "count": None, "kind": "b", "items": [1, 2.5]}]
)
def test_what_fits_has_no_problem(value: object) -> None:
    pack_schema.refuse_unsupported(SCHEMA)
    assert pack_schema.problem(SCHEMA, value) is None


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], "arguments must be object"),
        ({}, "arguments must have 'name'"),
        ({"name": ""}, "arguments.name must have at least 1 characters"),
        ({"name": "x", "count": True}, "arguments.count must be integer or null"),
        ({"name": "x", "count": 1.5}, "arguments.count must be integer or null"),
        ({"name": "x", "count": 4}, "arguments.count must be at most 3"),
        ({"name": "x", "kind": "c"}, "arguments.kind must be one of a, b"),
        ({"name": "x", "items": [1, "2"]}, "arguments.items[1] must be number"),
        ({"name": "x", "items": [1, 2, 3]}, "arguments.items must have at most 2 items"),
        ({"name": "x", "nam": 1}, "arguments must not have 'nam'; known: name, count, kind, items"),
    ],
)
def test_the_first_part_that_does_not_fit_is_named(value: object, sentence: str) -> None:
    assert pack_schema.problem(SCHEMA, value) == sentence


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "x"},
        {"type": "text"},
        {"additionalProperties": {}},
        {"properties": {"a": {"anyOf": []}}},
        {"items": {"$ref": "#"}},
    ],
)
def test_a_keyword_that_is_not_checked_is_refused(schema: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"not supported|not known|true or false"):
        pack_schema.refuse_unsupported(schema)
