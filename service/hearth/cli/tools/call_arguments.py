"""Parser of tool arguments from the command line, with types from the tool's schema.

'{"a": 1}'   @FILE   -        a JSON object, from a file, from standard input
name=value                    one argument; more than once for a list
name:=JSON                    one argument as JSON, whatever the schema says
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from hearth.cli.messages import suggestion

Schema = Mapping[str, Any]

_YES, _NO = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})
# More than a user passes by hand. The limit ends the read of an endless device.
INPUT_LIMIT_CHARACTERS = 64 * 1024 * 1024
_KINDS = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "array": "a list",
          "object": "an object", "null": "null"}  # fmt: skip


def parse(words: Sequence[str], schema: Schema) -> dict[str, Any]:
    """Return the arguments. Raises click.UsageError, which lists the arguments that the tool takes."""
    whole = bool(words) and (words[0] == "-" or words[0][:1] in "@{")
    arguments = _object(words[0]) if whole else {}
    for word in words[whole:]:
        _take(arguments, word, schema)
    missing = [name for name in _list(schema.get("required")) if name not in arguments]
    if missing and not whole:
        raise click.UsageError(f"It needs {', '.join(f'{name}=…' for name in missing)}.")
    return arguments


def _object(word: str) -> dict[str, Any]:
    text = _input(word)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise click.UsageError(f"The arguments are not valid JSON: {exc}.") from exc
    if not isinstance(found, dict):
        raise click.UsageError('The arguments must be a JSON object, as in \'{"name": "value"}\'.')
    return found


def _input(word: str) -> str:
    if word == "-":
        return sys.stdin.read(INPUT_LIMIT_CHARACTERS)
    if not word.startswith("@"):
        return word
    try:
        with open(word[1:], encoding="utf-8") as file:
            return file.read(INPUT_LIMIT_CHARACTERS)
    except OSError as exc:
        raise click.UsageError(f"{word[1:]} cannot be read: {(exc.strerror or str(exc)).lower()}.") from exc
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"{word[1:]} is not text in UTF-8.") from exc


def _take(arguments: dict[str, Any], word: str, schema: Schema) -> None:
    name, equals, text = word.partition("=")
    if not equals or not name.strip(":"):
        raise click.UsageError(f"Arguments are typed as name=value, or as one JSON object; {word!r} is neither.")
    if name.endswith(":"):
        name = name[:-1]
        try:
            arguments[name] = json.loads(text)
        except ValueError as exc:
            raise click.UsageError(f"{name} is not valid JSON: {exc}.") from exc
        return
    known = _mapping(schema.get("properties"))
    if known and name not in known and schema.get("additionalProperties") is not True:
        hint = suggestion(name, known, f"It takes {', '.join(known)}.")
        raise click.UsageError(f"The tool takes no argument {name!r}. {hint}")
    found = value(name, text, _resolved(known.get(name), schema), schema)
    if name in arguments and isinstance(arguments[name], list) and isinstance(found, list):
        found = arguments[name] + found
    arguments[name] = found


def value(name: str, text: str, schema: Schema, root: Schema) -> Any:
    """Convert a text to the type in the schema. Raises click.UsageError."""
    found = _typed(name, text, types(schema, root), schema, root)
    choices = schema.get("enum")
    if isinstance(choices, list) and found not in choices:
        raise click.UsageError(f"{name} must be one of {', '.join(map(str, choices))}, not {text!r}.")
    return found


def _typed(name: str, text: str, kinds: set[str], schema: Schema, root: Schema) -> Any:
    if kinds and kinds <= {"string", "null"}:
        return text
    if "boolean" in kinds and text.lower() in _YES | _NO:
        return text.lower() in _YES
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = text
    if not kinds or _kind(found) & kinds:
        return found
    if "array" in kinds and _kind(found) != {"object"}:
        return [value(name, text, _resolved(schema.get("items"), root), root)]
    if "string" in kinds:
        return text
    wanted = " or ".join(_KINDS.get(kind, kind) for kind in sorted(kinds))
    raise click.UsageError(f"{name} must be {wanted}, not {text!r}.")


def types(schema: Schema, root: Schema, depth: int = 8) -> set[str]:
    """Return the JSON types that a schema allows; an empty set if it names none."""
    declared = schema.get("type")
    found = {declared} if isinstance(declared, str) else set(_list(declared))
    for key in ("anyOf", "oneOf", "allOf"):
        for part in _list(schema.get(key)):
            found |= types(_resolved(part, root), root, depth - 1) if depth else set()
    if not found:
        for choice in _list(schema.get("enum")):
            found |= _kind(choice)
    return {str(kind) for kind in found}


def _kind(found: object) -> set[str]:
    if isinstance(found, bool):
        return {"boolean"}
    if isinstance(found, int):
        return {"integer", "number"}
    if isinstance(found, float):
        return {"number", "integer"} if found.is_integer() else {"number"}
    kinds = {str: "string", list: "array", dict: "object", type(None): "null"}
    return {kinds[type(found)]}


def _resolved(schema: object, root: Schema) -> Schema:
    """Return the schema itself, or the one in the same document that it refers to."""
    found = _mapping(schema)
    for _ in range(8):
        reference = found.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target: object = root
        for part in reference[2:].split("/"):
            target = _mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
        found = _mapping(target)
    return found


def usage(schema: Schema) -> str:
    """Return a usage text with the arguments of a tool."""
    required = _list(schema.get("required"))
    shown = []
    for name, inner in _mapping(schema.get("properties")).items():
        kinds = sorted(types(_resolved(inner, schema), schema) - {"null"})
        word = f"{name}={'|'.join(kinds).upper() or 'VALUE'}"
        shown.append(word if name in required else f"[{word}]")
    return " ".join(shown)


def _mapping(found: object) -> Schema:
    return found if isinstance(found, Mapping) else {}


def _list(found: object) -> list[Any]:
    return found if isinstance(found, list) else []
