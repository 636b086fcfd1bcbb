"""Data model of a configuration after it was read: plain, immutable values with their defaults.

Every start of the daemon imports this module, so it imports nothing expensive, and knows neither files nor the
environment.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from hearth.records import Record

MIB = 1024 * 1024
_NOTHING: Mapping[str, str] = MappingProxyType({})

KeyPath = tuple[str | int, ...]
Era = Literal["auto", "legacy", "modern", "client"]
Transport = Literal["auto", "http", "sse"]
Isolation = Literal["auto", "shared", "workspace", "session"]
Start = Literal["lazy", "eager"]
Mode = Literal["full", "search", "auto"]
SocketMode = Literal["0600", "0660"]
Approval = Literal["always", "never"]
LogLevel = Literal["debug", "info", "warning", "error"]


class OwnerPolicy(Record):
    """Policy for a stop or a reload that a session asks for when it is not the owner, and the owner cannot be
    asked."""

    approve: Approval = "never"


class ProviderSpec(Record):
    """Program that speaks the Agent Client Protocol on its standard streams: `[agents.providers.NAME]`."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = _NOTHING
    title: str | None = None

    def __repr__(self) -> str:
        # Environment and arguments may carry secrets, and a repr ends up in logs.
        return f"ProviderSpec({self.command!r})"


_NO_PROVIDERS: Mapping[str, ProviderSpec] = MappingProxyType({})


class AgentSettings(Record):
    """Settings of the pack `agents`: `[agents]`."""

    # Provider of an agent that names none; empty: the first one that is installed.
    default_provider: str = ""
    wait_timeout: float = 50.0
    turn_timeout: float = 7200.0
    idle_close: float = 900.0
    max_agents: int = 50
    max_running: int = 16
    max_depth: int = 4
    timeline_limit: int = 2000
    providers: Mapping[str, ProviderSpec] = _NO_PROVIDERS


class TeamSettings(Record):
    """Settings of the pack `team`: `[team]`."""

    file_pr: tuple[str, ...] = ()


class OAuthSpec(Record):
    """OAuth settings of one server, beyond what the server announces. Every field is optional."""

    client_id: str | None = None
    client_secret: str | None = None
    client_metadata_url: str | None = None
    issuer: str | None = None
    scopes: tuple[str, ...] = ()
    redirect_uri: str | None = None

    def __repr__(self) -> str:
        # The spec has a secret, and a repr ends up in logs.
        return "OAuthSpec()"


class ServerSpec(Record):
    """One MCP server as configured, references unresolved. Has exactly one of `command` and `url`."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = _NOTHING
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = _NOTHING
    oauth: OAuthSpec = OAuthSpec()
    transport: Transport = "auto"
    disabled: bool = False
    era: Era = "auto"
    isolation: Isolation = "auto"
    max_concurrency: int | None = None
    start: Start = "lazy"
    start_timeout: float = 60.0
    call_timeout: float = 1800.0
    call_ceiling: float = 14400.0
    instance_idle: float = 60.0
    upstream_idle: float | None = None
    pin: bool = False
    memory_max: int | None = None
    cpu_weight: int | None = None
    blocked_tools: tuple[str, ...] = ()
    result_limit: int = 0

    def runs_like(self, other: "ServerSpec") -> bool:
        """Tell whether a process that was started for one entry also fits the other."""
        return all(getattr(self, key) == getattr(other, key) for key in self.fields if key not in HEARTHS_OWN_KEYS)

    def __repr__(self) -> str:
        # Environment, headers and arguments carry secrets, and a repr ends up in logs.
        return f"ServerSpec({self.name!r})"


# Keys that only Hearth uses: no process of the server knows them, so a change of one affects no process.
HEARTHS_OWN_KEYS = frozenset(
    {
        *("max_concurrency", "start", "start_timeout", "call_timeout", "call_ceiling", "instance_idle"),
        *("upstream_idle", "pin", "blocked_tools", "result_limit"),
    }
)

_NO_SERVERS: Mapping[str, ServerSpec] = MappingProxyType({})


# Packs that work without a client: agents tell their parents of what a former daemon has left.
_EAGER_PACKS = frozenset({"agents"})


def pack_spec(name: str, **values: Any) -> ServerSpec:
    """Return the entry of a pack: a server without a command or a url, which all sessions share and nothing stops."""
    disabled = not values.pop("enabled", False)
    fixed: dict[str, Any] = {"era": "modern", "isolation": "shared", "upstream_idle": 0.0, "disabled": disabled}
    if name in _EAGER_PACKS:
        fixed["start"] = "eager"
    return ServerSpec(name=name, **fixed, **values)


class Config(Record):
    """A whole configuration. docs/configuration.md gives each default its reason."""

    idle_timeout: float = 60.0
    drain_timeout: float = 10.0
    list_timeout: float = 10.0
    eof_timeout: float = 60.0
    question_timeout: float = 600.0
    parked_timeout: float = 600.0
    parked_limit: int = 32
    heartbeat_interval: float = 5.0
    message_limit: int = 64 * MIB
    outbound_limit: int = 64 * MIB
    upstream_queue_limit: int = 16 * MIB
    list_limit: int = 4 * MIB
    list_entries: int = 10_000
    max_connections: int = 1024
    rate_limit: float = 0.0
    in_flight_limit: int = 0
    port_rate_limit: float = 500.0
    port_in_flight_limit: int = 256
    rate_burst: float = 10.0
    http_request_timeout: float = 30.0
    http_hosts: tuple[str, ...] = ()
    http_origins: tuple[str, ...] = ()
    listen: str = ""
    socket_mode: SocketMode = "0600"
    allowed_uids: tuple[int, ...] = ()
    allowed_gids: tuple[int, ...] = ()
    mode: Mode = "full"
    search_threshold: int = 40
    log_level: LogLevel = "info"
    owner: OwnerPolicy = OwnerPolicy()
    agents: AgentSettings = AgentSettings()
    team: TeamSettings = TeamSettings()
    servers: Mapping[str, ServerSpec] = _NO_SERVERS
    packs: Mapping[str, ServerSpec] = _NO_SERVERS
    path: str = ""
    hash: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def served(self) -> Mapping[str, ServerSpec]:
        """Servers and packs by their names, which are never the same."""
        return {**self.servers, **self.packs} if self.packs else self.servers
