"""What `hearth connect --print` prints: the entry of a bridge, as most clients' configs have it."""

from collections.abc import Sequence

from hearth.clients.commands import bridge_command, bridge_file, printed_command
from hearth.paths import Places

__all__ = ["bridge_command", "bridge_file", "client_config"]


def client_config(places: Places, servers: Sequence[str], name: str, extra: Sequence[str]) -> dict[str, object]:
    """The `mcpServers` object: one entry for everything, or one for each server that is named."""
    offers = {server: ["--server", server, *extra] for server in servers} or {name: list(extra)}
    entries: dict[str, object] = {}
    for key, options in offers.items():
        command, *arguments = printed_command(places, options)
        entries[key] = {"command": command, "args": arguments}
    return {"mcpServers": entries}
