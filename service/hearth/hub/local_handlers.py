"""Requests that Hearth answers itself: `initialize`, `server/discover` and the four lists.

The first two are answered at once, before any server runs. Capabilities are declared once, for the whole session, while
servers come and go. Only a session that is for the target of its bridge (`--to`) waits for it, bounded: the target's
instructions are told nowhere else. Lists are answered from known catalogs, after servers whose catalog is unknown were
asked.
"""

import asyncio
from collections.abc import Callable, Iterable

from msgspec import Raw

from hearth.errors import HearthError, MessageError, UpstreamError
from hearth.hub.bindings import Binding
from hearth.hub.calls import Call
from hearth.hub.catalog import Catalog, list_result
from hearth.hub.dispatcher import Dispatcher
from hearth.hub.sessions import SEARCH, Session
from hearth.mcp import capabilities, messages, versions
from hearth.mcp.catalog import TOOLS, ListKind
from hearth.upstreams.server import Server
from hearth.wire import json, values
from hearth.wire.values import Members

_EVERYTHING = json.dumps(capabilities.EVERYTHING)
# Capabilities of a legacy client that mean the same to a modern server.
_ASKABLE = ("roots", "sampling", "elicitation", "experimental", "extensions")


class InitializeHandler:
    """Handler of both methods; afterwards starts the servers that do not wait for a call."""

    def __init__(
        self,
        identity: messages.Identity,
        catalogue: Catalog,
        light_eager: Callable[[Session, str], None],
        after_attempt: "Callable[[Call, Callable[[], None]], None]" = lambda call, act: act(),
    ) -> None:
        self._identity = identity
        self._catalogue = catalogue
        self._light_eager = light_eager
        self._after_attempt = after_attempt

    def initialize(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        """Answer `initialize`."""
        session = call.session
        version = versions.negotiate(values.text(params.get("protocolVersion")))
        declared = {key: Raw(bytes(value)) for key, value in _declared(params, version).items()}
        info = params.get("clientInfo")
        session.speak_legacy(version, client_info(info), declared, None if info is None else bytes(info))

        def answer() -> None:
            body = self._identity.initialized(version, *self._offered(session, versions.LEGACY))
            call.close(messages.result(call.id, body), keep="initialize")
            self._light_eager(session, versions.LEGACY)

        self._answer(call, answer)

    def discover(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        """Answer `server/discover`."""

        def answer() -> None:
            body = self._identity.discovered(*self._offered(call.session, versions.MODERN))
            call.close(messages.result(call.id, body))
            self._light_eager(call.session, versions.MODERN)

        self._answer(call, answer)

    def _answer(self, call: Call, answer: Callable[[], None]) -> None:
        if call.session.target:
            self._after_attempt(call, answer)
        else:
            answer()

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
            from hearth.mcp.search_tools import INSTRUCTIONS

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


class Listing:
    """Handler of list requests. `timeout` is how long a request waits for slow servers."""

    def __init__(
        self,
        catalogue: Catalog,
        binding: Binding,
        forwarding: Dispatcher,
        server_info: bytes,
        timeout: Callable[[], float],
    ) -> None:
        self._catalogue = catalogue
        self._binding = binding
        self._spawn = forwarding.spawn
        self._server_info = server_info
        self._timeout = timeout

    def answer(self, call: Call, kind: ListKind, params: json.Fields) -> None:
        """Answer at once if every catalog is known."""
        if "cursor" in params:
            raise MessageError("this cursor is not known: the list has one page", versions.INVALID_PARAMS)
        if kind is TOOLS and call.session.mode == SEARCH:
            # No server need be asked: the search tools are the same whatever servers have.
            self._answer(call, kind)
        else:
            self.when_known(call, lambda: self._answer(call, kind))

    def when_known(self, call: Call, act: Callable[[], None]) -> None:
        """Run `act` for a call, at once if the catalogs of all servers that its client may use are known."""
        session = call.session
        unknown = self._catalogue.unknown(session)
        if session.server is None:
            # A server that failed before, or was too slow, is tried again without waiting: its lists are announced when
            # they are known.
            for server in unknown:
                if server.is_late and not server.has_failed:
                    self._spawn(self._binding.try_bind(session, call.era, server))
            unknown = [server for server in unknown if not server.is_late]
        if unknown:
            self._spawn(self._act_after(call, act, unknown), call)
        else:
            act()

    async def _act_after(self, call: Call, act: Callable[[], None], unknown: list[Server]) -> None:
        """Wait, bounded, for servers whose catalog is unknown; then act without those that were too slow."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout()
        session = call.session
        asked: dict[Server, asyncio.Future[HearthError | None]] = {}
        while unknown and loop.time() < deadline:
            asked |= {
                server: asyncio.ensure_future(self._binding.try_bind(session, call.era, server)) for server in unknown
            }
            await asyncio.wait([asked[server] for server in unknown], timeout=deadline - loop.time())
            # A reload may have replaced them in the meantime.
            unknown = [server for server in self._catalogue.unknown(session) if server not in asked]
        for server, attempt in asked.items():
            if not attempt.done():
                server.catalogs.mark_late()
        if session.server is not None:
            # With a single server, its failure is the answer; among several it is left out.
            for server, attempt in asked.items():
                if server in self._catalogue.unknown(session):
                    problem = attempt.result() if attempt.done() else _trouble(server)
                    if problem:
                        call.failed(problem)
        act()

    def after_attempt(self, call: Call, act: Callable[[], None]) -> None:
        """Run `act` when the catalog of the session's own server is known, or could not be had in time."""

        async def attempt() -> None:
            await self.try_unknown([call.session])
            act()

        self._spawn(attempt(), call)

    def _answer(self, call: Call, kind: ListKind) -> None:
        session = call.session
        session.seen[kind] = self._catalogue.content(session)[kind]
        if kind is TOOLS:
            session.saw_tools(self._catalogue.searches(session))
        if kind is TOOLS and session.searches:
            from hearth.mcp.search_tools import LIST

            items = LIST
        else:
            items = self._catalogue.view(session).render(kind, call.era, call.version)
        call.close(messages.result(call.id, list_result(kind, items, call.era, self._server_info)))

    async def try_unknown(self, sessions: Iterable[Session]) -> None:
        """Start servers whose catalog is unknown, and wait for them, bounded; slow ones are announced later."""
        attempts = [
            asyncio.ensure_future(self._binding.try_bind(session, session.era or versions.MODERN, server))
            for session in sessions
            for server in self._catalogue.unknown(session)
        ]
        if attempts:
            await asyncio.wait(attempts, timeout=self._timeout())

    def light_eager(self, session: Session, era: str) -> None:
        """Start the servers that do not wait for this client's first call."""
        for server in self._catalogue.in_view(session):
            if server.spec.start == "eager":
                self._spawn(self._binding.try_bind(session, era, server))


def _trouble(server: Server) -> HearthError | None:
    """Return the error of a server that will be tried again; None if it has none."""
    if not server.error:
        return None
    return UpstreamError(f"server {server.name!r} is tried again in a while: {server.error}")
