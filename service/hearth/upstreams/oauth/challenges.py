"""What the WWW-Authenticate of a refusal says (RFC 9110 11.6.1, RFC 6750 3, RFC 9728 5.1). Pure."""

import re
from typing import NamedTuple

# Longer than any server's; what is beyond is not looked at.
HEADER_LIMIT_CHARACTERS = 8192

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER = re.compile(rf'({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))')
_WORD = re.compile(rf"({_TOKEN})")
_QUOTED = re.compile(r"\\(.)")
# RFC 6749 3.3: everything visible but quotes and backslashes.
_SCOPE = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")


class Challenge(NamedTuple):
    """What a server wants. `schemes` are in lower case; the rest is of the first `Bearer`."""

    schemes: frozenset[str] = frozenset()
    resource_metadata: str | None = None
    scopes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def is_for_tokens(self) -> bool:
        """Whether a token may be what it wants: it says so, or does not say anything."""
        return not self.schemes or "bearer" in self.schemes


def parse(header: str | None) -> Challenge:
    """What the header says, as far as it can be understood; several may have been joined by commas."""
    schemes: set[str] = set()
    bearer: dict[str, str] = {}
    current: dict[str, str] = {}
    text, position = (header or "")[:HEADER_LIMIT_CHARACTERS], 0
    while position < len(text):
        if found := _PARAMETER.match(text, position):
            name, quoted, plain = found.groups()
            current.setdefault(name.lower(), plain if quoted is None else _QUOTED.sub(r"\1", quoted))
        elif found := _WORD.match(text, position):
            scheme = found[1].lower()
            current = bearer if scheme == "bearer" and scheme not in schemes else {}
            schemes.add(scheme)
        position = found.end() if found else position + 1
    return Challenge(
        frozenset(schemes), bearer.get("resource_metadata") or None, scopes(bearer.get("scope")), bearer.get("error")
    )


def scopes(text: object) -> tuple[str, ...]:
    """The scopes in a text, each once, in its order; none where it is no such text."""
    if not isinstance(text, str):
        return ()
    return tuple(dict.fromkeys(word for word in text.split() if _SCOPE.fullmatch(word)))
