"""What a server of a revision offers: tools, a resource with a template, a prompt, completions. Pure."""

from typing import Any

from support.conformance import revisions

Message = dict[str, Any]

# Lists come in pages, so that whoever reads only the first is found out.
PAGE_TOOLS = 7

# Each tool and the first revision that can have it.
TOOLS = {
    **dict.fromkeys(("echo", "meta", "failing", "broken", "progress", "waiting", "cancelled", "touch", "log"), ""),
    **dict.fromkeys(("sample", "roots"), ""),
    "audio": revisions.AUDIO_SINCE,
    **dict.fromkeys(("elicit", "interview"), revisions.ELICITATION_SINCE),
    "link": revisions.LINKS_SINCE,
    "structured": revisions.STRUCTURED_SINCE,
    "elicit_url": revisions.URL_ELICITATION_SINCE,
    "array": revisions.MODERN,
}
# Both are objects for legacy revisions, which know no other structure.
STRUCTURE = {"city": "Oslo", "degrees": [1, 2.5, -3]}
ARRAY = [1, {"two": 2}]
OUTPUT_SCHEMAS: dict[str, Message] = {
    "structured": {"type": "object", "properties": {"city": {"type": "string"}, "degrees": {"type": "array"}}},
    "array": {"type": "array"},
}
NAMES = ("Ada", "Alan", "Barbara", "Grace")
RESOURCE_IDS = ("one", "two")


def tool_names(revision: str) -> list[str]:
    """The tools of a server of that revision."""
    return [name for name, since in TOOLS.items() if revision >= since]


def tools(revision: str) -> list[Message]:
    """Their definitions."""
    return [_tool(name) for name in tool_names(revision)]


def page(revision: str, cursor: str) -> Message | None:
    """The result of `tools/list` from that cursor on; None for a cursor that was never given."""
    found = tools(revision)
    begin = int(cursor) if cursor.isdigit() else len(found)
    if begin >= len(found):
        return None
    end = begin + PAGE_TOOLS
    return {"tools": found[begin:end], **({"nextCursor": str(end)} if end < len(found) else {})}


def _tool(name: str) -> Message:
    schema = {"outputSchema": OUTPUT_SCHEMAS[name]} if name in OUTPUT_SCHEMAS else {}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": {"type": "object"}, **schema}


def uri(revision: str, id: str) -> str:
    """A resource's address, which no server of another revision has."""
    return f"test://{revision}/{id}"


def resources(revision: str) -> list[Message]:
    """Only the first: the second is there, but known by the template alone."""
    return [{"uri": uri(revision, "one"), "name": "one", "mimeType": "text/plain"}]


def templates(revision: str) -> list[Message]:
    return [{"uriTemplate": uri(revision, "{id}"), "name": "any", "mimeType": "text/plain"}]


def prompts(revision: str) -> list[Message]:
    argument = {"name": "name", "description": "Who is greeted.", "required": True}
    return [{"name": "greet", "description": f"Greets in the words of {revision}.", "arguments": [argument]}]


def prompt(revision: str, name: str, arguments: Message) -> Message | None:
    """The prompt's messages; None when there is no such prompt, or its argument is missing."""
    if name != "greet" or not isinstance(arguments.get("name"), str):
        return None
    words = {"type": "text", "text": f"Greet {arguments['name']}, {revision}!"}
    return {"description": "A greeting.", "messages": [{"role": "user", "content": words}]}


def completion(revision: str, ref: Message, argument: Message) -> Message | None:
    """Values for the prompt's argument or the template's; None for a reference to nothing."""
    known: dict[tuple[str, object], tuple[str, tuple[str, ...]]] = {
        ("ref/prompt", "greet"): ("name", NAMES),
        ("ref/resource", uri(revision, "{id}")): ("id", RESOURCE_IDS),
    }
    found = known.get((ref["type"], ref.get("name", ref.get("uri"))))
    if found is None or found[0] != argument["name"]:
        return None
    values = [value for value in found[1] if value.startswith(argument["value"])]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


def capabilities(revision: str) -> Message:
    """What the server declares."""
    more: Message = {"completions": {}} if revision >= revisions.COMPLETIONS_SINCE else {}
    return {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "logging": {},
        **more,
    }


def server_info(revision: str) -> Message:
    assert revision in revisions.REVISIONS
    return {"name": f"{'modern' if revisions.is_modern(revision) else 'legacy'} server", "version": revision}
