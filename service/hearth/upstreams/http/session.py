"""What a legacy server has been told in one session, so that another one can be brought to the same state. Pure."""

from collections.abc import Iterator

from hearth.wire import json, values
from hearth.wire.values import RawBytes

SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
# The specification allows any length; a header has to fit into 8 KiB with all the others.
_ID_LIMIT_CHARACTERS = 4096

_SET_LEVEL, _SUBSCRIBE, _UNSUBSCRIBE = "logging/setLevel", "resources/subscribe", "resources/unsubscribe"
# What may have become another one while there was no session, by the capability that says so.
_NOTICES = {
    "tools": "notifications/tools/list_changed",
    "resources": "notifications/resources/list_changed",
    "prompts": "notifications/prompts/list_changed",
}


class Session:
    """The id and the version that go with every request, and what the server has to be told again after its loss.

    `generation` counts the sessions: whoever finds one lost can tell whether somebody else has renewed it since.
    """

    def __init__(self) -> None:
        self.id: str | None = None
        self.version: str | None = None
        self.generation = 0
        # The params of `initialize`, as the owner gave them.
        self.opening: RawBytes | None = None
        self._capabilities: frozenset[str] = frozenset()
        self._told: dict[tuple[str, bytes], RawBytes] = {}

    def headers(self) -> dict[str, str]:
        """What every request of the session carries."""
        found = {SESSION_HEADER: self.id} if self.id else {}
        return {**found, VERSION_HEADER: self.version} if self.version else found

    def begin(self, id: str | None, result: RawBytes) -> None:
        """The server took `initialize`: its answer, and the id that came with it."""
        fields = values.members(result)
        self.id = id if id and is_usable(id) else None
        self.version = values.text(fields.get("protocolVersion"))
        self._capabilities = frozenset(values.members(fields.get("capabilities")))
        self.generation += 1

    def note(self, method: str, params: RawBytes) -> None:
        """Keep what a request changes in the server for the whole session."""
        if method == _SET_LEVEL:
            self._told[method, b""] = params
        elif method == _SUBSCRIBE:
            self._told[method, _uri(params)] = params
        elif method == _UNSUBSCRIBE:
            self._told.pop((_SUBSCRIBE, _uri(params)), None)

    def told(self) -> Iterator[tuple[str, RawBytes]]:
        """What to say again to a new session."""
        return ((method, params) for (method, _), params in list(self._told.items()))

    def notices(self) -> Iterator[json.Message]:
        """What a new session means to whoever knew the lists of the former one."""
        for capability, method in _NOTICES.items():
            if capability in self._capabilities:
                yield json.Message(None, method, {})


def is_usable(id: str) -> bool:
    """Whether the id is one that the specification allows: visible ASCII."""
    return len(id) <= _ID_LIMIT_CHARACTERS and all("!" <= character <= "~" for character in id)


def _uri(params: RawBytes) -> bytes:
    return bytes(values.members(params).get("uri", b""))
