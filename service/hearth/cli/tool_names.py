"""Completion of tools and their arguments, from what is kept of servers; wakes nothing and asks nobody."""

import json
import os
from typing import Any

import click
from click.shell_completion import CompletionItem

from hearth.cli import server_names
from hearth.errors import HearthError


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
    from hearth.mcp.offering import TOOLS
    from hearth.upstreams.kept import Kept
    from hearth.upstreams.learned import Learned

    try:
        memory = Kept(places.catalogue, Learned(places.learned).fingerprints, os.environ).recall(spec)
    except HearthError:
        return {}
    tools: dict[str, dict[str, Any]] = {}
    for offering in memory.offerings.values():
        for name, item in offering.lists[TOOLS].items():
            tools.setdefault(name, {key: json.loads(bytes(value)) for key, value in item.definition.items()})
    return tools


def _first_line(tool: dict[str, Any]) -> str | None:
    description = str(tool.get("description") or "").strip()
    return description.splitlines()[0] if description else None
