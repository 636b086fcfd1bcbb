"""Servers of a daemon, bindings of sessions to their instances, roots of clients, and log levels of servers.

Sessions hold the instances that they use; unheld instances are stopped. A server is as verbose as its most demanding
client asks, and each client gets what it asked for.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Set
from typing import TYPE_CHECKING

from hearth.config import Config, ServerSpec
from hearth.errors import HearthError, UpstreamError
from hearth.hub.calls import Call
from hearth.hub.client_requests import ClientRequests
from hearth.hub.sessions import Session, Sessions
from hearth.mcp import capabilities, isolation, versions
from hearth.upstreams import client_context, threads
from hearth.upstreams.change_notices import IgnoreReply
from hearth.upstreams.connection import InstanceListener
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.upstreams.traits import TraitStore
from hearth.wire import json, values

if TYPE_CHECKING:
    from hearth.upstreams.http.target import TargetBridge

log = logging.getLogger(__name__)

# A legacy client that never set a level expects messages; a modern server sends none unless a level is named.
DEFAULT_LOG_LEVEL = "info"
# A client that lists roots answers at once; without an answer its working directory counts.
ROOTS_SECONDS = 5.0
# Time for a session's own server to end.
TARGET_STOP_SECONDS = 2.0
# Links are followed in a moment, but a network that does not answer blocks for ever.
LOCATE_SECONDS = 5.0


def reaches_level(level: str | None, threshold: str | None) -> bool:
    """Tell whether a message passes a threshold. Levels that no revision knows pass only where no threshold is set."""
    if threshold is None:
        return True
    if level not in versions.LOG_LEVELS or threshold not in versions.LOG_LEVELS:
        return False
    return versions.LOG_LEVELS.index(level) >= versions.LOG_LEVELS.index(threshold)


def most_verbose(levels: Iterable[str | None]) -> str | None:
    """Return the lowest of the levels that were set."""
    known = [level for level in levels if level in versions.LOG_LEVELS]
    return min(known, key=versions.LOG_LEVELS.index) if known else None


class LogLevels:
    """Setter of the log levels of legacy servers. A modern server is told the level with every request."""

    def attached(self, call: Call) -> None:
        """Raise the verbosity for a request that resumes a suspended call, if it wants more messages."""
        if call.attempt and call.log_level:
            self.sync(call.attempt.instance, call.log_level)

    def sync(self, instance: Instance, wanted: str | None = None) -> None:
        """Set the level after the instance's sessions or their levels changed.

        `wanted` is the level of a request that is about to be sent.
        """
        offering = instance.catalog
        if instance.era != versions.LEGACY or offering is None or "logging" not in offering.capabilities:
            return
        holders = [holder for holder in instance.holders if isinstance(holder, Session)]
        if wanted is None and not any(holder.log_level for holder in holders):
            return
        # A client that set none expects the server's default messages.
        set_levels = [holder.log_level or DEFAULT_LOG_LEVEL for holder in holders if holder.era == versions.LEGACY]
        level = most_verbose([*set_levels, wanted])
        if level is None or level == instance.log_level or instance.connection is None:
            return
        if wanted and reaches_level(wanted, instance.log_level) and instance.log_level:
            # Verbose enough; the server is not made quieter for one request.
            return
        try:
            params = json.dumps({"level": level})
            # As a stream: a request that the server never answers must not count as a call in flight.
            instance.connection.request_stream(b'"logging/setLevel"', params, IgnoreReply(instance.name))
        except HearthError:
            return
        instance.log_level = level


def read_headers(payload: bytes) -> list[tuple[str, str]]:
    """Return the headers of a target from a bridge's answer. Raises UpstreamError."""
    from hearth.upstreams.http import target

    return target.read_answer(payload)


class ServerDirectory:
    """Servers of a daemon: the config's, and those that bridges name with `--to`, each for one session."""

    def __init__(self, servers: Mapping[str, Server], sessions: Sessions) -> None:
        self._servers = servers
        self._sessions = sessions
        # Traits of the sessions' own servers, as long as the daemon lives.
        self._traits = TraitStore("")
        # Entries of the config in force: a target with the address of one uses its login.
        self._entries: tuple[ServerSpec, ...] = ()

    def make_target(
        self,
        config: Config,
        settings: bytes,
        bridge: "TargetBridge",
        listener: InstanceListener,
        retiring: Callable[[Instance, float], None],
    ) -> Server:
        """Return the server that a bridge names with `--to`, for its session. Raises Refused."""
        from hearth.upstreams.http import target

        self._entries = tuple(config.servers.values())
        spec, aim = target.read(settings, bridge, lambda: self._entries)
        # Nothing of it is kept on disk: it has no entry, and its lists may depend on the headers.
        return Server(spec, config, self._traits, listener, retiring, connect=aim.connect)

    def all(self) -> list[Server]:
        """Return the config's servers and the sessions' own."""
        return [*self._servers.values(), *(session.target for session in self._sessions if session.target)]

    def session_left(self, session: Session) -> None:
        """Stop the own server of a session that ends: its calls were withdrawn, so little is left to wait for."""
        if session.target:
            session.target.mark_stale(TARGET_STOP_SECONDS)

    def reconfigure_targets(self, config: Config) -> None:
        """Apply changed settings to the sessions' own servers."""
        self._entries = tuple(config.servers.values())
        for session in self._sessions:
            if session.target:
                session.target.reconfigure(session.target.spec, config)

    def server_of(self, instance: Instance) -> Server | None:
        """Return the server of an instance. Targets of several sessions may have one name."""
        owner = instance.owner
        return owner.target if isinstance(owner, Session) and owner.target else self._servers.get(instance.name)


class Binding:
    """Binder of sessions to instances."""

    def __init__(self, questions: ClientRequests, levels: LogLevels) -> None:
        self._questions = questions
        self._levels = levels

    async def bind(self, session: Session, era: str, server: Server, declared: bytes | None = None) -> Instance:
        """Return the ready instance for a session's requests of that era. Raises UpstreamError.

        `declared` are the client capabilities that the request itself declared.
        """
        mode = server.mode
        if mode == isolation.WORKSPACE:
            await self._learn_roots(session)
            await _locate(session)
        context = session.client_context(era, declared)
        instance = await server.ensure(context, session)
        has_moved = session.client_context(era).workspace != context.workspace
        if instance.mode == isolation.WORKSPACE and (mode != instance.mode or has_moved):
            # The server turned out to want roots while it was being started, and was started again without them; or the
            # client has moved in the meantime.
            return await self.bind(session, era, server, declared)
        if session.left:
            # A session that has left would never release the instance.
            raise UpstreamError(f"the client has left before server {server.name!r} was ready")
        self._hold(session, era, server, instance)
        return instance

    async def try_bind(self, session: Session, era: str, server: Server) -> HearthError | None:
        """Bind as `bind` does, where the next call would try again; return the error, which log and status have."""
        try:
            await self.bind(session, era, server)
        except HearthError as problem:
            return problem
        return None

    def _hold(self, session: Session, era: str, server: Server, instance: Instance) -> None:
        former = session.bound[era].get(server)
        session.bound[era][server] = instance
        server.hold(instance, session, session.id)
        if former and former is not instance:
            self._let_go(session, server, former)
        for name, uri in session.subscriptions.values():
            if name == server.name and era == versions.LEGACY:
                instance.subscriptions.hold(uri, session)
        for listen in session.listens.values():
            for name, uri in listen.sources.values():
                if name == server.name and era == versions.MODERN:
                    instance.subscriptions.hold(uri, listen)
        self._levels.sync(instance)

    def _let_go(self, session: Session, server: Server, instance: Instance) -> None:
        if any(instance in bound.values() for bound in session.bound.values()):
            return
        for listen in session.listens.values():
            instance.subscriptions.leave(listen)
        server.release(instance, session)

    def unbind(self, session: Session) -> None:
        """Release every instance of a session that ends."""
        self.forget(session, {server for bound in session.bound.values() for server in bound})

    def forget(self, session: Session, servers: Set[Server]) -> None:
        """Release the instances of those servers, which the session no longer uses."""
        for bound in session.bound.values():
            for server, instance in [(server, bound[server]) for server in servers if server in bound]:
                del bound[server]
                self._let_go(session, server, instance)
                self._levels.sync(instance)

    # --- roots

    async def _learn_roots(self, session: Session) -> None:
        """Ask the client which folders it works in, once."""
        if not lists_roots(session):
            return
        asked: asyncio.Future[None] | None = None
        while asked is None or asked is not session.asked_roots:
            # Ask again if the client has moved since: its answer may be about the former place.
            asked = session.asked_roots
            if asked is None:
                asked = asyncio.ensure_future(self._ask_roots(session))
                session.ask_roots(asked)
            # Shielded: other calls wait for the same answer.
            await asyncio.shield(asked)

    async def _ask_roots(self, session: Session) -> None:
        try:
            answer = await self._questions.ask(session, capabilities.ROOTS, b"{}", ROOTS_SECONDS)
            roots = tuple(bytes(root) for root in values.elements(answer.get("roots")))
            if session.asked_roots is asyncio.current_task():
                session.set_roots(roots)
        except HearthError as problem:
            # Without roots, the working directory counts.
            log.info("a client did not list its roots: %s", problem)

    def roots_changed(self, session: Session) -> list[Server]:
        """Release the workspaces of a client that has changed its folders; return the servers to bind again."""
        session.forget_roots()
        left: list[Server] = []
        for bound in session.bound.values():
            for server, instance in list(bound.items()):
                if instance.mode == isolation.WORKSPACE:
                    del bound[server]
                    self._let_go(session, server, instance)
                    left.append(server)
                elif instance.mode == isolation.SESSION and instance.connection and instance.era == versions.LEGACY:
                    instance.connection.notify("notifications/roots/list_changed")
        return left


async def _locate(session: Session) -> None:
    """Find the session's folders on disk, off the loop; without an answer they count as they are written."""
    # Again if the client has moved in the meantime.
    while session.located[0] != (named := (session.roots, session.cwd)):
        try:
            async with asyncio.timeout(LOCATE_SECONDS):
                session.set_location(named, await threads.run(client_context.locate, *named))
        except TimeoutError:
            # Recorded as found: each further attempt would leave one more thread that waits for the disk.
            session.set_location(named, None)
            log.warning("folders of a session not found within %g s", LOCATE_SECONDS, extra={"session": session.id})


def lists_roots(session: Session) -> bool:
    """Tell whether the client can be asked for its roots, now and by a request."""
    return session.initialized and session.era == versions.LEGACY and "roots" in session.capabilities
