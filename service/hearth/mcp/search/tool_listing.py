"""The tools of some servers for a person to look at: all of them, or those that fit a question, best first.

Pure: what servers offer in, a document out. The daemon makes it of what it knows, the command line of what is kept.
"""

from collections.abc import Iterable

from hearth.mcp import catalog
from hearth.mcp.catalog import TOOLS, ServerCatalog
from hearth.mcp.search.tool_index import Tool, ToolIndex
from hearth.wire import json

# The names of the document's members, for who reads it elsewhere.
FOUND = "tools"
FITTING = "fitting"
UNKNOWN = "unknown"


def merged(offerings: Iterable[tuple[str, ServerCatalog]]) -> list[Tool]:
    """The tools of servers under the names that clients see who are offered all of them, in the order of the config."""
    found: dict[str, Tool] = {}
    for server, offered in offerings:
        for item in offered.lists[TOOLS].values():
            name = catalog.exposed_name(item, found)
            found[name] = Tool(name, server, item.name, item.definition)
    return list(found.values())


def document(
    offerings: Iterable[tuple[str, ServerCatalog | None]], query: str = "", server: str | None = None, limit: int = 0
) -> bytes:
    """What `hearth tools --json` is made of. None stands for a server of which nothing is known; 0 for no limit.

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
        {FOUND: b"[%b]" % b",".join(map(_entry, found)), FITTING: json.dumps(fitting), UNKNOWN: json.dumps(unknown)}
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
