"""HTTP headers that repeat parts of a modern request's body (2026-07-28, Streamable HTTP).

`Mcp-Method` and `Mcp-Name` go with every request, `Mcp-Param-*` with calls of tools whose input schema asks for them by
`x-mcp-header`. Senders create the headers here, receivers check them here. Knows nothing of HTTP itself.
"""

import base64
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from hearth.errors import MessageError
from hearth.mcp import versions
from hearth.wire import json
from hearth.wire.values import RawBytes, members, text

METHOD = "Mcp-Method"
NAME = "Mcp-Name"

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

# Member of the params that `Mcp-Name` repeats.
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

_SENTINEL_START, _SENTINEL_END = "=?base64?", "?="
_SPACE = " \t"
_PLAIN = re.compile(r"[!-~](?:[\t -~]*[!-~])?")
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


# --- annotations


class InvalidAnnotation(ValueError):
    """Error for a tool whose `x-mcp-header` breaks the rules: a client must not offer it."""


def index(input_schema: RawBytes) -> Index:
    """Return the header of each annotated argument. Raises InvalidAnnotation."""
    data = bytes(input_schema)
    if not _may_be_annotated(data):
        return {}
    try:
        return _annotations(json.loads(data))
    except MessageError as exc:
        raise InvalidAnnotation(f"the input schema cannot be read: {exc}") from exc


def _may_be_annotated(schema: bytes) -> bool:
    """Tell whether a schema, or a list of schemas, may have an annotation: most have none, and need not be parsed."""
    return ANNOTATION.encode() in schema or b"\\u00" in schema


def _annotations(root: Any) -> Index:
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


def _inside(path: tuple[str, ...] | None, schema: dict[str, Any]) -> list[tuple[tuple[str, ...] | None, Any]]:
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


def _add(found: Index, path: tuple[str, ...] | None, schema: dict[str, Any]) -> None:
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


# --- sending


def standard(method: str, params: RawBytes | None) -> dict[str, str]:
    """Return the headers that every request carries. Raises MessageError for a method that no header can name."""
    if not _PLAIN.fullmatch(method):
        raise MessageError(f"there is no method {method!r}", versions.METHOD_NOT_FOUND)
    headers = {METHOD: method}
    name = _name(method, params)
    if name is not None:
        headers[NAME] = encode(name)
    return headers


def values(index: Index, arguments: RawBytes | None) -> dict[str, str]:
    """Return the `Mcp-Param-*` headers of a call; an argument that is absent, null or no single value has none."""
    found = ((header, _leaf(arguments, path)) for path, header in index.items())
    return {header: encode(_text(leaf)) for header, leaf in found if leaf}


def encode(value: str) -> str:
    """Return the value as a header may carry it: as it is, or as Base64 between markers."""
    looks_encoded = value.startswith(_SENTINEL_START) and value.endswith(_SENTINEL_END)
    if _PLAIN.fullmatch(value) and not looks_encoded:
        return value
    return f"{_SENTINEL_START}{base64.b64encode(_readable(value).encode()).decode()}{_SENTINEL_END}"


def _readable(value: str) -> str:
    """Return the text without lone surrogates, which no header and hardly any JSON parser can represent."""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _name(method: str, params: RawBytes | None) -> str | None:
    key = _NAMED_BY.get(method)
    return text(members(params).get(key)) if key else None


def _leaf(arguments: RawBytes | None, path: tuple[str, ...]) -> bytes:
    """Return the raw string, number or boolean at that path; empty if there is none."""
    raw = arguments
    for name in path:
        raw = members(raw).get(name)
    leaf = b"" if raw is None else bytes(raw)
    return b"" if leaf[:1] in (b"{", b"[", b"n") else leaf


def _text(leaf: bytes) -> str:
    """Return the value as text."""
    return text(leaf) or "" if leaf[:1] == b'"' else _written(leaf.decode())


# --- receiving


def check_standard(method: str, params: RawBytes | None, headers: Mapping[str, str]) -> None:
    """Raise MessageError (-32020) unless the headers repeat the method and, where it has one, the name."""
    given = _lower(headers)
    if METHOD.lower() not in given:
        raise _mismatch(METHOD, "is missing")
    if given[METHOD.lower()].strip(_SPACE) != method:
        raise _mismatch(METHOD, "does not name the method of the body")
    name = _name(method, params)
    if name is None:
        return
    found = _decoded(given, NAME)
    if found is None:
        raise _mismatch(NAME, f"is missing: it is to be the {_NAMED_BY[method]} in the body")
    if found != _readable(name):
        raise _mismatch(NAME, f"is not the {_NAMED_BY[method]} in the body")


def check(index: Index, arguments: RawBytes | None, headers: Mapping[str, str]) -> None:
    """Raise MessageError (-32020) unless the headers are exactly those that the arguments require."""
    given = _lower(headers) if index else {}
    for path, header in index.items():
        leaf, found = _leaf(arguments, path), _decoded(given, header)
        if found is None and leaf:
            raise _mismatch(header, f"is missing, but {'.'.join(path)} is in the body")
        if found is not None and not leaf:
            raise _mismatch(header, f"is there, but {'.'.join(path)} is not in the body")
        if found is not None and not _same(leaf, found):
            raise _mismatch(header, f"is not {'.'.join(path)} in the body")


def _decoded(headers: Mapping[str, str], header: str) -> str | None:
    value = headers.get(header.lower())
    if value is None:
        return None
    value = value.strip(_SPACE)
    if value and not _PLAIN.fullmatch(value):
        raise _mismatch(header, "has characters that no header may have")
    inner = value.removeprefix(_SENTINEL_START).removesuffix(_SENTINEL_END)
    if len(value) - len(inner) != len(_SENTINEL_START + _SENTINEL_END):
        return value
    try:
        data = base64.b64decode(inner, validate=True)
        if base64.b64encode(data).decode() == inner:  # bits beyond the end would be ignored
            return data.decode()
    except ValueError:
        pass
    raise _mismatch(header, "is not the Base64 of a text")


def _same(leaf: bytes, found: str) -> bool:
    if found == _readable(_text(leaf)):
        return True
    # Numbers are compared as such: 42.0 is 42.
    number = None if leaf[:1] == b'"' or not _DECIMAL.fullmatch(found) else _number(leaf.decode())
    return number is not None and number == _number(found)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    # Header names are case-insensitive.
    return {name.lower(): value for name, value in headers.items()}


def _mismatch(header: str, how: str) -> MessageError:
    return MessageError(f"header {header} {how}", versions.HEADER_MISMATCH)


def _written(literal: str) -> str:
    """Return a number or boolean as a header has it: integers in decimal, others unchanged, for the server to judge."""
    found = _number(literal)
    # Written out, a large exponent would fill the memory.
    if found is None or found.adjusted() >= _NUMBER_CHARACTERS or found != int(found):
        return literal
    return str(int(found))


def _number(literal: str) -> Decimal | None:
    """Return the number that a literal stands for; None for one that is no number, or has too many digits."""
    try:
        return Decimal(literal) if len(literal) <= _NUMBER_CHARACTERS else None
    except InvalidOperation:  # a boolean, or an exponent beyond all bounds
        return None
