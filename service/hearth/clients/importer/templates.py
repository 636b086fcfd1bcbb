"""Values between a client's file and Hearth's config: plain text, secrets, and references that stay. Pure.

"Bearer ", Secret("ghp_…")     is written  Bearer ${keyring:github-token}
Kept("${HOME:-/root}"), "/x"   is written  ${HOME:-/root}/x
"echo ${x}"                    is written  echo $${x}, because the client does not resolve it
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from hearth import secret_patterns

# Placeholder for secrets and references while a value is searched: a character that no value may contain.
_MARK = "\0"
_SCHEME = re.compile(r"((?:Bearer|Basic|Token|ApiKey|Api-Key) +)(\S.*)", re.IGNORECASE | re.DOTALL)
_HEADER = re.compile(r"([A-Za-z][\w-]*: *)(?!//)(.+)", re.DOTALL)


class Secret(NamedTuple):
    """Secret value, which must not be written into a file; `hint` is the client's name for it."""

    value: str
    hint: str

    def __repr__(self) -> str:
        return f"Secret({self.hint!r})"


class Kept(NamedTuple):
    """Reference in Hearth's own syntax, written as it is."""

    written: str


Text = tuple[str | Secret | Kept, ...]


def plain(text: Text) -> str | None:
    """Return the whole text; None if it contains a secret or a reference."""
    return "".join(map(str, text)) if all(isinstance(piece, str) for piece in text) else None


def written(text: Text, place: Callable[[Secret], str]) -> str:
    """Return the text as written in the config; `place` returns the name under which a secret is stored."""
    return "".join(_written(piece, place) for piece in text)


def _written(piece: str | Secret | Kept, place: Callable[[Secret], str]) -> str:
    if isinstance(piece, Kept):
        return piece.written
    return f"${{keyring:{place(piece)}}}" if isinstance(piece, Secret) else escaped(piece)


def revealed(text: Text) -> str:
    """Return the text with its secrets, only for comparison with other texts."""
    return "".join(
        piece.written if isinstance(piece, Kept) else escaped(piece.value if isinstance(piece, Secret) else piece)
        for piece in text
    )


def escaped(text: str) -> str:
    """Escape plain text, so that Hearth reads no reference in it."""
    return text.replace("${", "$${")


# --- secrets in texts


def shapes(value: str) -> list[str]:
    """Return the parts of a value that look like secrets."""
    return [value[start:end] for start, end, _ in secret_patterns.spans(value)]


def named(name: str, text: Text) -> Text:
    """Return the value of a variable with its secrets separated."""
    value = plain(text)
    return (
        (Secret(value, name),) if value is not None and secret_patterns.is_secret(name, value) else _split(text, name)
    )


def header(name: str, text: Text) -> Text:
    """Return the value of an HTTP header with its secrets separated; the first word of `Bearer xyz` stays."""
    value = plain(text)
    if value is not None and secret_patterns.is_secret(name, value):
        hint = "token" if name.lower() == "authorization" else name
        scheme = _SCHEME.fullmatch(value)
        return (scheme[1], Secret(scheme[2], hint)) if scheme else (Secret(value, hint),)
    return _split(text, name)


def arguments(texts: Sequence[Text]) -> list[Text]:
    """Return arguments with their secrets separated.

    Secrets are `x` in `--token x`, `--token=x`, `TOKEN=x`, `Authorization: x` and `-k x`, and text that looks like a
    token.
    """
    hidden = []
    option = ""
    for text in texts:
        value = plain(text)
        hidden.append(_split(text, option.lstrip("-") or "token") if value is None else _argument(value, option))
        is_option = value is not None and value.startswith("-") and "=" not in value
        option = str(value) if is_option else ""
    return hidden


def _argument(value: str, option: str) -> Text:
    is_value = bool(option) and not value.startswith("-")
    if is_value and (meant := secret_patterns.of_short_option(option, value)):
        return (Secret(value, meant),)
    option = option.lstrip("-")
    if is_value and secret_patterns.is_secret(option, value):
        return (Secret(value, option),)
    if found := _HEADER.fullmatch(value):
        return (found[1], *header(found[1].rstrip(": "), (found[2],)))
    name, sign, rest = value.partition("=")
    if sign and re.fullmatch(r"[\w-]+", name) and secret_patterns.is_secret(name.lstrip("-"), rest):
        return (name + sign, Secret(rest, name.lstrip("-")))
    return _split((value,), option or "token")


def url(text: Text) -> Text:
    """Return an address with its secrets separated: a password, secret parameters, a token in the path."""
    return _split(text, "url-token")


def _split(text: Text, hint: str) -> Text:
    """Return the text with the parts that look like secrets separated; pieces that are not plain text stay."""
    value = "".join(piece if isinstance(piece, str) else _MARK for piece in text)
    others = (piece for piece in text if not isinstance(piece, str))
    pieces: list[str | Secret | Kept] = []
    at = 0
    for start, end, name in secret_patterns.spans(value):
        if start >= at and _MARK not in value[start:end]:
            pieces += [*_unmarked(value[at:start], others), Secret(value[start:end], name or hint)]
            at = end
    return tuple(piece for piece in (*pieces, *_unmarked(value[at:], others)) if piece != "")


def _unmarked(value: str, others: Iterator[Secret | Kept]) -> Iterator[str | Secret | Kept]:
    first, *rest = value.split(_MARK)
    yield first
    for part in rest:
        yield next(others, _MARK)
        yield part
