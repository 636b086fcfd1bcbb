"""A tool's definition: kept as raw bytes, understood only as far as Hearth decides by it."""

from hearth.mcp import eras, names
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes


class Tool:
    """One tool of one server. `safe_to_repeat` says whether a call may run twice without harm."""

    __slots__ = ("definition", "exposed", "name", "safe_to_repeat", "server", "wire_name")

    def __init__(self, server: str, definition: json.Fields) -> None:
        name = values.text(definition.get("name"))
        if name is None:
            raise ValueError("a tool without a name")
        self.server = server
        self.name = name
        self.wire_name = definition["name"]
        self.exposed = names.exposed(server, name)
        self.definition = definition
        self.safe_to_repeat = _safe_to_repeat(definition)

    def render(self, era: str, exposed: bool) -> bytes:
        """The definition as a client of that era may see it, under its exposed or its own name."""
        definition: Members = {**self.definition}
        if exposed:
            definition["name"] = json.dumps(self.exposed)
        if era == eras.LEGACY and "outputSchema" in definition and not _describes_object(definition["outputSchema"]):
            # Legacy schemas allow objects only, and one array makes the TypeScript 1.x client reject the whole list.
            del definition["outputSchema"]
        return json.join(definition)


def _safe_to_repeat(definition: json.Fields) -> bool:
    annotations = values.members(definition.get("annotations"))
    return values.is_true(annotations.get("readOnlyHint")) or values.is_true(annotations.get("idempotentHint"))


def _describes_object(schema: RawBytes) -> bool:
    return values.text(values.members(schema).get("type")) == "object"


def _needs_tasks(definition: json.Fields) -> bool:
    # 2025-11-25: such a tool must be refused when it is called plainly, and Hearth offers no tasks.
    execution = values.members(definition.get("execution"))
    return values.text(execution.get("taskSupport")) == "required"


def from_page(server: str, result: RawBytes) -> tuple[list[Tool], bytes | None]:
    """The tools of one page of `tools/list`, and the raw cursor of the next page.

    Definitions without a name, and tools that only run as tasks, are left out. Raises MessageError for a result
    that is no list of tools.
    """
    fields = json.split(result)
    tools = []
    for raw in values.elements(fields.get("tools")):
        definition = values.members(raw)
        if values.text(definition.get("name")) is not None and not _needs_tasks(definition):
            tools.append(Tool(server, definition))
    cursor = fields.get("nextCursor")
    return tools, bytes(cursor) if cursor is not None and bytes(cursor) != b"null" else None
