"""Pack `hearth`: tools by which an agent looks after the daemon that it uses.

All texts are masked as those of `hearth status` and `hearth logs` are. A restart needs the owner's approval, as it does
for every other session that asks for one.
"""

import asyncio
import os
from typing import TYPE_CHECKING, Any

from hearth.errors import Refused
from hearth.masking import everywhere
from hearth.upstreams.pack_api import Arguments, CallContext, Pack, PackTool, ToolError

if TYPE_CHECKING:
    from hearth.packs import PackServices

LINES_BY_DEFAULT = 50
# More than a model can use; `hearth logs NAME -n` has the rest.
MOST_LINES = 500
# Enough for that many lines of ordinary length; a line on disk has at most 4000 characters.
TAIL_BYTES = 256 * 1024

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_COUNT = {"type": "integer"}
_COUNT_OR_NULL = {"type": ["integer", "null"]}
_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
_NAME = {"type": "string", "minLength": 1, "description": "Name of the MCP server, as list_servers has it."}
_READ_ONLY = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_SESSION = _object(
    id=_TEXT,
    client=_TEXT_OR_NULL,
    era=_TEXT_OR_NULL,
    wire=_TEXT,
    isOwner={"type": "boolean"},
    isYou={"type": "boolean"},
    inFlight=_COUNT,
)
_STATUS = _object(
    version=_TEXT,
    pid=_COUNT,
    uptimeSeconds={"type": "number"},
    profile=_TEXT,
    configPath=_TEXT,
    configError=_TEXT_OR_NULL,
    summary=_TEXT,
    sessions={"type": "array", "items": _SESSION},
)
_SERVER = _object(
    name=_TEXT,
    state=_TEXT,
    era=_TEXT_OR_NULL,
    isolation=_TEXT,
    pids={"type": "array", "items": _COUNT},
    tools=_COUNT_OR_NULL,
    error=_TEXT_OR_NULL,
    restarts=_COUNT,
    calls=_COUNT,
    errors=_COUNT,
)


class HearthPack(Pack):
    """Pack that reports on the daemon and restarts its servers."""

    instructions = "Tools to look after the Hearth daemon that serves these MCP servers."

    def __init__(self, services: "PackServices") -> None:
        self._services = services
        super().__init__(
            (
                PackTool(
                    "status",
                    "Tell what the Hearth daemon is doing: version, uptime, config problems, connected sessions.",
                    _NOTHING,
                    self._status,
                    {"title": "Daemon status", **_READ_ONLY},
                    _STATUS,
                ),
                PackTool(
                    "list_servers",
                    "List the MCP servers of the Hearth daemon with state, last error, number of tools and calls.",
                    _NOTHING,
                    self._list_servers,
                    {"title": "List MCP servers", **_READ_ONLY},
                    _object(servers={"type": "array", "items": _SERVER}),
                ),
                PackTool(
                    "restart_server",
                    "Restart one MCP server. Calls in flight may finish within drain_timeout and then fail, those of"
                    " other clients too; the next call starts it again.",
                    {**_object(name=_NAME)},
                    self._restart_server,
                    {
                        "title": "Restart an MCP server",
                        "readOnlyHint": False,
                        "destructiveHint": True,
                        "idempotentHint": False,
                        "openWorldHint": False,
                    },
                    _object(name=_TEXT, message=_TEXT),
                ),
                PackTool(
                    "read_server_log",
                    "Read the last lines that an MCP server wrote to its stderr, with time and pid; secrets masked.",
                    {
                        **_object(name=_NAME),
                        "properties": {
                            "name": _NAME,
                            "lines": {
                                "type": "integer",
                                "minimum": 1,
                                "maximum": MOST_LINES,
                                "default": LINES_BY_DEFAULT,
                                "description": "How many lines.",
                            },
                        },
                    },
                    self._read_server_log,
                    {"title": "Read a server's log", **_READ_ONLY},
                    _object(name=_TEXT, lines={"type": "array", "items": _TEXT}),
                ),
            )
        )

    async def _status(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        found = self._services.status()
        sessions = [
            {
                **{key: each[key] for key in ("id", "era", "wire", "isOwner", "inFlight")},
                "client": (each["client"] or {}).get("name"),
                "isYou": each["id"] == context.session_id,
            }
            for each in found["sessions"]
        ]
        told = {key: found[key] for key in ("version", "pid", "uptimeSeconds", "profile", "configPath", "configError")}
        return _masked({**told, "summary": self._services.hub.summary(), "sessions": sessions})

    async def _list_servers(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        keys = _SERVER["properties"]
        described = (server.describe() for server in self._services.hub.servers.values())
        return _masked({"servers": [{key: each[key] for key in keys} for each in described]})

    async def _restart_server(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        name, hub = arguments["name"], self._services.hub
        if name not in hub.servers:
            raise ToolError(self._unknown(name))
        session = hub.sessions.get(context.session_id or "")
        if session is None:
            raise Refused("the session that asks has ended")
        await hub.obtain_owner_approval(session, "restart")
        return {"name": name, "message": hub.restart(name)}

    async def _read_server_log(self, context: CallContext, arguments: Arguments) -> dict[str, Any]:
        name, count = arguments["name"], int(arguments.get("lines", LINES_BY_DEFAULT))
        # Checked first: the name becomes part of a path.
        if name not in self._services.hub.servers:
            raise ToolError(self._unknown(name))
        lines = await asyncio.to_thread(last_lines, self._services.server_log(name), count)
        return _masked({"name": name, "lines": lines})

    def _unknown(self, name: str) -> str:
        return f"there is no server {name!r}; known: {', '.join(self._services.hub.servers) or 'none'}"


def last_lines(path: str, count: int) -> list[str]:
    """Return the last lines of a log file, and of its predecessor if it was rotated a short while ago."""
    found: list[str] = []
    for each in (path, f"{path}.1"):
        if len(found) < count:
            found = [*_tail(each)[-(count - len(found)) :], *found]
    return found


def _tail(path: str) -> list[str]:
    """Return the whole lines at the end of a file; none if there is no file, because the server has written nothing."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            data = file.read(TAIL_BYTES)
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise ToolError(f"the log cannot be read: {exc.strerror}") from exc
    lines = data.decode("utf-8", "replace").splitlines()
    return lines[1:] if size > TAIL_BYTES else lines


def _masked(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without the secrets of any server in its texts."""
    return {key: _masked_value(item) for key, item in document.items()}


def _masked_value(value: Any) -> Any:
    """Return a value without the secrets of any server in its texts."""
    if isinstance(value, str):
        return everywhere(value)
    if isinstance(value, dict):
        return _masked(value)
    return [_masked_value(item) for item in value] if isinstance(value, list) else value


def create(services: "PackServices") -> HearthPack:
    """Make the pack."""
    return HearthPack(services)
