"""The four lists: answered from what is known, after servers that have never said what they offer were asked."""

import asyncio
from collections.abc import Callable, Iterable

from hearth.errors import HearthError, MessageError, UpstreamError
from hearth.hub.bindings import Binding
from hearth.hub.calls import Call
from hearth.hub.catalog import Catalog, list_result
from hearth.hub.dispatcher import Dispatcher
from hearth.hub.sessions import SEARCH, Session
from hearth.mcp import messages, versions
from hearth.mcp.catalog import TOOLS, Kind
from hearth.upstreams.server import Server
from hearth.wire import json


class Listing:
    """Answers lists. `timeout` is how long one waits for stragglers."""

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

    def answer(self, call: Call, kind: Kind, params: json.Fields) -> None:
        """Answer at once if everything is known."""
        if "cursor" in params:
            raise MessageError("this cursor is not known: the list has one page", versions.INVALID_PARAMS)
        if kind is TOOLS and call.session.mode == SEARCH:
            # Nobody need be asked: it is the same whatever they have.
            self._answer(call, kind)
        else:
            self.when_known(call, lambda: self._answer(call, kind))

    def when_known(self, call: Call, act: Callable[[], None]) -> None:
        """Act for a call at once if everything is known that its client may use."""
        session = call.session
        unknown = self._catalogue.unknown(session)
        if session.server is None:
            # One that failed before, or came too late, is tried again, and nobody waits for it: it is announced when
            # it comes.
            for server in unknown:
                if server.is_late and not server.has_failed:
                    self._spawn(self._try(session, call.era, server))
            unknown = [server for server in unknown if not server.is_late]
        if unknown:
            self._spawn(self._act_after(call, act, unknown), call)
        else:
            act()

    async def _act_after(self, call: Call, act: Callable[[], None], unknown: list[Server]) -> None:
        """Wait, bounded, for servers that have never said what they offer; go on without the stragglers."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout()
        session = call.session
        asked: dict[Server, asyncio.Future[HearthError | None]] = {}
        while unknown and loop.time() < deadline:
            asked |= {server: asyncio.ensure_future(self._attempt(session, call.era, server)) for server in unknown}
            await asyncio.wait([asked[server] for server in unknown], timeout=deadline - loop.time())
            # A reload may have put others in their place meanwhile.
            unknown = [server for server in self._catalogue.unknown(session) if server not in asked]
        for server, attempt in asked.items():
            if not attempt.done():
                server.catalogs.mark_late()
        if session.server is not None:
            # Offering one server only, its failure is the answer; among others it is left out.
            for server, attempt in asked.items():
                if server in self._catalogue.unknown(session):
                    problem = attempt.result() if attempt.done() else _trouble(server)
                    if problem:
                        call.failed(problem)
        act()

    def _answer(self, call: Call, kind: Kind) -> None:
        session = call.session
        session.seen[kind] = self._catalogue.content(session)[kind]
        if kind is TOOLS:
            session.saw_tools(self._catalogue.searches(session))
        if kind is TOOLS and session.searches:
            from hearth.mcp.search.search_tools import LIST

            result = list_result(kind, LIST, call.era, self._server_info)
        else:
            result = self._catalogue.view(session).list_result(kind, call.era, call.version, self._server_info)
        call.close(messages.result(call.id, result))

    async def try_unknown(self, sessions: Iterable[Session]) -> None:
        """Start what has never said what it offers, and wait for it, bounded; a straggler is told of when it comes."""
        attempts = [
            asyncio.ensure_future(self._attempt(session, session.era or versions.MODERN, server))
            for session in sessions
            for server in self._catalogue.unknown(session)
        ]
        if attempts:
            await asyncio.wait(attempts, timeout=self._timeout())

    def light_eager(self, session: Session, era: str) -> None:
        """Start what is not to wait for this client's first call."""
        for server in self._catalogue.in_view(session):
            if server.spec.start == "eager":
                self._spawn(self._try(session, era, server))

    async def _try(self, session: Session, era: str, server: Server) -> None:
        await self._attempt(session, era, server)

    async def _attempt(self, session: Session, era: str, server: Server) -> HearthError | None:
        try:
            await self._binding.bind(session, era, server)
        except HearthError as problem:
            # It is in the log and in the status.
            return problem
        return None


def _trouble(server: Server) -> HearthError | None:
    """Why nothing is known yet of a server that will be tried again."""
    if not server.error:
        return None
    return UpstreamError(f"server {server.name!r} is tried again in a while: {server.error}")
