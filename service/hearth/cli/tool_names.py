"""Completion of tools and their arguments, from what is kept of servers; wakes nothing and asks nobody."""

import json
from typing import Any

import click
from click.shell_completion import CompletionItem

from hearth.cli import server_names


def complete_tool(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tools of the server that was typed."""
    return [
        CompletionItem(name, help=_first_line(tool))
        for name, tool in known_tools(ctx).items()
        if name.startswith(incomplete)
    ]


def complete_argument(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the arguments of the tool that was typed."""
    schema = known_tools(ctx).get(ctx.params.get("tool") or "", {}).get("inputSchema")
    names = schema.get("properties") if isinstance(schema, dict) else None
    return [CompletionItem(f"{name}=") for name in names or () if name.startswith(incomplete)]


def known_tools(ctx: click.Context) -> dict[str, dict[str, Any]]:
    """The definitions by name; none where nothing is kept."""
    places = server_names.places_of(ctx)
    spec = server_names.configured(places).get(ctx.params.get("server") or "") if places else None
    if places is None or spec is None:
        return {}
    from hearth.cli import kept_tools
    from hearth.mcp.offering import TOOLS

    ((_, offering),) = kept_tools.offerings(places, [spec])
    items = offering.lists[TOOLS] if offering else {}
    return {
        name: {key: json.loads(bytes(value)) for key, value in item.definition.items()} for name, item in items.items()
    }


def _first_line(tool: dict[str, Any]) -> str | None:
    description = str(tool.get("description") or "").strip()
    return description.splitlines()[0] if description else None
