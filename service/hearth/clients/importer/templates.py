"""A value on its way from a client's file into Hearth's config: plain text, secrets, and references that stay. Pure.

"Bearer ", Secret("ghp_…")     is written  Bearer ${keyring:github-token}
Kept("${HOME:-/root}"), "/x"   is written  ${HOME:-/root}/x
"echo ${x}"                    is written  echo $${x}, as the client would not have touched it
"""

from collections.abc import Callable
from typing import NamedTuple


class Secret(NamedTuple):
    """What must not be in a file; `hint` is what the client calls it."""

    value: str
    hint: str

    def __repr__(self) -> str:
        return f"Secret({self.hint!r})"


class Kept(NamedTuple):
    """A reference of Hearth's own, as it is to be written."""

    written: str


Text = tuple[str | Secret | Kept, ...]


def plain(text: Text) -> str | None:
    """The whole text, if it is nothing but that."""
    return "".join(map(str, text)) if all(isinstance(piece, str) for piece in text) else None


def written(text: Text, place: Callable[[Secret], str]) -> str:
    """The text as it stands in the config; `place` gives the name under which a secret is stored."""
    return "".join(_written(piece, place) for piece in text)


def _written(piece: str | Secret | Kept, place: Callable[[Secret], str]) -> str:
    if isinstance(piece, Kept):
        return piece.written
    return f"${{keyring:{place(piece)}}}" if isinstance(piece, Secret) else escaped(piece)


def revealed(text: Text) -> str:
    """The text with its secrets in it, for comparing it with others, and for nothing else."""
    return "".join(
        piece.written if isinstance(piece, Kept) else escaped(piece.value if isinstance(piece, Secret) else piece)
        for piece in text
    )


def escaped(text: str) -> str:
    """Plain text that Hearth takes for no reference."""
    return text.replace("${", "$${")
