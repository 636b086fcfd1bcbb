"""Full-text index of tools' definitions, in memory: finds the tools that a question is about.

SQLite's FTS5 with the Porter stemmer ranks by BM25; the name of a tool counts most. Each word of a question is looked
up by itself, together with its synonyms, and the best of these counts: a tool that has many of the words in few places
ranks before one that has one word in many. Knows definitions and catalogs, no server and no session.
"""

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hearth.errors import HearthError, MessageError
from hearth.mcp import catalog
from hearth.mcp.catalog import TOOLS, ServerCatalog
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

if TYPE_CHECKING:
    import sqlite3


# Weights of the columns, in their order. Chosen by tests/search/tuning.json.
_COLUMNS = {"words": 5.0, "title": 4.0, "description": 3.0, "arguments": 1.0, "details": 0.5, "server": 3.0}
# Weight of a synonym relative to the word itself, and of a word that begins with it.
SYNONYM_WEIGHT = 0.7
PREFIX_WEIGHT = 0.4
# A tool that has more of a question's words ranks before one that has fewer of them more often.
COVERAGE_EXPONENT = 0.5
# Scores of words are cached: the same few words occur in most questions, and most tools have them. About 5 MB at most.
REMEMBERED_SCORES = 50_000
# A question has a few words; anything longer is a document, whose beginning says what is meant.
QUESTION_WORDS = 16
QUESTION_CHARACTERS = 1000
# Characters of a description: the purpose of a tool is said first, and manuals of many pages would drown it.
DESCRIPTION_CHARACTERS = 1000
# Bytes of a schema: no agent reads beyond it, and parsing it would take longer than all others together.
SCHEMA_BYTES = 64 * 1024
# Shorter prefixes match nearly everything.
PREFIX_CHARACTERS = 3

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Stop words: they say nothing about what is wanted.
_EMPTY = """
    a all am an and any are as at be by can could did do does for from had has have how i if in into is it its me my
    need of on onto or our please s should some that the their them there these this those to up us want was we were
    what when where which who why will with would you your
"""
_EMPTY_WORDS = frozenset(_EMPTY.split())
# Synonyms: a word of a question, and the words that a definition may use in its place. One way only: a question about a
# "ticket" is about an "issue", while one about an "issue" is not only about a "ticket". Words with `_` between them are
# a phrase. Knows English and the trade, no server.
_SYNONYMS = """
    add: create append insert | alert: alarm | alerts: alarms | answer: reply | apply: update | appointment: event |
    assign: update | bill: invoice | browse: navigate | bucket: s3 | buckets: s3 | bug: issue |
    build: pipeline workflow | cache: redis | calendar: events | call: invoke | captions: transcript |
    change: update modify edit | changed: diff changes | changes: diff | chargeback: dispute | chargebacks: disputes |
    chat: message channel | check: status | checkout: payment switch | ci: pipeline workflow actions jobs |
    client: customer | clone: copy fork | close: update | commit: record | compose: draft create | container: docker |
    containers: docker | copy: fork | cost: costs usage | cpu: resource usage | crash: error issue |
    credentials: secret key | customer: client | database: sql table schema | delete: remove | deploy: apply install |
    destroy: delete remove | dir: directory | directions: route | document: file page | download: pull fetch save get |
    dropdown: select option | email: mail message | emails: mail messages | error: issue exception |
    errors: issues exceptions | execute: run invoke | file: create | fill: type | find: search | fix: update |
    folder: directory | folders: directories | forget: delete | frequent: often | get: read retrieve fetch |
    google: web_search search | grep: search | healthy: health | history: log commits | image: picture screenshot |
    images: pictures | insert: write | inspect: get describe details | instance: server | internet: web |
    k8s: kubernetes | kill: stop delete | know: search | link: url | log: logs | look: search get | ls: list |
    machine: instance | machines: instances | mail: email | mails: emails | make: create | meeting: event |
    metrics: usage statistics | modify: update edit | money: payment balance | move: transition | mr: merge_request |
    nearby: places | new: create | note: page | notes: page | open: create navigate | people: users | person: user |
    photo: image screenshot | picture: image screenshot | pictures: images | post: send create | pr: pull_request |
    press: click | print: get show | prs: pull_requests | publish: create | put: write set upload | read: get |
    reboot: restart | record: log | remember: create add store | remove: delete | rename: move | repo: repository |
    repos: repositories | reschedule: update | restart: rerun | revert: reset | route: directions | run: execute |
    save: write create | schedule: create | screenshot: snapshot | script: code | see: get show list | send: post |
    set: update | sheet: spreadsheet | shelve: stash | show: get list view | sms: message | snippet: gist |
    sort: filter | sql: query | stage: add | start: run | store: save set | subtitles: transcript captions |
    summary: overview | switch: select checkout | tag: label | talk: message | task: issue | tasks: issues |
    terminate: stop | ticket: issue | tickets: issues | translate: convert | ttl: expire expiry |
    uncommitted: unstaged staged status | undo: reset revert | unsaved: uncommitted | upload: put | view: get show |
    visit: navigate | vm: instance | vulnerabilities: alerts security | vulnerability: alert security |
    webpage: page url | website: url page | wiki: page | write: create send
"""
SYNONYMS = {
    word.strip(): tuple(other.replace("_", " ") for other in others.split())
    for word, _, others in (entry.partition(":") for entry in _SYNONYMS.split("|"))
}


class SearchUnavailable(HearthError):
    """Error for a Python without the SQLite full-text search that the index needs."""


class Tool(NamedTuple):
    """Tool to index: the name that clients use, its server, and its own name and definition there."""

    exposed: str
    server: str
    name: str
    definition: Members


class _Schema(msgspec.Struct, gc=False):
    properties: dict[str, Any] = {}


_decode_schema = msgspec.json.Decoder(_Schema).decode


class ToolIndex:
    """Index of some tools. Built once; a change needs a new index."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Build the index: up to a tenth of a second of CPU for thousands of tools. Raises SearchUnavailable."""
        self._database = _empty_database()
        self._names: list[str] = []
        self._by_name: dict[str, int] = {}
        rows: list[tuple[int, tuple[str, ...]]] = []
        for number, tool in enumerate(tools):
            self._names.append(tool.exposed)
            self._by_name.setdefault(tool.exposed.lower(), number)
            rows.append((number, _row(tool)))
        try:
            self._insert(rows)
        except UnicodeEncodeError:
            # Lone surrogates, which JSON can express and SQLite cannot.
            self._insert([(number, tuple(map(_encodable, row))) for number, row in rows])
        weights = ", ".join(map(str, _COLUMNS.values()))
        self._select = f"SELECT rowid, -bm25(tools, {weights}) FROM tools WHERE tools MATCH ?"
        self._remembered: dict[str, dict[int, float]] = {}
        self._room = REMEMBERED_SCORES

    def _insert(self, rows: list[tuple[int, tuple[str, ...]]]) -> None:
        marks = ", ".join("?" * (len(_COLUMNS) + 1))
        statement = f"INSERT INTO tools(rowid, {', '.join(_COLUMNS)}) VALUES ({marks})"
        with self._database:
            self._database.executemany(statement, ((number, *row) for number, row in rows))

    def __del__(self) -> None:
        # Python 3.13 warns about a database that was not closed.
        if hasattr(self, "_database"):
            self._database.close()

    def __len__(self) -> int:
        return len(self._names)

    def find(self, question: str, limit: int) -> tuple[list[str], int]:
        """Return the names of the best matching tools, best first, and how many match at all."""
        total: dict[int, float] = {}
        words: dict[int, int] = {}
        for word in question_words(question):
            for tool, score in self._best(word).items():
                total[tool] = total.get(tool, 0.0) + score
                words[tool] = words.get(tool, 0) + 1
        for tool, count in words.items():
            total[tool] *= count**COVERAGE_EXPONENT
        exact = self._by_name.get(question[:QUESTION_CHARACTERS].strip().lower())
        if exact is not None:
            total[exact] = math.inf
        # Only tools that can be among the first, which may be thousands fewer; equal scores in the order of the lists.
        least = sorted(total.values(), reverse=True)[min(limit, len(total)) - 1] if total else 0.0
        best = [tool for tool, score in total.items() if score >= least]
        found = sorted(best, key=lambda tool: (-total[tool], tool))[:limit]
        return [self._names[tool] for tool in found], len(total)

    def _best(self, word: str) -> dict[int, float]:
        """Return the score of each tool for one word or its synonyms."""
        best = self._scores(f'"{word}"')
        for other in SYNONYMS.get(word, ()):
            best = _better(best, self._scores(f'"{other}"'), SYNONYM_WEIGHT)
        if not best and len(word) >= PREFIX_CHARACTERS:
            best = _better(best, self._scores(f'"{word}"*'), PREFIX_WEIGHT)
        return best

    def _scores(self, expression: str) -> dict[int, float]:
        scores = self._remembered.get(expression)
        if scores is None:
            scores = dict(self._database.execute(self._select, (expression,)))
            if self._room < len(scores) + 1:
                self._remembered.clear()
                self._room = REMEMBERED_SCORES
            self._remembered[expression] = scores
            # A word without matches takes space, too.
            self._room -= len(scores) + 1
        return scores


def _empty_database() -> "sqlite3.Connection":
    # Imported here: most sessions never search.
    try:
        import sqlite3
    except ImportError as exc:
        raise SearchUnavailable(f"tools cannot be searched: this Python has no sqlite3 ({exc})") from exc
    # Created in one thread and used in another, never by two at once.
    database = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        database.execute(f"CREATE VIRTUAL TABLE tools USING fts5({', '.join(_COLUMNS)}, tokenize = 'porter unicode61')")
    except sqlite3.Error as exc:
        database.close()
        raise SearchUnavailable(f"tools cannot be searched: this Python's SQLite has no FTS5 ({exc})") from exc
    return database


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _better(best: dict[int, float], others: dict[int, float], weight: float) -> dict[int, float]:
    found = dict(best)
    for tool, score in others.items():
        if score * weight > found.get(tool, 0.0):
            found[tool] = score * weight
    return found


def question_words(question: str) -> list[str]:
    """Return the words of a question that say what is wanted; all words if none does."""
    beginning = _HUMP.sub(" ", question[:QUESTION_CHARACTERS])
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(beginning)))
    return ([word for word in words if word not in _EMPTY_WORDS] or words)[:QUESTION_WORDS]


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
    """Return a name with its words separated, as in `getPullRequest`; `_` and `-` separate words anyway."""
    return _HUMP.sub(" ", name)


def arguments(schema: RawBytes | None) -> tuple[list[str], list[str]]:
    """Return the names of a tool's arguments, and their descriptions."""
    if schema is None or len(bytes(schema)) > SCHEMA_BYTES:
        return [], []
    try:
        properties = _decode_schema(schema).properties
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        properties = _properties(schema)
    described = (value.get("description") for value in properties.values() if isinstance(value, dict))
    return list(properties), [text for text in described if isinstance(text, str)]


def _properties(schema: RawBytes) -> dict[str, Any]:
    """Parse the properties of a schema one by one, for schemas that msgspec cannot parse as a whole."""
    found = {}
    for name, raw in values.members(values.members(schema).get("properties")).items():
        try:
            found[name] = json.loads(raw)
        except MessageError:
            found[name] = None
    return found


# --- listing for people: made by the daemon from its known catalogs, by the command line from cached ones


def merged(offerings: Iterable[tuple[str, ServerCatalog]]) -> list[Tool]:
    """Return the tools under the names for clients that are offered all of these servers, in the config's order."""
    found: dict[str, Tool] = {}
    for server, offered in offerings:
        for item in offered.lists[TOOLS].values():
            name = catalog.exposed_name(item, found)
            found[name] = Tool(name, server, item.name, item.definition)
    return list(found.values())


def document(
    offerings: Iterable[tuple[str, ServerCatalog | None]], query: str = "", server: str | None = None, limit: int = 0
) -> bytes:
    """Return the document of `hearth tools --json`. None stands for a server whose catalog is unknown; 0 for no limit.

    May take as long as an index of all tools. Raises SearchUnavailable.
    """
    offerings = list(offerings)
    tools = [tool for tool in merged((name, each) for name, each in offerings if each) if server in (None, tool.server)]
    if query.strip():
        by_name = {tool.exposed: tool for tool in tools}
        names, fitting = ToolIndex(tools).find(query, limit or len(tools))
        found = [by_name[name] for name in names]
    else:
        found, fitting = tools[: limit or None], len(tools)
    unknown = [name for name, each in offerings if each is None and server in (None, name)]
    return json.join(
        {"tools": values.array(map(_entry, found)), "fitting": json.dumps(fitting), "unknown": json.dumps(unknown)}
    )


def _entry(tool: Tool) -> bytes:
    return json.join(
        {
            "name": json.dumps(tool.exposed),
            "server": json.dumps(tool.server),
            "tool": json.dumps(tool.name),
            "definition": json.join(tool.definition),
        }
    )
