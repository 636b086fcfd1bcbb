"""Listing of the tools of some servers for people: all of them, or those that match a question, best first.

Pure: catalogs in, a document out. The daemon makes it from its known catalogs, the command line from cached ones.
"""

from collections.abc import Iterable

from hearth.mcp import catalog
from hearth.mcp.catalog import TOOLS, ServerCatalog
from hearth.mcp.search.tool_index import Tool, ToolIndex
from hearth.wire import json

# Names of the document's members, for readers in other modules.
FOUND = "tools"
FITTING = "fitting"
UNKNOWN = "unknown"


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
