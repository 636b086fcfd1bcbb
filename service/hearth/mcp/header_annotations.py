"""Arguments of a tool that modern requests repeat in `Mcp-Param-*` headers: `x-mcp-header` in its input schema.

Works on values that the caller has parsed. A bridge loads this module, too, and has the standard library only.
"""

import re
from decimal import Decimal, InvalidOperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ANNOTATION = "x-mcp-header"
PARAM_PREFIX = "Mcp-Param-"

# Header by the path of properties to its value.
Index = dict[tuple[str, ...], str]

_TYPES = ("string", "integer", "boolean")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# Keywords of JSON Schema (2020-12, and what it replaced) that hold a schema or an array of schemas …
_SCHEMAS = (
    "items", "prefixItems", "additionalItems", "contains", "unevaluatedItems", "additionalProperties",
    "unevaluatedProperties", "propertyNames", "oneOf", "anyOf", "allOf", "not", "if", "then", "else", "contentSchema",
)  # fmt: skip
# … or an object of them.
_NAMED_SCHEMAS = ("patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions")
# More digits than any number that both sides can hold; longer ones are compared as they are written.
_NUMBER_CHARACTERS = 40


class InvalidAnnotation(ValueError):
    """Error for a tool whose `x-mcp-header` breaks the rules: a client must not offer it."""


def may_be_in(schema: bytes) -> bool:
    """Tell whether a schema, or a list of schemas, may have an annotation: most have none, and need not be parsed."""
    return ANNOTATION.encode() in schema or b"\\u00" in schema


def find(root: "Any") -> Index:
    """Return the header of each annotated argument of an input schema. Raises InvalidAnnotation."""
    found: Index = {}
    # A path of None: the chain of properties is broken here, and nothing may be annotated.
    pending: list[tuple[tuple[str, ...] | None, Any]] = [((), root)]
    while pending:
        path, schema = pending.pop()
        if isinstance(schema, dict):
            if ANNOTATION in schema:
                _add(found, path, schema)
            pending += _inside(path, schema)
    return found


def _inside(path: tuple[str, ...] | None, schema: "dict[str, Any]") -> "list[tuple[tuple[str, ...] | None, Any]]":
    found: list[tuple[tuple[str, ...] | None, Any]] = []
    properties = schema.get("properties")
    if isinstance(properties, dict):
        found += [(None if path is None else (*path, name), inner) for name, inner in properties.items()]
    for keyword in _SCHEMAS:
        inner = schema.get(keyword)
        found += [(None, item) for item in (inner if isinstance(inner, list) else [inner])]
    for keyword in _NAMED_SCHEMAS:
        inner = schema.get(keyword)
        found += [(None, item) for item in (inner.values() if isinstance(inner, dict) else [])]
    return found


def _add(found: Index, path: tuple[str, ...] | None, schema: "dict[str, Any]") -> None:
    name = schema[ANNOTATION]
    if not path:
        raise InvalidAnnotation(f"{ANNOTATION} {name!r} stands where no chain of properties leads to")
    where = ".".join(path)
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise InvalidAnnotation(f"{ANNOTATION} of {where} is {name!r}, which is no name of a header")
    if schema.get("type") not in _TYPES:
        raise InvalidAnnotation(f"{ANNOTATION} of {where}: its type must be one of {', '.join(_TYPES)}")
    if name.lower() in (other.removeprefix(PARAM_PREFIX).lower() for other in found.values()):
        raise InvalidAnnotation(f"{ANNOTATION} {name!r} is there twice")
    found[path] = PARAM_PREFIX + name


def written(literal: str) -> str:
    """Return a number or boolean as a header has it: integers in decimal, others unchanged, for the server to judge."""
    found = number(literal)
    # Written out, a large exponent would fill the memory.
    if found is None or found.adjusted() >= _NUMBER_CHARACTERS or found != int(found):
        return literal
    return str(int(found))


def number(literal: str) -> Decimal | None:
    """Return the number that a literal stands for; None for one that is no number, or has too many digits."""
    try:
        return Decimal(literal) if len(literal) <= _NUMBER_CHARACTERS else None
    except InvalidOperation:  # a boolean, or an exponent beyond all bounds
        return None
