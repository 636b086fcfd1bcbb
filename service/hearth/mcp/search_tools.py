"""Search tools, which stand for all others where a client searches: their definitions, arguments and answers.

Answers are bounded in characters, because they go into a model's context. Omitted entries are counted, with advice on
how to get them. Pure: knows neither servers nor sessions.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hearth.errors import HearthError, MessageError
from hearth.mcp import translate, versions
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

FIND = "find_tools"
DESCRIBE = "describe_tools"
CALL_READ = "call_tool_read"
CALL_WRITE = "call_tool_write"
CALL_DESTRUCTIVE = "call_tool_destructive"
# Calls any tool. Not listed: it can have no annotation, and clients that allow by annotation would always ask.
CALL = "call_tool"
CALLERS = frozenset({CALL_READ, CALL_WRITE, CALL_DESTRUCTIVE, CALL})
NAMES = CALLERS | {FIND, DESCRIBE}

# A model reads the first few; more would cost it more than another question.
FOUND_BY_DEFAULT = 8
FOUND_AT_MOST = 50
# Characters of a question or a name that an answer repeats.
ECHO_CHARACTERS = 100


def _caller(name: str, title: str, effect: str, **annotations: bool) -> dict[str, object]:
    return {
        "name": name,
        "title": title,
        "description": (
            f"Call a tool that {effect}, by the name that {FIND} returned and with arguments as its schema asks for"
            f" them. {FIND} says for which tools this is the one to use. The answer is the tool's own."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": f"Name of the tool, exactly as {FIND} returned it"},
                "arguments": {
                    "type": "object",
                    "description": "The tool's own arguments; leave it out if it has none",
                    "additionalProperties": True,
                },
            },
            "required": ["name"],
        },
        "annotations": {**annotations, "openWorldHint": True},
    }


_DEFINITIONS: list[dict[str, object]] = [
    {
        "name": FIND,
        "title": "Find tools",
        "description": (
            "Search all tools that are available here, by what you want to do. Most tools are not in your list of"
            " tools: look here before you conclude that something cannot be done. Say it in plain words, such as"
            ' "open a pull request" or "list unread mail"; a server\'s name among them prefers its tools. Returns the'
            " best matches first, each with its name, what it is for and its required arguments. An empty query lists"
            f" the servers. Each match says which tool calls it: {CALL_READ}, {CALL_WRITE} or {CALL_DESTRUCTIVE}."
            f" {DESCRIBE} shows full schemas."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What you want to do, in a few words"},
                "limit": {
                    "type": "integer",
                    "description": "How many tools to return at most",
                    "default": FOUND_BY_DEFAULT,
                    "minimum": 1,
                    "maximum": FOUND_AT_MOST,
                },
            },
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": DESCRIBE,
        "title": "Describe tools",
        "description": (
            f"Show the full definitions of tools that {FIND} returned: descriptions and the JSON schemas of their"
            " arguments. Do this before a call whose arguments you are not sure of."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "names": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "description": f"Names of tools, exactly as {FIND} returned them",
                }
            },
            "required": ["names"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    _caller(CALL_READ, "Call a tool that only reads", "only reads", readOnlyHint=True),
    _caller(
        CALL_WRITE,
        "Call a tool that adds or changes things",
        "adds or changes things and destroys nothing",
        readOnlyHint=False,
        destructiveHint=False,
    ),
    _caller(
        CALL_DESTRUCTIVE,
        "Call a tool that may destroy things",
        "may delete or overwrite things, or does not say what it does",
        readOnlyHint=False,
        destructiveHint=True,
    ),
]
# The list as `tools/list` has it: the same for clients of every revision.
LIST = json.dumps(_DEFINITIONS)

INSTRUCTIONS = (
    f"Most tools are not in your list of tools. Find them with {FIND} by what you want to do, look at their schemas"
    f" with {DESCRIBE} where needed, and call them with {CALL_READ}, {CALL_WRITE} or {CALL_DESTRUCTIVE}:"
    f" {FIND} says which."
)


class ToolFailure(HearthError):
    """Error of a search tool that could not do its work: a result that says so, which models see and learn from.

    A protocol error would be about the request, which was correct: the tool exists.
    """

    rpc_code = versions.INVALID_PARAMS

    def __init__(self, sentence: str, era: str) -> None:
        super().__init__(sentence)
        self._era = era

    @property
    def result(self) -> bytes:
        """Return the result that the client gets."""
        return text_result([str(self)], self._era, is_error=True)


def text_result(texts: Sequence[str], era: str, is_error: bool = False) -> bytes:
    """Return the result of a call for a client of that era."""
    fields: dict[str, object] = {"content": [{"type": "text", "text": text} for text in texts]}
    if is_error:
        fields["isError"] = True
    if era == versions.MODERN:
        fields["resultType"] = translate.COMPLETE
        fields["_meta"] = {versions.SERVER_INFO_KEY: json.Raw(translate.SERVER_INFO)}
    return json.dumps(fields)


# --- arguments


def question(arguments: json.Fields, era: str) -> tuple[str, int]:
    """Return the question for `find_tools`, and how many tools it may return. Raises ToolFailure."""
    _check_names(FIND, arguments, ("query", "limit"), era)
    query = values.text(arguments.get("query"))
    if query is None:
        raise ToolFailure(f'{FIND} needs "query": what you want to do, as a text', era)
    limit = values.integer(arguments.get("limit", b"%d" % FOUND_BY_DEFAULT))
    if limit is None or limit < 1:
        raise ToolFailure(f'"limit" must be a whole number from 1 to {FOUND_AT_MOST}', era)
    return query, min(limit, FOUND_AT_MOST)


def wanted_names(arguments: json.Fields, era: str) -> list[str]:
    """Return the names for `describe_tools`, each once. Raises ToolFailure."""
    _check_names(DESCRIBE, arguments, ("names",), era)
    raw = arguments.get("names")
    single = values.text(raw)
    try:
        # A single name without the array around it is accepted.
        names = [values.text(item) for item in values.elements(raw)] if single is None else [single]
    except MessageError:
        names = []
    found = [name for name in names if name is not None]
    if not found or len(found) < len(names):
        raise ToolFailure(f'{DESCRIBE} needs "names": a list of names that {FIND} returned', era)
    return list(dict.fromkeys(found))


def inner_call(caller: str, params: json.Fields, era: str) -> tuple[str, json.Fields]:
    """Return the tool to call through a search tool, and the params of a direct call of it. Raises ToolFailure."""
    arguments = given(params, caller, era)
    name = values.text(arguments.get("name"))
    if name is None:
        raise ToolFailure(f'{caller} needs "name": a name that {FIND} returned', era)
    others = [key for key in arguments if key not in ("name", "arguments")]
    if others:
        raise ToolFailure(f'put {listed(others)} into "arguments": that is where the arguments of {name} go', era)
    inner = {**params, "name": arguments["name"]}
    del inner["arguments"]
    raw = bytes(arguments.get("arguments", b"null"))
    if raw.lstrip()[:1] == b"{":
        inner["arguments"] = arguments["arguments"]
    elif raw != b"null":
        raise ToolFailure(f'"arguments" must be a JSON object with the arguments of {name}', era)
    return name, inner


def caller_of(definition: Mapping[str, RawBytes]) -> str:
    """Choose the search tool that calls a tool, by its annotations; by default a tool may be destructive."""
    annotations = values.members(definition.get("annotations"))
    if values.is_true(annotations.get("readOnlyHint")):
        return CALL_READ
    is_additive = bytes(annotations.get("destructiveHint", b"true")) == b"false"
    return CALL_WRITE if is_additive else CALL_DESTRUCTIVE


def check_caller(caller: str, name: str, definition: Mapping[str, RawBytes], era: str) -> None:
    """Raise ToolFailure if a tool must be called through another search tool than `caller`."""
    right = caller_of(definition)
    if caller not in (right, CALL):
        raise ToolFailure(f"{caller} does not fit {name!r} by its annotations: call it with {right}", era)


def given(params: json.Fields, tool: str, era: str) -> json.Fields:
    """Return the arguments of a call of a search tool. Raises ToolFailure."""
    raw = params.get("arguments")
    try:
        return {} if raw is None else json.split(raw)
    except MessageError:
        raise ToolFailure(f"the arguments of {tool} must be a JSON object", era) from None


def _check_names(tool: str, arguments: json.Fields, known: Sequence[str], era: str) -> None:
    others = [key for key in arguments if key not in known]
    if others:
        raise ToolFailure(f"{tool} takes {listed(known)}, not {listed(others)}", era)


def listed(names: Sequence[str]) -> str:
    """Format names for an answer."""
    return shortened(", ".join(f'"{name}"' for name in names), ECHO_CHARACTERS)


def shortened(text: str, characters: int) -> str:
    """Return the text, cut to its beginning if it is too long."""
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


# --- answers

# About two thousand tokens: fifty tools with one line each still fit.
FIND_CHARACTERS = 8_000
# About six thousand tokens: a dozen usual schemas, and below the limit of clients (25,000 tokens in Claude Code).
DESCRIBE_CHARACTERS = 24_000
# For each tool that was found: its purpose, and its required arguments.
LINE_CHARACTERS = 160
REQUIRED_CHARACTERS = 240
NEAREST_NAMES = 5
# Member of a described tool that names the search tool to call it with; no revision of MCP has one of this name.
CALL_WITH = "callWith"
# Names below this similarity only confuse.
LIKENESS = 0.6


class ToolEntry(NamedTuple):
    """Tool that was found: its name as the client calls it, and its definition."""

    name: str
    definition: Mapping[str, RawBytes]


def found_text(query: str, found: Sequence[ToolEntry], fitting: int, silent: Sequence[str]) -> str:
    """Return the answer of `find_tools`. `fitting`: how many match at all; `silent`: servers that may have more."""
    asked = shortened(" ".join(query[: 2 * ECHO_CHARACTERS].split()), ECHO_CHARACTERS)
    tail = _silence(silent)
    if not found:
        return f'No tool fits "{asked}". Try other words for it, or an empty query for a list of the servers.{tail}'
    lines: list[str] = []
    room = FIND_CHARACTERS - ECHO_CHARACTERS * 4 - len(tail)
    for entry in found:
        line = entry_line(entry)
        if len(line) + 1 > room:
            break
        lines.append(line)
        room -= len(line) + 1
    left = fitting - len(lines)
    more = f" {left} more fit less well: ask in other words, or with a higher limit." if left else ""
    head = f'{len(lines)} of {fitting} tools that fit "{asked}", best first:'
    foot = f"Call each with the tool that is named behind it; {DESCRIBE} shows full schemas.{more}{tail}"
    return "\n".join([head, *lines, foot])


def entry_line(entry: ToolEntry) -> str:
    """Return one tool in a few words: its purpose, and its required arguments."""
    described = values.text(entry.definition.get("description")) or values.text(entry.definition.get("title")) or ""
    line = f"- {entry.name}"
    text = shortened(" ".join(described.split()), LINE_CHARACTERS)
    if text:
        line += f": {text}"
    needed = shortened(", ".join(required(entry.definition.get("inputSchema"))), REQUIRED_CHARACTERS)
    needs = f"required: {needed}" if needed else "no required arguments"
    return f"{line} ({needs}; {caller_of(entry.definition)})"


def required(schema: RawBytes | None) -> list[str]:
    """Return the required arguments of a tool, with their types where they are plain."""
    fields = values.members(schema)
    properties = values.members(fields.get("properties"))
    try:
        names = [values.text(item) for item in values.elements(fields.get("required"))]
    except MessageError:
        return []
    kinds = {name: values.text(values.members(properties.get(name)).get("type")) for name in names if name is not None}
    return [f"{name}: {kind}" if kind else name for name, kind in kinds.items()]


def servers_text(counts: Mapping[str, int], silent: Sequence[str]) -> str:
    """Return the answer to an empty question: the servers and how many tools each has."""
    total = sum(counts.values())
    named = shortened(", ".join(f"{name} ({count})" for name, count in counts.items()), FIND_CHARACTERS // 2)
    return f"{total} tools of {len(counts)} servers: {named}. Ask for what you want to do.{_silence(silent)}"


def _silence(silent: Sequence[str]) -> str:
    if not silent:
        return ""
    names = shortened(", ".join(silent), REQUIRED_CHARACTERS)
    return f" Not known yet, because their servers have not answered: the tools of {names}. Ask again later."


def described_texts(entries: Iterable[tuple[str, Members | None]], nearest: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the answer of `describe_tools`, a text for each name; None stands for a tool that does not exist."""
    texts: list[str] = []
    room = DESCRIBE_CHARACTERS
    left: list[str] = []
    for name, definition in entries:
        text = unknown_text(name, nearest.get(name, ())) if definition is None else _described(definition, room)
        if text is None or len(text) > room:
            left.append(name)
            continue
        texts.append(text)
        room -= len(text)
    if left and not texts and len(left) == 1:
        return [f"The definition of {shortened(left[0], ECHO_CHARACTERS)} is too large to be shown here."]
    if left:
        texts.append(
            f"Left out, because the answer would be too long: {listed(left)}. Ask for them again, by themselves."
        )
    return texts


def _described(definition: Members, room: int) -> str | None:
    """Return a definition in that many characters: whole, or without what a call does not need, or as an outline."""
    whole = json.join(definition)
    if len(whole) <= room:
        return whole.decode("utf-8", "replace")
    if room < DESCRIBE_CHARACTERS:
        # Alone it may fit.
        return None
    needed = {
        key: value for key, value in definition.items() if key in ("name", "description", "inputSchema", CALL_WITH)
    }
    text = json.join(needed).decode("utf-8", "replace")
    return text if len(text) <= room else _outline(definition)


def _outline(definition: Members) -> str:
    schema = values.members(definition.get("inputSchema"))
    described = values.text(definition.get("description")) or ""
    arguments = shortened(", ".join(values.members(schema.get("properties"))), DESCRIBE_CHARACTERS // 4)
    needed = shortened(", ".join(required(definition.get("inputSchema"))), DESCRIBE_CHARACTERS // 4)
    size = len(json.join(definition))
    return (
        f"{values.text(definition.get('name'))}: {shortened(described, DESCRIBE_CHARACTERS // 4)}\n"
        f"Its definition has {size} bytes, too many to be shown. Arguments: {arguments}. Required: {needed or 'none'}."
        f" Call it with {values.text(definition.get(CALL_WITH))}."
    )


def unknown_text(name: str, nearest: Sequence[str]) -> str:
    """Return the answer for a tool that does not exist."""
    names = shortened(", ".join(nearest), ECHO_CHARACTERS * NEAREST_NAMES)
    hint = f"; did you mean {names}?" if names else "."
    return f"There is no tool {shortened(name, ECHO_CHARACTERS)!r}{hint} {FIND} searches all tools."


def nearest_names(name: str, known: Mapping[str, str]) -> list[str]:
    """Return the most similar names. `known`: names as clients use them, with their servers' own, which also count."""
    import difflib

    wanted = name[:ECHO_CHARACTERS].lower()
    own = [exposed for exposed, bare in known.items() if bare.lower() == wanted]
    by_letters = {exposed.lower(): exposed for exposed in known}
    like = difflib.get_close_matches(wanted, by_letters, n=NEAREST_NAMES, cutoff=LIKENESS)
    return list(dict.fromkeys([*own, *(by_letters[letters] for letters in like)]))[:NEAREST_NAMES]
