"""Hub: the one object that the daemon talks to. Owns sessions, servers and everything in between, but no socket."""

import asyncio
import functools
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from hearth import __version__
from hearth.config import Config, ServerSpec
from hearth.config.model import pack_spec
from hearth.errors import HearthError, Refused
from hearth.hub import batches, client_requests, status
from hearth.hub.authorization.seam import PolicySeam
from hearth.hub.bindings import Binding, LogLevels, ServerDirectory
from hearth.hub.catalog import Catalog
from hearth.hub.client_requests import ClientRequests
from hearth.hub.dispatcher import Deadlines, Dispatcher
from hearth.hub.events import (
    EVENTS,
    ServerRestarted,
    SessionClosed,
    SessionOpened,
)
from hearth.hub.input_required import InputRequiredLoop, SuspendedCalls
from hearth.hub.local_handlers import InitializeHandler, Listing
from hearth.hub.pipeline import Pipeline
from hearth.hub.router import HubServices, Router
from hearth.hub.server_listener import ServerListener
from hearth.hub.server_messages import ServerMessages, UrlVisits
from hearth.hub.sessions import POLICY_SERVER, Proven, Session, Sessions
from hearth.hub.sinks import ClientSink
from hearth.hub.status import ServerMetrics
from hearth.hub.subscriptions import Noticed, Subscriptions, nothing_noticed
from hearth.mcp import messages
from hearth.upstreams import transports
from hearth.upstreams.catalog_cache import CatalogCache
from hearth.upstreams.child_process import EOF_GRACE_SECONDS, TERM_GRACE_SECONDS
from hearth.upstreams.instance import Instance
from hearth.upstreams.pin_store import PinStore
from hearth.upstreams.server import Server
from hearth.upstreams.supervisor import drain
from hearth.upstreams.traits import TraitStore
from hearth.wire.values import RawBytes

if TYPE_CHECKING:
    from hearth.hub.agent_directory import AgentDirectory
    from hearth.upstreams.http.target import TargetBridge
    from hearth.upstreams.pack_api import Pack

log = logging.getLogger(__name__)

# Characters of a client's name in the log and in events; real names have about twenty.
NAME_LIMIT = 100

# Longest time that stopping a server takes: its stdin is closed, then it is terminated, then killed.
SERVERS_STOP_SECONDS = EOF_GRACE_SECONDS + TERM_GRACE_SECONDS


class Hub:
    """Shared state of one daemon."""

    def __init__(
        self,
        config: Config,
        learned: str,
        daemon_id: str | None = None,
        catalogue: str | None = None,
        pins: str | None = None,
        create_pack: "Callable[[str], Pack] | None" = None,
    ) -> None:
        self.config = config
        # Creates a pack by its name; loads its module on first use.
        self._create_pack = create_pack
        self.daemon_id = daemon_id or os.urandom(6).hex()
        self.sessions = Sessions()
        self.servers: dict[str, Server] = {}
        self._directory = ServerDirectory(self.servers, self.sessions)
        # Traits that former daemons learned of servers, and the file that keeps them.
        self._learned = TraitStore(learned)
        # Their catalogs, and the folder that keeps them.
        self._kept = CatalogCache(catalogue, self._learned.fingerprints) if catalogue else None
        # Definitions of their tools when first seen or last approved, and the folder that keeps them.
        self._pins = PinStore(pins) if pins else None
        self._retiring: dict[Instance, asyncio.Task[None]] = {}
        # Number of reloads whose effect on the lists is not known yet; clients are told afterwards.
        self._settling = 0
        identity = messages.Identity(__version__, self.daemon_id)
        self._catalogue = Catalog(self.servers.values, lambda: self.config.search_threshold)
        self._questions = ClientRequests(self.daemon_id)
        levels = LogLevels()
        self._suspended_calls = SuspendedCalls(
            lambda: self.config.parked_timeout, lambda: self.config.parked_limit, levels.attached
        )
        self._binding = Binding(self._questions, levels)
        # Called when something in `summary` may have changed; for calls only now and then. The daemon replaces it.
        self.news: Callable[[], None] = lambda: None
        deadlines = Deadlines(self._directory.all, lambda: self._retiring, lambda: self.news())  # noqa: PLW0108
        self._dispatcher = Dispatcher(levels, deadlines, self.servers.get, identity.info)
        self._listing = Listing(
            self._catalogue, self._binding, self._dispatcher, identity.info, lambda: self.config.list_timeout
        )
        self._subscriptions = Subscriptions(self._catalogue, self._binding, self._dispatcher)
        visits = UrlVisits()
        find = self._directory.server_of
        self._relay = ServerMessages(
            self._questions, self._suspended_calls, visits, find, lambda: self.config.question_timeout
        )
        self._listener = ServerListener(
            self._directory,
            self._catalogue,
            self._subscriptions,
            self._relay,
            self._suspended_calls,
            self._announce,
            lambda: self.news(),  # noqa: PLW0108
        )
        loop = InputRequiredLoop(self._questions, self._binding, lambda: self.config.question_timeout)
        self._pipeline = Pipeline(self._catalogue, self._binding, self._dispatcher, self._suspended_calls, loop, visits)
        self._router = Router(
            HubServices(
                self._catalogue,
                self._binding,
                self._dispatcher,
                self._pipeline,
                InitializeHandler(identity, self._catalogue, self._listing.light_eager, self._listing.after_attempt),
                self._listing,
                self._subscriptions,
                self._questions,
                self._suspended_calls,
                levels,
            )
        )
        # Agents that the daemon runs; the pack `agents` installs its directory.
        self.agents: AgentDirectory | None = None
        self.policy = PolicySeam(
            self._catalogue,
            self._pipeline,
            self._subscriptions,
            self._router,
            self._questions,
            self._dispatcher.spawn,
            self._policy_changed,
            lambda: self.agents,
        )
        # Everything that waits for a lead or a person, with a policy and without one.
        self.pending = self.policy.pending
        # Receives one message of a session's client. Not a method of its own: it is the hottest path there is.
        self.receive = self._router.receive
        self.receive_batch = functools.partial(batches.receive, self._router)
        self.withdraw = self._router.withdraw
        self.unknowns = self._router.unknowns
        self._adopt(config)

    # --- sessions

    def open_session(
        self,
        sink: ClientSink,
        wire: str,
        server: str | None = None,
        resume: tuple[str, str] | None = None,
        mode: str | None = None,
        to: "tuple[bytes, TargetBridge] | None" = None,
        proven: Proven = (None, None),
    ) -> Session:
        """Open a session. With `resume`, continue under the id that it had. Raises Refused.

        `mode`: how its client wants tools to be offered, if it says. `to`: the settings of `--to`, and its bridge.
        `proven`: the role and the agent id that its token proves.
        """
        target = self._directory.make_target(self.config, *to, self._listener, self._retire) if to else None
        if server is not None and server not in self.servers:
            raise self._unknown(server)
        id = secret = None
        if resume:
            former = self.sessions.get(resume[0])
            if former and (former.secret, former.proven) == (resume[1], proven):
                # The same bridge, whose former connection is not known to have ended yet.
                former.sink.close()
                self.close_session(former)
            id, secret = self.sessions.resumable(*resume, proven)
        session = Session(sink, wire, id, server, mode or self.config.mode, mode, secret)
        session.aim(target)
        self.policy.prove(session, proven)
        EVENTS.emit(SessionOpened(session=session.id, wire=wire))
        self.sessions.add(session)
        log.info("a session begins, over %s", wire, extra={"session": session.id})
        self.news()
        return session

    def close_session(self, session: Session) -> None:
        """End a session: cancel its calls, drop its questions, and pass the ownership on."""
        session.end()
        self.sessions.remove(session)
        self.policy.session_left(session)
        self._questions.session_left(session)
        for call in list(session.open.values()):
            call.cancel()
        self._suspended_calls.session_left(session)
        self._pipeline.results.session_left(session)
        self._binding.unbind(session)
        session.listens.clear()
        self._directory.session_left(session)
        # A client may call itself anything, of any length.
        name, era, version = session.client.get("name", "")[:NAME_LIMIT] or None, session.era, session.version
        log.info("session ended client=%s era=%s version=%s", name, era, version, extra={"session": session.id})
        EVENTS.emit(SessionClosed(session=session.id, wire=session.wire, client=name))
        self.news()

    async def obtain_owner_approval(self, asker: Session | None, act: str) -> None:
        """Return when the session, if there is one, may stop or reload the daemon. Raises Refused if it may not."""
        if asker:
            await client_requests.obtain_approval(asker, act, self.sessions, self._questions, self.config.owner.approve)

    # --- policy

    def _policy_changed(self) -> None:
        """Make all lists again, with or without the built-in server of leads and people, and tell clients."""
        former = self.servers.get(POLICY_SERVER)
        if self.policy.guard and former is None and self._create_pack:
            self.servers[POLICY_SERVER] = self._make_server(pack_spec(POLICY_SERVER, enabled=True), self.config)
        elif self.policy.guard is None and former and POLICY_SERVER not in self.config.served:
            del self.servers[POLICY_SERVER]
            former.mark_stale(self.config.drain_timeout)
        self._catalogue.changed()
        self._announce()

    # --- servers

    def _adopt(self, config: Config) -> None:
        wanted = {name: spec for name, spec in config.served.items() if not spec.disabled}
        former = dict(self.servers)
        if self.policy.guard and POLICY_SERVER not in wanted:
            wanted[POLICY_SERVER] = pack_spec(POLICY_SERVER, enabled=True)
        self.servers.clear()
        for name, spec in wanted.items():
            kept = former.get(name)
            if kept and kept.spec.runs_like(spec):
                self.servers[name] = former.pop(name)
                kept.reconfigure(spec, config)
                kept.reset_failures()
            else:
                self.servers[name] = self._make_server(spec, config)
        for server in former.values():
            # Calls in flight finish under the old config, bounded by the drain timeout.
            server.mark_stale(config.drain_timeout)

    def _make_server(self, spec: ServerSpec, config: Config) -> Server:
        if spec.name not in config.packs and (spec.name != POLICY_SERVER or spec.name in config.servers):
            return Server(spec, config, self._learned, self._listener, self._retire, self._kept, self._pins)
        if self._create_pack is None:
            raise Refused(f"pack {spec.name!r} cannot be served here")
        # Nothing of a pack is kept on disk: its lists are available as soon as it is asked, and change with the
        # program.
        connect = functools.partial(transports.connect_pack, functools.partial(self._create_pack, spec.name))
        return Server(spec, config, self._learned, self._listener, self._retire, None, self._pins, connect)

    def light(self) -> None:
        """Start the servers that do not wait for a client."""
        for server in self.servers.values():
            if not server.instances.pids:
                self._dispatcher.spawn(self._light(server))

    async def _light(self, server: Server) -> None:
        try:
            await server.start_eagerly()
        except HearthError:
            # The log and the status have the error; the next call tries again.
            pass

    def _retire(self, instance: Instance, seconds: float) -> None:
        task = asyncio.get_running_loop().create_task(drain(instance, seconds))
        self._retiring[instance] = task
        task.add_done_callback(lambda _: self._retiring.pop(instance, None))
        server = self._directory.server_of(instance)
        if server:
            if server.spec.start == "eager":
                # The successor does not wait for a call, either.
                self._dispatcher.spawn(self._light(server))
            for holder in instance.holders:
                if isinstance(holder, Session):
                    self._subscriptions.follow(holder, server)

    def apply(self, config: Config) -> None:
        """Switch to another config: only the servers that changed are touched."""
        former, names = set(self.servers.values()), set(self.servers)
        self.config = config
        self._adopt(config)
        self._directory.reconfigure_targets(config)
        self._catalogue.changed()
        back = [server for name, server in self.servers.items() if name not in names]
        for session in self.sessions:
            session.set_mode(config.mode)
            self._binding.forget(session, former - set(self.servers.values()))
            for server in back:
                # A client may still be subscribed to the server's resources.
                self._subscriptions.follow(session, server)
        curious = [session for session in self.sessions if session.seen]
        if any(self._catalogue.unknown(session) for session in curious):
            self._settling += 1
            self._dispatcher.spawn(self._settle(curious))
        self._announce()
        self.light()

    def approved(self) -> str:
        """Show tools whose definitions a person has approved, and tell clients."""
        self._catalogue.changed()
        self._announce()
        return "clients are told"

    async def _settle(self, curious: list[Session]) -> None:
        """Tell clients once, of removed entries together with those that replace them."""
        try:
            await self._listing.try_unknown(curious)
        finally:
            self._settling -= 1
        self._announce()

    def _announce(self, noticed: Noticed = nothing_noticed) -> None:
        if not self._settling:
            self._subscriptions.announce(self.sessions, noticed)

    def restart(self, name: str) -> str:
        """Stop a server's processes when their calls in flight are done, bounded as in a drain. Raises Refused."""
        server = self.servers.get(name)
        if server is None:
            raise self._unknown(name)
        log.info("restart requested", extra={"upstream": name})
        EVENTS.emit(ServerRestarted(server=name))
        ended = server.renew(self.config.drain_timeout)
        self._catalogue.changed()
        self._dispatcher.spawn(self._light(server))
        if not ended:
            return f"nothing of {name} runs; the next call starts it"
        seconds = self.config.drain_timeout
        return f"{name} ends when its calls are done, {seconds:g} s at most; the next call starts it anew"

    def _unknown(self, name: str) -> Refused:
        return Refused(f"there is no server {name!r} in {self.config.path}; known: {', '.join(self.servers) or 'none'}")

    async def stop(self) -> None:
        """Stop every server, all at once."""
        stops = [server.retire() for server in self._directory.all()]
        late = [instance.retire() for instance in self._retiring]
        await asyncio.gather(*stops, *late, return_exceptions=True)

    # --- status

    @property
    def in_flight(self) -> int:
        """Number of requests that clients wait for."""
        return sum(len(session.open) for session in self.sessions)

    def busy(self) -> bool:
        """Tell whether the daemon is needed: by an active session, a call or hook that waits, an undelivered answer, or
        a kept result. Sessions of agents do not hold it by themselves: an agent that is idle is none of its clients.
        """
        if self._suspended_calls or self._dispatcher.logins or self._pipeline.results or self.policy.is_asking:
            return True
        held = ((each.active and not each.is_agent) or each.open or each.sink.owes() for each in self.sessions)
        if any(held):
            return True
        return any(server.instances.is_busy for server in self.servers.values())

    def summary(self) -> str:
        """Return one line for `systemctl status`."""
        return status.summary(self.sessions, self.servers, self.in_flight)

    def input_schema(self, session: Session, tool: str) -> RawBytes | None:
        """Return the input schema of a tool in the session's view; None for a tool that is not there, or not yet."""
        offer = self._catalogue.view(session).tools.get(tool)
        return offer.item.definition.get("inputSchema") if offer else None

    def has_tool(self, session: Session, name: str) -> bool:
        """Tell whether a tool of that name is the client's to call."""
        return self._catalogue.has_tool(session, name)

    async def tools(self, query: str, server: str | None, limit: object) -> bytes:
        """Return the known tools, for `hearth tools`. Starts no server. Raises HearthError."""
        from hearth.mcp import tool_index

        latest = [(each, each.catalogs.any) for each in self.servers.values()]
        offerings = [(each.name, offered and offered.without_tools(each.withheld(offered))) for each, offered in latest]
        most = limit if isinstance(limit, int) and limit > 0 else 0
        return await asyncio.to_thread(tool_index.document, offerings, query, server, most)

    def metrics(self) -> dict[str, ServerMetrics]:
        """Return the metrics of each server."""
        return {name: status.server_metrics(server) for name, server in self.servers.items()}

    def describe(self) -> dict[str, object]:
        """Return sessions and servers for `hearth status --json`."""
        guard = self.policy.guard
        role_of = guard.role_name if guard else None
        return status.describe(self.sessions, self.servers.values(), len(self._suspended_calls), role_of)
