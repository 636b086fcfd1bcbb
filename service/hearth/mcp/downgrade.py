"""Downgrade of results and definitions of newer revisions of MCP for older clients.

| item                               | not before                  | becomes                                   |
| ---------------------------------- | --------------------------- | ----------------------------------------- |
| audio                              | 2025-03-26                  | text that says what is missing            |
| resource_link                      | 2025-06-18                  | text with its title and URI               |
| structuredContent and outputSchema | 2025-06-18; legacy: objects | dropped; JSON as text if there is no text |
| inputSchema of JSON Schema 2020-12 | modern: any keyword         | root and properties as legacy schemas ask |

Unknown members stay: no revision forbids them. A strict client rejects a whole list for one definition, and a whole
result for one block; this module prevents that. Questions of servers to clients are rewritten by
`questions`. Revisions are dates, so they compare as text.
"""

from collections.abc import Callable

from hearth.errors import MessageError
from hearth.mcp import versions
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

AUDIO_SINCE = "2025-03-26"
LINKS_SINCE = STRUCTURED_SINCE = "2025-06-18"
# From this revision on, the results of all revisions of an era are alike.
RESULTS_ALIKE_SINCE = "2025-06-18"

_OBJECT = b'"object"'
# A boolean is a schema, too; these objects mean the same.
_SCHEMAS = {b"true": b"{}", b"false": b'{"not":{}}'}


def content(raw: RawBytes, version: str) -> RawBytes:
    """Return an array of content blocks for that revision; the very same object if nothing changes."""
    if version >= LINKS_SINCE or not _mentions(raw, b"resource_link", b"audio"):
        return raw
    return _each(raw, lambda item: block(item, version))


def block(raw: RawBytes, version: str) -> RawBytes:
    """Return one content block of a result or a prompt for that revision."""
    fields = values.members(raw)
    kind = values.text(fields.get("type"))
    if kind == "audio" and version < AUDIO_SINCE:
        mime = values.text(fields.get("mimeType")) or "unknown type"
        return _text_block(f"[audio ({mime}) that this client's revision of MCP cannot take]", fields)
    if kind == "resource_link" and version < LINKS_SINCE:
        return _text_block(_link_text(fields), fields)
    return raw


def _link_text(fields: json.Fields) -> str:
    uri = values.text(fields.get("uri")) or ""
    title = values.text(fields.get("title")) or values.text(fields.get("name"))
    described = values.text(fields.get("description"))
    return (f"{title}: {uri}" if title else uri) + (f"\n{described}" if described else "")


def _text_block(text: str, origin: json.Fields) -> bytes:
    fields: Members = {"type": b'"text"', "text": json.dumps(text)}
    if "annotations" in origin:
        fields["annotations"] = origin["annotations"]
    return json.join(fields)


def call_result(fields: Members, version: str) -> Members:
    """Return the result of `tools/call` for a legacy client of that revision. Every revision requires `content`."""
    lowered = {**fields}
    blocks = lowered["content"] = content(lowered.get("content", b"[]"), version)
    structured = lowered.get("structuredContent")
    if structured is None or (version >= STRUCTURED_SINCE and values.is_object(structured)):
        return lowered
    del lowered["structuredContent"]
    if bytes(structured) != b"null" and not _has_text(blocks):
        text = _text_block(bytes(structured).decode("utf-8", "replace"), {})
        lowered["content"] = values.array([*values.elements(blocks), text])
    return lowered


def _has_text(blocks: RawBytes) -> bool:
    try:
        found = values.elements(blocks)
    except MessageError:
        return True  # nothing that could be added to
    return any(values.text(values.members(item).get("type")) == "text" for item in found)


def prompt_result(fields: Members, version: str) -> Members:
    """Return the result of `prompts/get` for a legacy client of that revision."""
    messages = fields.get("messages")
    if messages is None or version >= LINKS_SINCE or not _mentions(messages, b"resource_link", b"audio"):
        return fields
    return {**fields, "messages": _each(messages, lambda message: _with_content(message, version))}


def _with_content(message: RawBytes, version: str) -> RawBytes:
    fields: Members = {**values.members(message)}
    if "content" not in fields:
        return message
    return json.join({**fields, "content": block(fields["content"], version)})


def tool(definition: json.Fields, era: str, version: str) -> Members:
    """Return a tool's definition for a client of that revision."""
    lowered: Members = {**definition}
    if era == versions.MODERN:
        lowered.pop("execution", None)  # tasks as 2025-11-25 had them
        return lowered
    lowered["inputSchema"] = _object_schema(lowered.get("inputSchema", b"{}"))
    output = lowered.get("outputSchema")
    if output is None:
        return lowered
    if version < STRUCTURED_SINCE or values.text(values.members(output).get("type")) != "object":
        # A client that knows the schema refuses a result without structured content, which is dropped as well.
        del lowered["outputSchema"]
    else:
        lowered["outputSchema"] = _object_schema(output)
    return lowered


def _object_schema(raw: RawBytes) -> RawBytes:
    """Return a schema as legacy revisions require it: of an object whose properties are described by objects."""
    schema: Members = {**values.members(raw)}
    changes: Members = {}
    if values.text(schema.get("type")) != "object":
        changes["type"] = _OBJECT
    properties = values.members(schema.get("properties"))
    if "properties" in schema and not all(map(values.is_object, properties.values())):
        changes["properties"] = json.join({key: _schema_object(value) for key, value in properties.items()})
    elif "properties" in schema and not values.is_object(schema["properties"]):
        changes["properties"] = b"{}"
    return json.join({**schema, **changes}) if changes else raw


def _schema_object(raw: RawBytes) -> RawBytes:
    return raw if values.is_object(raw) else _SCHEMAS.get(bytes(raw).strip(), b"{}")


def _tool_list(fields: Members, version: str) -> Members:
    tools = fields.get("tools")
    if tools is None:
        return fields
    return {**fields, "tools": _each(tools, lambda raw: json.join(tool(values.members(raw), versions.LEGACY, version)))}


_RESULTS: dict[str, Callable[[Members, str], Members]] = {
    "tools/call": call_result,
    "prompts/get": prompt_result,
    "tools/list": _tool_list,
}
_WORDS = {
    "tools/call": (b"resource_link", b"audio", b"structuredContent"),
    "prompts/get": (b"resource_link", b"audio"),
    "tools/list": (b"Schema",),
}


def result(method: str, fields: Members, version: str) -> Members:
    """Return the fields of a result for a legacy client of that revision."""
    lower = _RESULTS.get(method)
    return lower(fields, version) if lower else fields


def concerns(method: str, raw: RawBytes, version: str) -> bool:
    """Tell cheaply whether a legacy server's result has to be examined for a client of that revision."""
    return version < RESULTS_ALIKE_SINCE and method in _WORDS and _mentions(raw, *_WORDS[method])


def _mentions(raw: RawBytes, *words: bytes) -> bool:
    """Tell whether one of the words may occur: a word may also be written with escapes, which begin with `\\u00`."""
    data = bytes(raw)
    return any(word in data for word in words) or b"\\u00" in data


def _each(raw: RawBytes, change: Callable[[RawBytes], RawBytes]) -> RawBytes:
    try:
        items = values.elements(raw)
    except MessageError:
        return raw
    return values.array([change(item) for item in items])
