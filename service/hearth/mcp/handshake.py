"""Detection of a server's era: `server/discover` and `initialize` are written back to back.

| answer                                          | means                                     |
| ----------------------------------------------- | ----------------------------------------- |
| discover: a result, -32020, -32021 or -32022    | modern                                    |
| initialize: -32022                              | modern: discover tells the rest           |
| initialize: a result                            | legacy                                    |
| discover: any other error                       | not modern: initialize decides            |
| initialize: any other error                     | not legacy: discover decides              |
| both refused                                    | no MCP server                             |

The first success decides; no timeout is needed to tell silence from an answer. Of a server that speaks both eras, the
opening that is written first decides; some lock the process to the era of their first request. A server that exits when
it is asked for something unknown is started again and only initialized.
"""

from hearth.errors import UpstreamError
from hearth.mcp import versions
from hearth.wire import json, values

DISCOVER = "server/discover"
INITIALIZE = "initialize"


class Probe:
    """Probe that collects the answers to the two openings until the era is known."""

    def __init__(self, wanted: str = versions.MODERN, only: bool = False) -> None:
        first, second = (DISCOVER, INITIALIZE) if wanted == versions.MODERN else (INITIALIZE, DISCOVER)
        self.openings = (first,) if only else (first, second)
        self.era: str | None = None
        # Result that decided: of discover or of initialize. Empty if a modern error decided.
        self.result: json.Fields = {}
        self._refusals: dict[str, str] = {}

    def receive_answer(self, opening: str, message: json.Message) -> None:
        """Take one answer. Raises UpstreamError if no opening is left that could succeed."""
        if self.era:
            if opening == DISCOVER and self.era == versions.MODERN and message.result is not None:
                self.result = json.split(message.result)
            return
        if message.result is not None:
            self.era = versions.MODERN if opening == DISCOVER else versions.LEGACY
            self.result = json.split(message.result)
            return
        code, text = values.error(message)
        if code == versions.UNSUPPORTED_VERSION or (opening == DISCOVER and code in versions.MODERN_ONLY_ERRORS):
            self.era = versions.MODERN
            return
        self._refusals[opening] = text
        if len(self._refusals) == len(self.openings):
            said = "; ".join(f"{name}: {text}" for name, text in self._refusals.items())
            raise UpstreamError(f"it refused every way to open a conversation ({said})")


def opening_params(opening: str, version: str, capabilities: bytes) -> bytes:
    """Return the params of one of the two openings. `capabilities` are those of a legacy server's clients."""
    info = {"name": "hearth", "version": version}
    if opening == INITIALIZE:
        return json.join(
            {
                "protocolVersion": json.dumps(versions.NEWEST_LEGACY),
                "capabilities": capabilities,
                "clientInfo": json.dumps(info),
            }
        )
    return json.dumps({"_meta": envelope(info)})


def envelope(client_info: object) -> dict[str, object]:
    """Return the `_meta` of Hearth's own requests to a modern server."""
    return {
        versions.PROTOCOL_VERSION_KEY: versions.NEWEST_MODERN,
        versions.CLIENT_CAPABILITIES_KEY: {},
        versions.CLIENT_INFO_KEY: client_info,
    }
