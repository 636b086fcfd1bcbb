"""Globs of a policy: over pairs of server and tool, and over captured values. Text in, a truth value out.

    *     any characters, but neither `/` nor the `__` between server and name
    **    any characters
    ?     one character
    !X    excludes X from the list; an exclusion wins over every inclusion, wherever it stands

A name is matched as the pair (server, own name), not as the joined text: a tool `b__c` of server `a` is told from
the tool `c` of server `a__b` wherever a pattern has one `__`. Patterns that give access are read strictly, patterns
that take it away (exclusions from `tools`, rules that deny or ask) generously: their `*` does not stop at a `__` inside
a name, and values are compared without case, because some file systems ignore it.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

# Stands between server and name in the text that is matched; `matches` refuses names that contain it.
_BOUNDARY = "\0"
# Each wildcard before the end of a pattern multiplies the time of a failing match by the length of the text.
INNER_WILDCARDS_LIMIT = 2
# Texts beyond this are not compared. Clients take tools' names of 64 characters; addresses of resources are longer.
GLOB_CHARACTERS_LIMIT = 2048
# Longer than any name that a client accepts (64 characters) or any path (4096 bytes).
PATTERN_CHARACTERS_LIMIT = 1024

_PIECES = re.compile(r"\*\*|\*|\?|__+|[^*?_]+|_")
_LITERAL = re.compile(r"[^*?]*")
# Enough to tell the tools of most servers apart; each length in an index costs a look for every name.
_INDEXED_CHARACTERS = 40


def fault(pattern: str) -> str | None:
    """Return a phrase about an unusable pattern, to follow its text; None if it is usable."""
    bare = pattern.removeprefix("!")
    if not bare:
        return "is empty"
    if len(bare) > PATTERN_CHARACTERS_LIMIT:
        return f"has over {PATTERN_CHARACTERS_LIMIT} characters"
    if not bare.isprintable():
        return "has characters in it that cannot be seen"
    if "***" in bare:
        return "has three `*` in a row; write `*` or `**`"
    if len(re.findall(r"\*\*?(?!$)", bare)) > INNER_WILDCARDS_LIMIT:
        return f"has over {INNER_WILDCARDS_LIMIT} wildcards before its end"
    return None


def is_usable(server: str | None, name: str) -> bool:
    """Tell whether a name can be compared with patterns. If not, no pattern matches it, not even one that denies."""
    server = server or ""
    return len(server) + len(name) < GLOB_CHARACTERS_LIMIT and _BOUNDARY not in name and _BOUNDARY not in server


class PatternSet:
    """Compiled list of globs over pairs of server and name. Immutable."""

    __slots__ = ("_also", "_excluded", "_generous", "_included", "texts")

    def __init__(self, texts: Iterable[str], generous: bool = False, also: "PatternSet | None" = None) -> None:
        self.texts = tuple(texts)
        self._generous = generous
        included = [text for text in self.texts if not text.startswith("!")]
        excluded = [text[1:] for text in self.texts if text.startswith("!")]
        self._included = _union(_of_names(text, generous) for text in included)
        # An exclusion does the opposite of its list: in a rule that denies, it gives access.
        self._excluded = _union(_of_names(text, not generous) for text in excluded)
        # Every set of this chain must match: that is how a project narrows.
        self._also = also

    def matches(self, server: str | None, name: str) -> bool:
        """Tell whether the tool is in the set. `server` is None for a client's own tool."""
        if not is_usable(server, name):
            return False
        text = name if server is None else f"{server}{_BOUNDARY}{name}"
        if self._included is None or not self._included.fullmatch(text):
            return False
        if self._excluded is not None and self._excluded.fullmatch(text):
            return False
        return self._also is None or self._also.matches(server, name)

    @property
    def literals(self) -> list[str]:
        """Texts before the first wildcard of each inclusion: a joined name in the set begins with one of them."""
        return [_LITERAL.match(text)[0] for text in self.texts if not text.startswith("!")]  # type: ignore[index]

    def narrowed(self, other: "PatternSet") -> "PatternSet":
        """Return the set of the names that are in both."""
        also = other if self._also is None else self._also.narrowed(other)
        return PatternSet(self.texts, self._generous, also)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PatternSet):
            return NotImplemented
        return (self.texts, self._generous, self._also) == (other.texts, other._generous, other._also)

    def __hash__(self) -> int:
        return hash(self.texts)

    def __repr__(self) -> str:
        return f"PatternSet({list(self.texts)!r})"


def _union(expressions: Iterable[str]) -> re.Pattern[str] | None:
    found = list(expressions)
    return re.compile("|".join(f"(?:{expression})" for expression in found), re.DOTALL) if found else None


def _of_names(pattern: str, generous: bool) -> str:
    star = r"[^/\0]*" if generous else r"(?:(?!__)[^/\0])*"
    wildcards = {"**": ".*", "*": star, "?": r"[^/\0]"}
    return "".join(
        wildcards.get(piece) or (_underscores(len(piece)) if piece.startswith("__") else re.escape(piece))
        for piece in _PIECES.findall(pattern)
    )


def _underscores(count: int) -> str:
    """Return the expression for a run of underscores, any two of which may be the boundary of a pair."""
    splits = ["_" * before + r"\0" + "_" * (count - 2 - before) for before in range(count - 1)]
    return f"(?:{'|'.join(['_' * count, *splits])})"


class PatternIndex:
    """Index of many sets by the literal beginnings of their patterns: finds the few that a name may be in."""

    def __init__(self, sets: Sequence[PatternSet]) -> None:
        self._by_literal: dict[str, list[int]] = {}
        for number, each in enumerate(sets):
            for literal in each.literals:
                self._by_literal.setdefault(literal[:_INDEXED_CHARACTERS], []).append(number)
        self._lengths = sorted({len(literal) for literal in self._by_literal})

    def candidates(self, server: str | None, name: str) -> list[int]:
        """Return the positions of all sets that may match, in their order. Others do not."""
        # Wherever the boundary lies within underscores, a pattern has its literal text for both.
        text = name if server is None else f"{server}__{name}"
        found: set[int] = set()
        for length in self._lengths:
            if length > len(text):
                break
            found.update(self._by_literal.get(text[:length], ()))
        return sorted(found)


EVERYTHING = PatternSet(("**",))
NOTHING = PatternSet(())


class ValueGlob(NamedTuple):
    """Glob over a captured value. `generous`: it takes access away. `is_path`: `./` means the workspace."""

    text: str
    generous: bool = False
    is_path: bool = False

    def matches(self, value: str) -> bool:
        """Tell whether the captured value matches."""
        if self.generous and not value.isascii():
            value = unicodedata.normalize("NFKC", value)
        return _of_values(self).fullmatch(value) is not None


@lru_cache(maxsize=4096)
def _of_values(glob: ValueGlob) -> re.Pattern[str]:
    pattern, tail = glob.text, ""
    if glob.is_path:
        pattern = pattern.removeprefix("./")
        if pattern.endswith("/**"):
            # The folder itself, and everything in it.
            pattern, tail = pattern.removesuffix("/**"), "(?:/.*)?"
    wildcards = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.findall(r"\*\*|\*|\?|[^*?]+", pattern)
    expression = "".join(wildcards.get(piece) or re.escape(piece) for piece in pieces) + tail
    return re.compile(expression, re.DOTALL | (re.IGNORECASE if glob.generous else 0))
