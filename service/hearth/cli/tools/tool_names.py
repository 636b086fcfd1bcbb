"""Completion of tools and their arguments, from what is kept of servers; wakes nothing and asks nobody."""

import json
from typing import Any

import click
from click.shell_completion import CompletionItem

from hearth.cli.servers import server_names


def complete_tool(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tools of the server that was typed."""
    return [
        CompletionItem(name, help=_first_line(tool))
        for name, tool in known_tools(ctx).items()
        if name.startswith(incomplete)
    ]


def complete_argument(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the arguments of the typed tool that are not there yet; behind `NAME=`, the values that it may have."""
    schema = known_tools(ctx).get(ctx.params.get("tool") or "", {}).get("inputSchema")
    found = schema.get("properties") if isinstance(schema, dict) else None
    properties: dict[str, Any] = found if isinstance(found, dict) else {}
    name, is_value, _ = incomplete.partition("=")
    if is_value:
        words = [f"{name}={value}" for value in _values(properties.get(name))]
    else:
        typed = {str(word).partition("=")[0] for word in ctx.params.get("arguments") or ()}
        words = [f"{name}=" for name in properties if name not in typed]
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _values(schema: object) -> list[str]:
    """Return the values that a schema lists, as they are typed."""
    if not isinstance(schema, dict):
        return []
    listed = schema.get("enum")
    if isinstance(listed, list):
        return [value for value in listed if isinstance(value, str)]
    return ["true", "false"] if schema.get("type") == "boolean" else []


def known_tools(ctx: click.Context) -> dict[str, dict[str, Any]]:
    """The definitions by name; none where nothing is kept."""
    places = server_names.places_of(ctx)
    spec = server_names.configured(places).get(ctx.params.get("server") or "") if places else None
    if places is None or spec is None:
        return {}
    from hearth.mcp.catalog import TOOLS
    from hearth.ops import tool_catalog

    ((_, offering),) = tool_catalog.offerings(places, [spec])
    items = offering.lists[TOOLS] if offering else {}
    return {
        name: {key: json.loads(bytes(value)) for key, value in item.definition.items()} for name, item in items.items()
    }


def _first_line(tool: dict[str, Any]) -> str | None:
    description = str(tool.get("description") or "").strip()
    return description.splitlines()[0] if description else None
