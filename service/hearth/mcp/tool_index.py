"""Which tools a question is about: a full-text index of tools' definitions, in memory.

SQLite's FTS5 with the Porter stemmer ranks by BM25; what a tool is called counts most. Each word of a question is
looked up by itself, with the words that may stand for it, and the best of those counts: so a tool that has many of
the words in few places is before one that has one word in many. Knows definitions, no server and no session.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from hearth.errors import HearthError
from hearth.mcp.synonyms import SYNONYMS
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

# Weights of the columns, in their order. Chosen by tests/search/tuning.json.
_COLUMNS = {"words": 10.0, "title": 6.0, "description": 4.0, "arguments": 1.5, "details": 1.0, "server": 5.0}
# How much what stands for a word counts beside the word itself.
SYNONYM_WEIGHT = 0.6
PREFIX_WEIGHT = 0.4
# A question has a few words; what is longer is a document, of which the beginning says what is meant.
QUESTION_WORDS = 16
# Of a description: what a tool is for is said first, and manuals of many pages would drown it.
DESCRIPTION_CHARACTERS = 1000
# Of a schema: beyond it no agent looks, and reading it would take longer than all others together.
SCHEMA_BYTES = 64 * 1024
# Shorter beginnings of words are beginnings of everything.
PREFIX_CHARACTERS = 3

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Words that say nothing about what is wanted.
_EMPTY = frozenset(
    "a all am an and any are as at be by can could did do does for from had has have how i if in into is it its"
    " me my need of on onto or our please s should some that the their them there these this those to up us want was we"
    " were what when where which who why will with would you your".split()
)


class SearchUnavailable(HearthError):
    """The Python that runs Hearth cannot search."""


class Tool(NamedTuple):
    """One tool as it is searched for: the name that clients use, whose it is, and its own name and definition there."""

    exposed: str
    server: str
    name: str
    definition: Members


class _Schema(msgspec.Struct, gc=False):
    properties: dict[str, Any] = {}


_decode_schema = msgspec.json.Decoder(_Schema).decode


class ToolIndex:
    """An index of some tools. Made once; whatever changes needs another."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        """May take a tenth of a second of CPU for thousands of tools. Raises SearchUnavailable."""
        try:
            import sqlite3

            # Made in one thread and asked in another, never by two at once.
            self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
            columns = ", ".join(_COLUMNS)
            self._database.execute(
                f"CREATE VIRTUAL TABLE tools USING fts5({columns}, tokenize = 'porter unicode61', detail = full)"
            )
        except ImportError as exc:
            raise SearchUnavailable(f"tools cannot be searched: this Python has no sqlite3 ({exc})") from exc
        except sqlite3.Error as exc:
            raise SearchUnavailable(f"tools cannot be searched: this Python's SQLite has no FTS5 ({exc})") from exc
        self._names: list[str] = []
        self._by_name: dict[str, int] = {}
        rows = []
        for number, tool in enumerate(tools):
            self._names.append(tool.exposed)
            self._by_name[tool.exposed.lower()] = number
            rows.append((number, *_row(tool)))
        marks = ", ".join("?" * (len(_COLUMNS) + 1))
        self._database.execute("BEGIN")
        self._database.executemany(f"INSERT INTO tools(rowid, {columns}) VALUES ({marks})", rows)
        self._database.execute("COMMIT")
        weights = ", ".join(map(str, _COLUMNS.values()))
        self._select = f"SELECT rowid AS tool, ? AS word, ? * bm25(tools, {weights}) AS score FROM tools WHERE tools MATCH ?"

    def __len__(self) -> int:
        return len(self._names)

    def find(self, question: str, limit: int) -> tuple[list[str], int]:
        """The names of the tools that fit best, best first, and how many fit at all."""
        words = question_words(question)
        terms = [term for number, word in enumerate(words) for term in _terms(number, word)]
        found: list[int] = []
        if terms:
            # The best per word, then all words together; equal ones stay in the order of the lists.
            parts = " UNION ALL ".join([self._select] * len(terms))
            best = f"SELECT tool, word, min(score) AS score FROM ({parts}) GROUP BY tool, word"
            ranked = f"SELECT tool FROM ({best}) GROUP BY tool ORDER BY sum(score) * count(*), tool"
            values = [value for term in terms for value in term]
            found = [tool for (tool,) in self._database.execute(ranked, values)]
        exact = self._by_name.get(question.strip().lower())
        if exact is not None:
            found = [exact, *(tool for tool in found if tool != exact)]
        return [self._names[tool] for tool in found[:limit]], len(found)


def question_words(question: str) -> list[str]:
    """The words of a question that say what is wanted; all of them, if none does."""
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(_HUMP.sub(" ", question))))
    return ([word for word in words if word not in _EMPTY] or words)[:QUESTION_WORDS]


def _terms(number: int, word: str) -> Iterable[tuple[int, float, str]]:
    """What is looked up for a word: its number, how much it counts, and an expression of FTS5."""
    yield number, 1.0, f'"{word}"'
    others = SYNONYMS.get(word)
    if others:
        yield number, SYNONYM_WEIGHT, " OR ".join(f'"{other}"' for other in others)
    if len(word) >= PREFIX_CHARACTERS:
        yield number, PREFIX_WEIGHT, f'"{word}"*'


def _row(tool: Tool) -> tuple[str, ...]:
    definition = tool.definition
    title = values.text(definition.get("title")) or values.text(
        values.members(definition.get("annotations")).get("title")
    )
    description = values.text(definition.get("description")) or ""
    names, details = arguments(definition.get("inputSchema"))
    return (
        spelled(tool.name),
        title or "",
        description[:DESCRIPTION_CHARACTERS],
        spelled(" ".join(names)),
        " ".join(details),
        spelled(tool.server),
    )


def spelled(name: str) -> str:
    """A name with the words in it apart: `getPullRequest`; `_` and `-` part words anyway."""
    return _HUMP.sub(" ", name)


def arguments(schema: RawBytes | None) -> tuple[list[str], list[str]]:
    """The names of a tool's arguments, and their descriptions."""
    if schema is None or len(bytes(schema)) > SCHEMA_BYTES:
        return [], []
    try:
        properties = _decode_schema(schema).properties
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        properties = {name: json.loads(value) for name, value in _properties(schema).items()}
    described = (value.get("description") for value in properties.values() if isinstance(value, dict))
    return list(properties), [text for text in described if isinstance(text, str)]


def _properties(schema: RawBytes) -> json.Fields:
    return values.members(values.members(schema).get("properties"))


