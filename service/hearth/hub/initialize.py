"""Start of a conversation: `initialize` of legacy clients, `server/discover` of modern ones.

Both are answered at once, before any server runs. Capabilities are declared once, for the whole session, while servers
come and go.
"""

from collections.abc import Callable

from msgspec import Raw

from hearth.hub.calls import Call
from hearth.hub.catalog import Catalog
from hearth.hub.sessions import Session
from hearth.mcp import capabilities, messages, versions
from hearth.wire import json, values
from hearth.wire.values import Members

_EVERYTHING = json.dumps(capabilities.EVERYTHING)
# Capabilities of a legacy client that mean the same to a modern server.
_ASKABLE = ("roots", "sampling", "elicitation", "experimental", "extensions")


class InitializeHandler:
    """Handler of both methods; afterwards starts the servers that do not wait for a call."""

    def __init__(
        self, identity: messages.Identity, catalogue: Catalog, light_eager: Callable[[Session, str], None]
    ) -> None:
        self._identity = identity
        self._catalogue = catalogue
        self._light_eager = light_eager

    def initialize(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        """Answer `initialize`."""
        session = call.session
        version = versions.negotiate(values.text(params.get("protocolVersion")))
        declared = {key: Raw(bytes(value)) for key, value in _declared(params, version).items()}
        info = params.get("clientInfo")
        session.speak_legacy(version, client_info(info), declared, None if info is None else bytes(info))
        _, body = self._identity.initialized(version, *self._offered(session, versions.LEGACY))
        call.close(messages.result(call.id, body), keep="initialize")
        self._light_eager(session, versions.LEGACY)

    def discover(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        """Answer `server/discover`."""
        body = self._identity.discovered(*self._offered(call.session, versions.MODERN))
        call.close(messages.result(call.id, body))
        self._light_eager(call.session, versions.MODERN)

    def _offered(self, session: Session, era: str) -> tuple[bytes, str | None]:
        """Return capabilities and instructions: for a session with a single server its own, if they are known."""
        view = self._catalogue.view(session)
        if session.server is not None and view.offerings:
            offering = view.offerings[0][1]
            mirrored = capabilities.mirrored(offering.capabilities, era)
            if view.offerings[0][0].spec.result_limit:
                # The full text of a large result is a resource, even if the server has no resources itself.
                mirrored.setdefault("resources", b'{"listChanged":true}')
            spoken = [offering.instructions] if offering.instructions else []
            offered = json.join(mirrored) if offering.capabilities else _EVERYTHING
        else:
            spoken = [f"# {server.name}\n{each.instructions}" for server, each in view.offerings if each.instructions]
            offered = _EVERYTHING
        if self._catalogue.searches(session):
            from hearth.mcp.search.search_tools import INSTRUCTIONS

            spoken.insert(0, INSTRUCTIONS)
        return offered, "\n\n".join(spoken) or None


def _declared(params: json.Fields, version: str) -> Members:
    """Return the capabilities that the client declared, without those that its revision did not have yet."""
    declared = values.members(params.get("capabilities"))
    return {
        key: value
        for key, value in declared.items()
        if key in _ASKABLE and (key != "elicitation" or version >= versions.ELICITATION_SINCE)
    }


def client_info(raw: Raw | None) -> dict[str, str]:
    """Return what a client says about itself, as far as it is shown to people."""
    fields = values.members(raw)
    found = {key: values.text(fields.get(key)) for key in ("name", "title", "version")}
    return {key: value for key, value in found.items() if value is not None}
