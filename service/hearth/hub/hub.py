"""The hub: the one object that the server talks to. It owns sessions, upstreams and the catalogue, and no socket."""

import asyncio
import os

from hearth import __version__
from hearth.config import Config
from hearth.errors import Refused
from hearth.hub import consent
from hearth.hub.catalogue import Catalogue
from hearth.hub.questions import Questions
from hearth.hub.router import Router
from hearth.hub.sessions import Nobody, Outlet, Session, Sessions
from hearth.mcp import answers
from hearth.upstreams.process import EOF_GRACE_SECONDS, TERM_GRACE_SECONDS
from hearth.upstreams.upstream import READY, Upstream

# The longest that ending a server takes: it is asked, then told, then killed.
SERVERS_STOP_SECONDS = EOF_GRACE_SECONDS + TERM_GRACE_SECONDS


class Hub:
    """Everything that is shared, for one daemon's life."""

    def __init__(self, config: Config, daemon_id: str | None = None) -> None:
        self.config = config
        self.daemon_id = daemon_id or os.urandom(6).hex()
        self.sessions = Sessions()
        self.upstreams: dict[str, Upstream] = {}
        self._catalogue = Catalogue()
        self._questions = Questions(self.daemon_id)
        self._router = Router(
            answers.Identity(__version__, self.daemon_id),
            self._catalogue,
            self._questions,
            self.upstreams.values,
            lambda: self.config.list_timeout,
        )
        # One message of a session's client. Not a method of its own: it is the hottest path there is.
        self.receive = self._router.receive
        self._retiring: set[asyncio.Task[None]] = set()
        self._adopt(config)

    # --- sessions

    def open_session(
        self, outlet: Outlet, wire: str, server: str | None = None, resume: tuple[str, str] | None = None
    ) -> Session:
        """Begin a session. With `resume`, it goes on under the id that it had. Raises Refused."""
        if server is not None and server not in self.upstreams:
            known = ", ".join(self.upstreams) or "none"
            raise Refused(f"there is no server {server!r} in {self.config.path}; known: {known}")
        id = None
        if resume:
            former = self.sessions.get(resume[0])
            if former and former.secret == resume[1]:
                # The same bridge, whose former connection has not been seen to end yet.
                former.outlet.close()
                self.close_session(former)
            id = resume[0] if self.sessions.get(resume[0]) is None else None
        session = Session(outlet, wire, id)
        session.server = server
        self.sessions.add(session)
        return session

    def close_session(self, session: Session) -> None:
        """End a session: its calls are withdrawn, its questions die, the ownership moves on."""
        session.outlet = Nobody()
        self.sessions.remove(session)
        self._questions.session_left(session)
        for call in list(session.open.values()):
            call.cancel()
        session.listens.clear()

    async def consent(self, asker: Session, act: str) -> None:
        """Whether that session may stop or reload the daemon. Raises Refused."""
        await consent.obtain(asker, act, self.sessions, self._questions, self.config.owner.approve)

    # --- servers

    def _adopt(self, config: Config) -> None:
        wanted = {name: spec for name, spec in config.servers.items() if not spec.disabled}
        former = dict(self.upstreams)
        self.upstreams.clear()
        for name, spec in wanted.items():
            kept = former.get(name)
            if kept and kept.spec == spec:
                self.upstreams[name] = former.pop(name)
            else:
                self.upstreams[name] = Upstream(spec, config, self._tools_changed)
        for upstream in former.values():
            self._retire(upstream)

    def _retire(self, upstream: Upstream) -> None:
        task = asyncio.get_running_loop().create_task(self._retire_when_done(upstream))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _retire_when_done(self, upstream: Upstream) -> None:
        """Calls in flight finish under the old config, bounded by the drain's time."""
        deadline = asyncio.get_running_loop().time() + self.config.drain_timeout
        # One that is still being started has no calls: who waits for it is served by its successor.
        while upstream.state == READY and upstream.connection and upstream.connection.in_flight:
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(0.05)
        await upstream.retire()

    def apply(self, config: Config) -> None:
        """Go on under another config: only the servers that changed are touched."""
        former = set(self.upstreams.values())
        self.config = config
        self._adopt(config)
        self._catalogue.rebuild(self.upstreams.values())
        if former != set(self.upstreams.values()):
            # What a new server offers is known only when somebody asks: so everybody is told to ask.
            self._catalogue.outdate()
        self._router.announce_tools(self.sessions)
        if any(session.listed is not None for session in self.sessions):
            self._router.try_unknown()

    def _tools_changed(self) -> None:
        if self._catalogue.rebuild(self.upstreams.values()):
            self._router.announce_tools(self.sessions)

    async def stop(self) -> None:
        """End every server, all at once."""
        stops = [upstream.retire() for upstream in self.upstreams.values()]
        await asyncio.gather(*stops, *self._retiring, return_exceptions=True)

    # --- what is going on

    @property
    def in_flight(self) -> int:
        """Requests that clients wait for."""
        return sum(len(session.open) for session in self.sessions)

    def busy(self) -> bool:
        """Whether somebody needs the daemon: an active session, a call, or an answer not yet delivered."""
        return any(session.active or session.open or session.outlet.owes() for session in self.sessions)

    def summary(self) -> str:
        """One line for `systemctl status`."""
        running = sum(bool(upstream.pids) for upstream in self.upstreams.values())
        return f"{len(self.sessions)} sessions, {running} of {len(self.upstreams)} servers running"

    def describe(self) -> dict[str, object]:
        """Sessions and upstreams for `hearth status --json`."""
        owner = self.sessions.owner
        return {
            "owner": owner.id if owner else None,
            "sessions": [{**session.describe(), "isOwner": session is owner} for session in self.sessions],
            "upstreams": [
                {
                    "name": upstream.name,
                    "state": upstream.state,
                    "era": upstream.era,
                    "pids": upstream.pids,
                    "tools": None if upstream.tools is None else len(upstream.tools),
                    "error": upstream.error,
                    "restarts": upstream.restarts,
                }
                for upstream in self.upstreams.values()
            ],
        }
