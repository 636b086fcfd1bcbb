"""What may be secret in an entry of a client, whoever's it is: not to be shown. Pure.

Rather too much than too little, as nothing is lost but a word in a diff: by names, by shapes as importing knows them,
and in the defaults of references. References themselves are no secrets.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hearth import secret_patterns
from hearth.clients.importer import templates
from hearth.clients.importer.templates import Secret

_VARIABLES = frozenset({"env", "environment"})
_HEADERS = frozenset({"headers", "http_headers"})
_ARGUMENTS = frozenset({"args", "command"})
# Options whose value is a header, of curl and of bridges that are made like it.
_HEADER_OPTIONS = frozenset({"-H", "--header", "--headers"})

_REFERENCE = re.compile(r"\$\{[^{}]*\}|\{(?:env|file):[^{}]+\}")
_DEFAULT = re.compile(r"\$\{(?P<name>[^{}]*?):-(?P<default>[^{}]*)\}")
_HEADER = re.compile(r"(?P<name>[A-Za-z][\w-]*):(?P<space>\s*)(?!//)(?P<value>.+)", re.DOTALL)
_SCHEME = re.compile(r"Bearer|Basic|Digest|Token|Api-?Key", re.IGNORECASE)
# Beside a reference, a word under a harmless name: long, and of letters and digits.
_LONG = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.:~%+/=-]{16,}")


def of_entry(entry: Any) -> Iterator[str]:
    """The secrets in an entry."""
    for key, value in entry.items() if isinstance(entry, dict) else ():
        yield from _of(key, value)


def _of(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        secrets_of = (
            secret_patterns.of_variable if key in _VARIABLES else secret_patterns.of_header if key in _HEADERS else None
        )
        for name, each in value.items():
            is_named = secrets_of is not None and isinstance(each, str)
            yield from _of_named(name, each, secrets_of) if secrets_of and is_named else _of(name, each)
    elif isinstance(value, list):
        if key in _ARGUMENTS:
            yield from _of_arguments([word for word in value if isinstance(word, str)])
        for each in value:
            yield from _of(key, each) if key not in _ARGUMENTS or not isinstance(each, str) else ()
    elif isinstance(value, str):
        yield from _of_arguments(value.split()) if key == "command" else ()
        yield from secret_patterns.of_url(value) if "://" in value else ()
        yield from [value] if secret_patterns.SECRET_NAME.search(key) else ()
        yield from _anywhere(key, value)


def _of_named(name: str, value: str, secrets_of: Callable[[str, str], Iterator[str]]) -> Iterator[str]:
    beside = _REFERENCE.split(value)
    if len(beside) == 1:
        yield from secrets_of(name, value)
    else:
        yield from (word for part in beside for word in part.split() if _is_secret_beside(name, word))
    yield from _anywhere(name, value)


def _is_secret_beside(name: str, word: str) -> bool:
    if _SCHEME.fullmatch(word) or secret_patterns.is_plain(word):
        return False
    return bool(secret_patterns.SECRET_NAME.search(name) or _LONG.fullmatch(word))


def _of_arguments(words: Sequence[str]) -> Iterator[str]:
    yield from secret_patterns.of_arguments(words)
    for text in templates.arguments([(word,) for word in words]):
        yield from (piece.value for piece in text if isinstance(piece, Secret))
    for before, word in zip(("", *words), words, strict=False):
        header = _HEADER.fullmatch(word.removeprefix("--header="))
        if header and (before in _HEADER_OPTIONS or header["space"]):
            yield from _of_named(header["name"], header["value"], secret_patterns.of_header)
        yield from _anywhere(before, word)


def _anywhere(name: str, value: str) -> Iterator[str]:
    """What is a secret by its shape, and the defaults of references."""
    for part in (value, *_REFERENCE.split(value)):
        yield from (secret for secret in templates.shapes(part) if not _REFERENCE.fullmatch(secret))
    for found in _DEFAULT.finditer(value):
        default = found["default"]
        is_named = any(secret_patterns.SECRET_NAME.search(each) for each in (name, found["name"]))
        if not _SCHEME.fullmatch(default) and (is_named or not secret_patterns.is_plain(default)):
            yield default
        yield from templates.shapes(default)
