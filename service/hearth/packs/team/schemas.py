"""Parts of schemas and results that the tools of the pack `team` share."""

from datetime import UTC, datetime
from typing import Any

from hearth.masking import UNSAFE, escaped
from hearth.packs.agents.model import TITLE_CHARACTERS
from hearth.packs.agents.notices import outbox
from hearth.packs.agents.tools.schemas import ATTENTION

TEXT = {"type": "string"}
TEXT_OR_NULL = {"type": ["string", "null"]}
COUNT = {"type": "integer"}
FLAG = {"type": "boolean"}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
READS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
WRITES = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}


def result(**properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has all of these members."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def with_attention(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the result of a tool that blocks, which may say what else waits for its caller."""
    return {**schema, "properties": {**schema["properties"], "attention": ATTENTION}}


def arguments(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of arguments, some of which are required."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def text(description: str, most: int, least: int = 0) -> dict[str, Any]:
    """Return the schema of a text."""
    found = {"type": "string", "maxLength": most, "description": description}
    return {**found, "minLength": least} if least else found


def timestamp(seconds: float) -> str:
    """Return a time as text."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def untrusted(content: str) -> str:
    """Return another agent's text with its control and bidirectional characters escaped."""
    return escaped(content)


def one_line(title: str | None) -> str | None:
    """Return another agent's title on one short line."""
    return " ".join(UNSAFE.sub(" ", title).split())[:TITLE_CHARACTERS] or None if title else None


def escaped_title(title: str | None) -> str | None:
    """Return another agent's title as notices have it: what it says must not look like Hearth's own words."""
    line = one_line(title)
    return outbox.one_line(line) if line else None
