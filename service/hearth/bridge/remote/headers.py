"""What goes into the headers of a request, by its era (2025-11-25 and 2026-07-28, Streamable HTTP). Pure."""

from hearth.bridge.remote.messages import Message, is_text
from hearth.bridge.replies import Literal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hearth.mcp.header_annotations import Index

JSON, STREAM = "application/json", "text/event-stream"
SESSION, VERSION, LAST_EVENT = "Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID"
POSTING = {"Accept": f"{JSON}, {STREAM}", "Content-Type": JSON, "Accept-Encoding": "identity"}
LISTENING = {"Accept": STREAM, "Accept-Encoding": "identity"}

# What `Mcp-Name` repeats.
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_SENTINEL_START, _SENTINEL_END = "=?base64?", "?="
# So many tools with annotated arguments are remembered; a server with more has its answer -32020.
_TOOLS_LIMIT = 10_000


def encode(value: str) -> str:
    """The value as a header may carry it: as it is, or as Base64 between markers."""
    is_plain = bool(value) and all(" " <= character <= "~" or character == "\t" for character in value)
    looks_encoded = value.startswith(_SENTINEL_START) and value.endswith(_SENTINEL_END)
    if is_plain and value.strip(" \t") == value and not looks_encoded:
        return value
    from binascii import b2a_base64

    # Lone surrogates are known to no header, and to hardly any other reader of JSON.
    readable = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return f"{_SENTINEL_START}{b2a_base64(readable.encode(), newline=False).decode()}{_SENTINEL_END}"


class Repeated:
    """The headers of modern requests, with what is known of the server's tools."""

    def __init__(self) -> None:
        self._indexes: dict[str, Index] = {}

    def of(self, message: Message, version: str) -> dict[str, str]:
        """What a request says again in its headers."""
        found = {VERSION: encode(version), "Mcp-Method": encode(message.method or "")}
        name = message.params.get(_NAMED_BY.get(message.method or "", ""))
        if is_text(name):
            found["Mcp-Name"] = encode(name)
            if message.method == "tools/call" and name in self._indexes:
                found.update(_values(self._indexes[name], message.params.get("arguments")))
        return found

    def learn(self, answer: Message) -> list[str]:
        """Take a page of tools; what is wrong with its annotations, in sentences."""
        if not self._indexes and b"x-mcp-header" not in answer.raw and b"\\u00" not in answer.raw:
            return []
        from hearth.mcp import header_annotations

        problems = []
        tools = (answer.result or {}).get("tools")
        for tool in tools if isinstance(tools, list) else ():
            name = tool.get("name") if isinstance(tool, dict) else None
            if not is_text(name):
                continue
            self._indexes.pop(name, None)
            try:
                index = header_annotations.find(tool.get("inputSchema"))
            except header_annotations.InvalidAnnotation as exc:
                problems.append(f"the tool {name!r} asks for headers in a way that has no meaning: {exc}")
                continue
            if index and len(self._indexes) < _TOOLS_LIMIT:
                self._indexes[name] = index
        return problems


def _values(index: "Index", arguments: "Any") -> dict[str, str]:
    """The `Mcp-Param-*` headers of a call; what is absent, null or no single value has none."""
    from hearth.mcp import header_annotations

    found = {}
    for path, header in index.items():
        leaf = arguments
        for name in path:
            leaf = leaf.get(name) if isinstance(leaf, dict) else None
        if isinstance(leaf, bool):
            found[header] = "true" if leaf else "false"
        elif isinstance(leaf, Literal):
            found[header] = encode(header_annotations.written(str(leaf)))
        elif isinstance(leaf, str):
            found[header] = encode(leaf)
    return found
