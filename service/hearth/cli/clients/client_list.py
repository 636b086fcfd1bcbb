"""`hearth connect` without a client: which there are on this machine, and whether they are connected."""

from typing import Any

import click

from hearth.cli.clients import client_changes
from hearth.clients import discovery
from hearth.clients.discovery import ClientServer
from hearth.clients.table import Table
from hearth.errors import ConfigError
from hearth.output import documents, table, terminal


def show(as_json: bool) -> int:
    """Print them."""
    rows = [_row(each) for each in discovery.tables(discovery.here())]
    if as_json:
        documents.show(rows)
        return 0
    if not rows:
        click.echo("No MCP client was found on this machine. `hearth connect --print` prints what to give to any.")
        return 0
    cells = [[row["client"], row["scope"], row["path"], _state(row)] for row in rows]
    for line in table.columns(["CLIENT", "SCOPE", "FILE", "STATE"], cells, terminal.width()):
        click.echo(line)
    click.echo(
        "\n`hearth connect CLIENT` connects one, `hearth connect --all` every one; files of a project with --scope."
    )
    return 0


def _row(each: Table) -> dict[str, Any]:
    row: dict[str, Any] = {"client": each.client, "scope": each.scope, "path": each.path, "keys": list(each.keys)}
    try:
        found = discovery.read(each)
    except ConfigError as exc:
        return row | {"error": str(exc), "connected": [], "others": []}
    return row | {"error": None, "connected": _names(found, True), "others": _names(found, False)}


def _names(found: list[ClientServer], ours: bool) -> list[str]:
    return [entry.name for entry in found if (entry.bridge_to is not None) == ours]


def _state(row: dict[str, Any]) -> str:
    if row["error"]:
        return str(row["error"]).removeprefix(f"{row['path']}:").strip()
    connected, others = row["connected"], row["others"]
    if not connected:
        return f"not connected ({len(others)} of its own)" if others else "not connected"
    return f"connected: {client_changes.enumeration(connected)}" + (f" ({len(others)} of its own)" if others else "")
