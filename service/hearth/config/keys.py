"""Every key that a configuration may have, and the kind of its value. The defaults are in the model."""

from hearth.config import values
from hearth.config.model import MIB
from hearth.config.values import Kind

# Where a limit below one ordinary message would refuse all work, and one above it would be none.
_SMALLEST_LIMIT_BYTES = 4096
_LARGEST_LIMIT_BYTES = 2**31
# Zero would spin.
_SHORTEST_INTERVAL_SECONDS = 0.01

SERVERS = "mcpServers"
# VS Code's own name for it, in its mcp.json.
SERVERS_IN_VSCODE = "servers"

# In the file as written here; `owner.approve` is `approve` in the table `owner`.
SETTINGS: dict[str, Kind] = {
    "idle_timeout": values.seconds(),
    "drain_timeout": values.seconds(),
    "list_timeout": values.seconds(),
    "eof_timeout": values.seconds(),
    "heartbeat_interval": values.seconds(_SHORTEST_INTERVAL_SECONDS),
    "message_limit": values.size(_SMALLEST_LIMIT_BYTES, _LARGEST_LIMIT_BYTES),
    "outbound_limit": values.size(_SMALLEST_LIMIT_BYTES, _LARGEST_LIMIT_BYTES),
    "upstream_queue_limit": values.size(_SMALLEST_LIMIT_BYTES, _LARGEST_LIMIT_BYTES),
    "max_connections": values.count(1, MIB),
    "allowed_uids": values.ids(),
    "allowed_gids": values.ids(),
    "log_level": values.choice("debug", "info", "warning", "error"),
    "owner.approve": values.choice("always", "never"),
}

SERVER_KEYS: dict[str, Kind] = {
    "command": values.text(),
    "args": values.texts(),
    "env": values.text_map("a variable", "="),
    "cwd": values.text(),
    "url": values.text(),
    "headers": values.text_map("a header", ":\r\n "),
    "disabled": values.flag(),
    "era": values.choice("auto", "legacy", "modern"),
    "start_timeout": values.seconds(_SHORTEST_INTERVAL_SECONDS),
}

# Other clients' names for the same thing, in JSON only: Gemini's, Windsurf's.
URL_ALIASES = ("httpUrl", "serverUrl")
# Other clients' keys that change nothing which Hearth does: not worth a warning.
SILENT_CLIENT_KEYS = frozenset({"type", "transport", "name", "description", "icon", "gallery"})


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return "HEARTH_" + key.upper().replace(".", "_")


def flag(key: str) -> str:
    """The command line's flag of a setting."""
    return "--" + key.replace("_", "-").replace(".", "-")
