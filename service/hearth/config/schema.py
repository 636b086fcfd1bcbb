"""Schema of a configuration: every key, the kind of its value, and the nearest known name.

The defaults are in the model.
"""

from collections.abc import Iterable

from hearth.config import value_kinds
from hearth.config.model import MIB, KeyPath, OAuthSpec, ProviderSpec
from hearth.config.value_kinds import ValueKind

# A limit below one ordinary message would refuse all work; a limit above 2 GiB would limit nothing.
_SMALLEST_LIMIT_BYTES = 4096
_LARGEST_LIMIT_BYTES = 2**31
# A frame has less than 2^28 bytes, its header included (docs/protocol.md).
_LARGEST_MESSAGE_BYTES = 255 * 1024 * 1024
# More calls at once than a machine has memory for; a larger number means that no limit was intended.
_MOST_AT_ONCE = 65536
# More messages than the daemon reads in a second; 0 means no limit.
_MOST_A_SECOND = 1_000_000
# More tools than any client accepts; `mode = "full"` turns search off.
_MOST_TOOLS = 1_000_000
# Agents are processes of some hundred MiB each.
_MOST_AGENTS = 10_000
# No interpreter starts in less than a few MiB; a number without its unit is refused, or it would kill every server.
_SMALLEST_MEMORY_BYTES = 4 * MIB
_LARGEST_MEMORY_BYTES = 2**50
# The kernel's own bound of cpu.weight, whose default is 100.
_LARGEST_CPU_WEIGHT = 10_000
# Zero would spin.
_SHORTEST_INTERVAL_SECONDS = 0.01

SERVERS = "mcpServers"
# VS Code's name for it, in its mcp.json.
SERVERS_IN_VSCODE = "servers"
PACKS_KEY = "packs"
# Packs by name, each with what it is for. `hearth.packs` has a module for each; a test holds the two equal.
PACKS = {
    "hearth": "lets agents look after the daemon: its status, its servers, their logs and restarts",
    "agents": "runs coding agents: create, prompt, wait, permissions, modes",
    "self-id": "lets agents name themselves and their branches",
    "team": "lets agents send messages, share tasks, file pull requests and ask the person",
}
# Settings in a table of their own are named by the table, a dot and the key.
TABLES = ("owner", "agents", "team")

TRANSPORTS = ("auto", "http", "sse")

SETTINGS: dict[str, ValueKind] = {
    "idle_timeout": value_kinds.seconds(),
    "drain_timeout": value_kinds.seconds(),
    "list_timeout": value_kinds.seconds(),
    "eof_timeout": value_kinds.seconds(),
    "question_timeout": value_kinds.seconds(_SHORTEST_INTERVAL_SECONDS),
    "parked_timeout": value_kinds.seconds(_SHORTEST_INTERVAL_SECONDS),
    "parked_limit": value_kinds.count(1, _MOST_AT_ONCE),
    "heartbeat_interval": value_kinds.seconds(_SHORTEST_INTERVAL_SECONDS),
    "message_limit": value_kinds.size(_SMALLEST_LIMIT_BYTES, _LARGEST_MESSAGE_BYTES),
    "outbound_limit": value_kinds.size(_SMALLEST_LIMIT_BYTES, _LARGEST_LIMIT_BYTES),
    "upstream_queue_limit": value_kinds.size(_SMALLEST_LIMIT_BYTES, _LARGEST_LIMIT_BYTES),
    "list_limit": value_kinds.size(_SMALLEST_LIMIT_BYTES, _LARGEST_LIMIT_BYTES),
    "list_entries": value_kinds.count(1, _MOST_TOOLS),
    "max_connections": value_kinds.count(1, MIB),
    "rate_limit": value_kinds.rate(_MOST_A_SECOND),
    "in_flight_limit": value_kinds.count(0, _MOST_AT_ONCE),
    "port_rate_limit": value_kinds.rate(_MOST_A_SECOND),
    "port_in_flight_limit": value_kinds.count(0, _MOST_AT_ONCE),
    "rate_burst": value_kinds.seconds(),
    "http_request_timeout": value_kinds.seconds(),
    "http_hosts": value_kinds.host_names,
    "http_origins": value_kinds.origins,
    "listen": value_kinds.endpoint,
    "socket_mode": value_kinds.choice("0600", "0660"),
    "allowed_uids": value_kinds.ids,
    "allowed_gids": value_kinds.ids,
    "mode": value_kinds.choice("full", "search", "auto"),
    "search_threshold": value_kinds.count(0, _MOST_TOOLS),
    "log_level": value_kinds.choice("debug", "info", "warning", "error"),
    "owner.approve": value_kinds.choice("always", "never"),
    "agents.default_provider": value_kinds.text_or_nothing,
    "agents.wait_timeout": value_kinds.seconds(_SHORTEST_INTERVAL_SECONDS),
    "agents.turn_timeout": value_kinds.seconds(_SHORTEST_INTERVAL_SECONDS),
    "agents.idle_close": value_kinds.seconds(),
    "agents.max_agents": value_kinds.count(1, _MOST_AGENTS),
    "agents.max_running": value_kinds.count(1, _MOST_AGENTS),
    "agents.max_depth": value_kinds.count(0, _MOST_AGENTS),
    "agents.timeline_limit": value_kinds.count(10, _MOST_TOOLS),
    "team.file_pr": value_kinds.words,
}
# Tables of named tables inside a table of settings: only a file can have them.
PROVIDERS = "agents.providers"
PROVIDER_KEYS: dict[str, ValueKind] = {
    "command": value_kinds.text,
    "args": value_kinds.texts,
    "env": value_kinds.text_map("a variable", "="),
    "title": value_kinds.text,
}
PROVIDER = value_kinds.table(PROVIDER_KEYS, ProviderSpec, needed=("command",))

# Settings that a running daemon keeps as they were when it started.
AT_START = frozenset({"listen", "socket_mode"})

OAUTH_KEYS: dict[str, ValueKind] = {
    "client_id": value_kinds.text,
    "client_secret": value_kinds.text,
    "client_metadata_url": value_kinds.web_address("https", needs_path=True),
    "issuer": value_kinds.web_address("https"),
    "scopes": value_kinds.texts,
    "redirect_uri": value_kinds.web_address("http", needs_path=True),
}

SERVER_KEYS: dict[str, ValueKind] = {
    "command": value_kinds.text,
    "args": value_kinds.texts,
    "env": value_kinds.text_map("a variable", "="),
    "cwd": value_kinds.text,
    "url": value_kinds.url,
    "headers": value_kinds.text_map("a header", ":\r\n "),
    "oauth": value_kinds.table(OAUTH_KEYS, OAuthSpec),
    "transport": value_kinds.choice(*TRANSPORTS),
    "disabled": value_kinds.flag,
    "era": value_kinds.choice("auto", "legacy", "modern", "client"),
    "isolation": value_kinds.choice("auto", "shared", "workspace", "session"),
    "max_concurrency": value_kinds.count(1, _MOST_AT_ONCE),
    "start": value_kinds.choice("lazy", "eager"),
    "start_timeout": value_kinds.seconds(_SHORTEST_INTERVAL_SECONDS),
    "call_timeout": value_kinds.seconds(),
    "call_ceiling": value_kinds.seconds(),
    "instance_idle": value_kinds.seconds(),
    "upstream_idle": value_kinds.seconds(),
    "pin": value_kinds.flag,
    "memory_max": value_kinds.size(_SMALLEST_MEMORY_BYTES, _LARGEST_MEMORY_BYTES),
    "cpu_weight": value_kinds.count(1, _LARGEST_CPU_WEIGHT),
    "blocked_tools": value_kinds.texts,
    "result_limit": value_kinds.size_or_off(_SMALLEST_LIMIT_BYTES, _LARGEST_LIMIT_BYTES),
}

# Keys of a pack: a switch, and the keys of a server that make sense without a process.
PACK_KEYS: dict[str, ValueKind] = {
    "enabled": value_kinds.flag,
    **{
        key: SERVER_KEYS[key]
        for key in ("max_concurrency", "call_timeout", "call_ceiling", "pin", "blocked_tools", "result_limit")
    },
}

# Other clients' names for `url`, in JSON only: Gemini's, Windsurf's.
URL_ALIASES = ("httpUrl", "serverUrl")
# Other clients' names inside `oauth`, in JSON only: Claude Code's, Gemini's.
OAUTH_ALIASES = {"clientId": "client_id", "clientSecret": "client_secret", "redirectUri": "redirect_uri"}
# Other clients' keys that need nothing from Hearth: not worth a warning.
SILENT_CLIENT_KEYS = frozenset({"name", "description", "icon", "gallery"})
# Other clients' settings that look like a misspelt setting of Hearth: `mode`.
CLIENT_SETTINGS = frozenset({"model"})
# Settings that other clients have under the same name, with tables in them: opencode's `mode`.
SHARED_SETTINGS = frozenset({"mode"})
# Tables that other clients have under the same name, with something else in them.
SHARED_TABLES = frozenset({"agents", "team"})
# Keys for the transport in other clients' JSON, besides Hearth's own.
TRANSPORT_ALIASES = ("type", "transportType")
# Meaning of their values, without case, `-` and `_`. Values that add nothing to "command" or "url" are `auto`, and so
# is `http`: to VS Code it means SSE as well, for servers that do not speak Streamable HTTP.
CLIENT_TRANSPORTS = {
    "sse": "sse",
    "streamablehttp": "http",
    "http": "auto",
    "stdio": "auto",
    "local": "auto",
    "remote": "auto",
}


def path_of(setting: str) -> KeyPath:
    """Return the path of a setting in a file."""
    return tuple(setting.split("."))


def variable_of(setting: str) -> str:
    """Return the environment variable of a setting."""
    return "HEARTH_" + setting.upper().replace(".", "_")


def flag_of(setting: str) -> str:
    """Return the command-line flag of a setting."""
    return "--" + setting.replace("_", "-").replace(".", "-")


# --- misspelt names

# Below this ratio, the nearest name is a guess that only confuses.
SUGGESTION_RATIO = 0.6
# In another client's file a foreign key is usually not meant for Hearth; from this ratio on it is a typing
# error. One wrong letter in the shortest key (`env`, `envs`) is 0.857; `timeout` to `eof_timeout` is 0.82.
SLIP_RATIO = 0.85


def nearest(name: str, known: Iterable[str], ratio: float = SUGGESTION_RATIO) -> str | None:
    """Return the known name that is most similar, whatever its case and separators; None if none is similar."""
    import difflib  # costs some milliseconds, and most names are right

    by_letters = {_letters(candidate): candidate for candidate in known}
    found = difflib.get_close_matches(_letters(name), by_letters, n=1, cutoff=ratio)
    return by_letters[found[0]] if found else None


def _letters(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def unknown(name: str, suggestion: str | None) -> str:
    """Return the sentence about a key that is not known."""
    return f"key {name!r} is not known" + (f"; did you mean {suggestion!r}?" if suggestion else "")
