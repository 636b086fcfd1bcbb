"""Validator for a small subset of JSON Schema, for the arguments and results of packs. Pure.

Supported keywords: `type` (one name or a list), `enum`, `properties`, `required`, `additionalProperties` (a boolean),
`items` (one schema), `minimum`, `maximum`, `minLength`, `maxLength`, `minItems`, `maxItems`. Annotations (`title`,
`description`, `default`, `examples`, `format`) are accepted and not checked. Any other keyword is refused when a pack
is made: a keyword that looks checked and is not would be a trap.
"""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "format"})
_BOUNDS = {
    "minimum": ("number", "at least"),
    "maximum": ("number", "at most"),
    "minLength": ("string", "at least"),
    "maxLength": ("string", "at most"),
    "minItems": ("array", "at least"),
    "maxItems": ("array", "at most"),
}
_KEYWORDS = frozenset(
    {"type", "enum", "properties", "required", "additionalProperties", "items", *_BOUNDS, *_ANNOTATIONS}
)
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def refuse_unsupported(schema: Schema, at: str = "schema") -> None:
    """Raise ValueError for a schema with a keyword or a type that this module does not check."""
    for keyword in schema:
        if keyword not in _KEYWORDS:
            raise ValueError(f"{at}: keyword {keyword!r} is not supported")
    for name in _type_names(schema):
        if name not in _TYPES:
            raise ValueError(f"{at}: type {name!r} is not known")
    if schema.get("additionalProperties", True) not in (True, False):
        raise ValueError(f"{at}: additionalProperties must be true or false")
    for name, inner in schema.get("properties", {}).items():
        refuse_unsupported(inner, f"{at}.{name}")
    if "items" in schema:
        refuse_unsupported(schema["items"], f"{at}[]")


def problem(schema: Schema, value: object, at: str = "arguments") -> str | None:
    """Return a sentence about the first part of a value that does not fit its schema; None if the value fits."""
    names = _type_names(schema)
    if names and not any(_is_of(name, value) for name in names):
        return f"{at} must be {' or '.join(names)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at} must be one of {', '.join(map(str, schema['enum']))}"
    for keyword, (kind, words) in _BOUNDS.items():
        if keyword in schema and _is_of(kind, value):
            size: Any = value if kind == "number" else len(value)  # type: ignore[arg-type]  # its type was checked
            bound = schema[keyword]
            if size < bound if keyword.startswith("min") else size > bound:
                unit = {"number": "", "string": " characters", "array": " items"}[kind]
                return f"{at} must be {words} {bound}{unit}" if not unit else f"{at} must have {words} {bound}{unit}"
    if isinstance(value, dict):
        return _problem_of_members(schema, value, at)
    if isinstance(value, (list, tuple)) and "items" in schema:
        found = (problem(schema["items"], item, f"{at}[{index}]") for index, item in enumerate(value))
        return next(filter(None, found), None)
    return None


def _problem_of_members(schema: Schema, value: dict[str, Any], at: str) -> str | None:
    known: Mapping[str, Schema] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{at} must have {name!r}"
    for name, item in value.items():
        if name in known:
            if found := problem(known[name], item, f"{at}.{name}"):
                return found
        elif not schema.get("additionalProperties", True):
            return f"{at} must not have {name!r}; known: {', '.join(known) or 'none'}"
    return None


def _type_names(schema: Schema) -> tuple[str, ...]:
    names = schema.get("type", ())
    return (names,) if isinstance(names, str) else tuple(names)


def _is_of(name: str, value: object) -> bool:
    # To Python a boolean is an integer, to JSON it is not; 1.0 is an integer to JSON Schema.
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])
