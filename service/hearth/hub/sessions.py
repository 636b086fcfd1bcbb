"""Sessions of clients, and the owner among them. Memory only; does no I/O.

The first session is the owner. When the owner leaves or falls silent, the active session that connected first takes
over. A session that fell silent keeps its connection and the messages to it: a person may have pressed Ctrl-Z.
"""

import asyncio
import hashlib
import itertools
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hearth.hub.events import EVENTS, OwnerChanged
from hearth.hub.sinks import ClientSink
from hearth.mcp import versions
from hearth.mcp.translate import Caller
from hearth.upstreams.client_context import ClientContext, Location
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.hub.authorization.decided_call import Standing
    from hearth.hub.calls import Call
    from hearth.hub.catalog import View
    from hearth.hub.subscriptions import ListenStream
    from hearth.mcp.catalog import ListKind
    from hearth.upstreams.instance import Instance
    from hearth.upstreams.server import Server

# URIs in results whose server is remembered, per session; beyond it the oldest are forgotten.
LINKS_LIMIT = 10_000
SECRET_BYTES = 16
# Sessions that have left and may be resumed; a bridge comes back within seconds.
DEPARTED_LIMIT = 1000
# How tools are offered to a client: all of them, the search tools only, or one of the two by their number.
FULL, SEARCH, AUTO = "full", "search", "auto"
# The built-in server of leads and people, which exists while there is a policy.
POLICY_SERVER = "policy"
# Role and agent id that a role token or an agent's token proves.
Proven = tuple[str | None, str | None]


def digest(secret: str) -> str:
    """Return the name that stands for a secret."""
    return hashlib.blake2s(secret.encode(), digest_size=16).hexdigest()


def agent_principal(agent_id: str) -> str:
    """Return the name of an agent for approvals and grants: its sessions, hooks and other requests share it."""
    return digest(f"agent {agent_id}")


class Session:
    """Session of a client, for as long as its connection: identity, negotiated protocol, bindings and subscriptions.

    Only its own methods assign its attributes.
    """

    def __init__(
        self,
        sink: ClientSink,
        wire: str,
        id: str | None = None,
        server: str | None = None,
        mode: str = FULL,
        asked_mode: str | None = None,
        secret: str | None = None,
    ) -> None:
        # Identity.
        self.sink = sink
        self.wire = wire
        self.id = id or os.urandom(8).hex()
        self.secret = secret or os.urandom(SECRET_BYTES).hex()
        # Name for approvals and grants: secret, and the same for a session that a bridge resumes. An agent has its own.
        self.principal = digest(self.secret)
        # The session serves clients that know nothing of each other and may use the same ids: their tags tell them
        # apart, and the session is never the owner.
        self.stateless = False
        self.client_id: str | None = None
        # Role that the client claims, and the one that its token proves.
        self.role: str | None = None
        self.token_role: str | None = None
        self.agent_id: str | None = None
        # Role and policy by which the guard decides about its calls, as long as they stay the same.
        self.standing: Standing | None = None
        # Whether the session belongs to an agent that Hearth started: such a session is never the owner.
        self.is_agent = False
        self.cwd: str | None = None
        self.pid: int | None = None
        self.connected_at = time.time()
        # Rank by arrival; earlier sessions come first.
        self.number = 0
        self.active = True
        # Set when the connection has ended; work that still runs for the session holds nothing any more.
        self.left = False

        # Negotiated protocol.
        self.client: dict[str, str] = {}
        self.era: str | None = None
        self.version: str | None = None
        self.capabilities: json.Fields = {}
        self.caller = Caller()
        self.initialized = False
        # Level that a legacy client has set; None: the client expects everything.
        self.log_level: str | None = None

        # Offered lists. `server`: only this server's tools, under their own names.
        self.server = server
        # The server that the bridge named with `--to`: the session's own, which no other session sees.
        self.target: Server | None = None
        # How tools are offered, and the mode that the client asked for, if it did.
        self.mode = mode
        self.asked_mode = asked_mode
        # Whether the last list of tools that the client saw was of the search tools.
        self.searches = False
        # Lists that the client is offered, and the version of the catalog that they were made from.
        self.view: View | None = None
        self.view_version = 0
        # Content of each list as the client last saw it, or was told to read it again.
        self.seen: dict[ListKind, int] = {}

        # Bindings.
        self.open: dict[object, Call] = {}
        # Instances in use, by the era of the requests that go there.
        self.bound: dict[str, dict[Server, Instance]] = {versions.LEGACY: {}, versions.MODERN: {}}
        # Servers of URIs that were mentioned in results.
        self.links: dict[str, str] = {}
        # Raw roots, once the client was asked for them; a client that refused is not asked again.
        self.roots: tuple[bytes, ...] | None = None
        self.asked_roots: asyncio.Future[None] | None = None
        # Location of its folders on this machine, and the roots and working directory for which it was found.
        self.located: tuple[object, Location | None] = (None, None)

        # Subscriptions.
        self.listens: dict[object, ListenStream] = {}
        # Resources that a legacy client subscribed to: the client's URI, the server's name, and the URI there.
        self.subscriptions: dict[str, tuple[str, str]] = {}

    # --- identity

    def identify(
        self,
        pid: int | None = None,
        cwd: str | None = None,
        client_id: str | None = None,
        role: str | None = None,
        agent_id: str | None = None,
    ) -> None:
        """Record what the wire knows of the client. A claim does not replace an agent's proven id and folder."""
        self.pid, self.cwd, self.client_id, self.role = pid, self.cwd or cwd, client_id, role
        self.standing = None
        if not self.is_agent:
            self.agent_id = agent_id

    def prove(self, role: str | None, agent_id: str | None, cwd: str | None = None) -> None:
        """Record the role and the agent that a token proves, before the session is added; `cwd` is the agent's."""
        self.token_role = role
        if agent_id is not None:
            self.agent_id, self.is_agent, self.principal = agent_id, True, agent_principal(agent_id)
            # Wherever its client moves, an agent stays under the policy of its project.
            self.cwd = cwd
        # The offered lists and every decision depend on the role.
        self.view = self.standing = None

    def stand(self, standing: "Standing") -> None:
        """Record the role and the policy by which its next calls are decided."""
        self.standing = standing

    @property
    def proven(self) -> Proven:
        """Role and agent id that the client's token proves."""
        return self.token_role, self.agent_id if self.is_agent else None

    def act_as(self, principal: str) -> None:
        """Use another name for approvals and grants: for wires whose sessions have no secret. Agents keep theirs."""
        self.principal = self.principal if self.is_agent else principal

    def aim(self, target: "Server | None") -> None:
        """Offer a server of the session's own, if it has one, and no other: all of its tools, unless told to search."""
        if target:
            self.target = target
            self.server = target.name
            self.mode = self.asked_mode = self.asked_mode or FULL

    def share(self) -> None:
        """Serve several clients that know nothing of each other."""
        self.stateless = True

    def end(self) -> None:
        """End the session: messages that are still on their way to its client are dropped."""
        self.sink = ClientSink()
        self.left = True

    # --- negotiated protocol

    def speak_legacy(self, version: str, client: dict[str, str], capabilities: json.Fields, info: bytes | None) -> None:
        """Record what `initialize` negotiated; `info` is the raw `clientInfo`."""
        self.era = versions.LEGACY
        self.version = version
        self.client = client
        self.capabilities = capabilities
        self.caller = Caller(json.join(capabilities), info)
        # The offered lists may depend on what the client has just declared.
        self.view = None

    def speak_modern(self, version: str | None, client: dict[str, str], capabilities: bytes) -> None:
        """Record what the first modern request said of its client."""
        self.era = versions.MODERN
        self.version = version
        self.client = client
        self.caller.capabilities = capabilities
        # The offered lists may depend on it.
        self.view = None

    def mark_initialized(self) -> None:
        """Record `notifications/initialized`."""
        self.initialized = True

    def set_log_level(self, level: str) -> None:
        """Record the level of `logging/setLevel`."""
        self.log_level = level

    # --- offered lists

    def set_mode(self, mode: str) -> None:
        """Offer tools in that mode, unless the client has asked for one."""
        self.mode = self.asked_mode or mode

    def show(self, view: "View", version: int) -> None:
        """Offer lists, made from that version of the catalog."""
        self.view = view
        self.view_version = version

    def saw_tools(self, searches: bool) -> None:
        """Record whether the list of tools that the client was given is of the search tools."""
        self.searches = searches

    # --- folders

    def client_context(self, era: str | None = None, capabilities: bytes | None = None) -> ClientContext:
        """Return the session as instances see it; each request of a modern client declares its own capabilities."""
        located_for, location = self.located
        is_current = located_for == (self.roots, self.cwd)
        return ClientContext(
            self.id,
            era or self.era or versions.MODERN,
            self.cwd,
            self.roots,
            capabilities or self.caller.capabilities,
            location if is_current else None,
        )

    def ask_roots(self, asking: "asyncio.Future[None]") -> None:
        """Record that the client is being asked for its roots."""
        self.asked_roots = asking

    def set_roots(self, roots: tuple[bytes, ...]) -> None:
        """Record the roots that the client has listed."""
        self.roots = roots
        # The offered lists may depend on where the client works.
        self.view = None

    def forget_roots(self) -> None:
        """Record that the client works in other folders than before."""
        self.roots = self.asked_roots = self.view = None

    def set_location(self, folders: object, location: "Location | None") -> None:
        """Record where the folders (roots, working directory) are; None for a disk that does not answer."""
        self.located = (folders, location)
        # The tools of a server may depend on the folder.
        self.view = None

    def know_roots(self, roots: tuple[bytes, ...]) -> None:
        """Record the roots that the client has told another daemon: it need not be asked again."""
        self.roots = roots
        self.asked_roots = asyncio.get_running_loop().create_future()
        self.asked_roots.set_result(None)

    def mention(self, uri: str, server: str) -> None:
        """Record that a result of that server mentioned the URI."""
        if len(self.links) >= LINKS_LIMIT:
            # The URI that was mentioned first.
            del self.links[next(iter(self.links))]
        self.links[uri] = server

    def can_be_asked(self) -> bool:
        """Tell whether the client shows elicitations that come as requests, as legacy revisions have them."""
        return (
            self.era == versions.LEGACY
            and "elicitation" in self.capabilities
            and (self.version or "") >= versions.ELICITATION_SINCE
        )

    def describe(self) -> dict[str, object]:
        """Return the session for `hearth status --json`."""
        return {
            "id": self.id,
            "client": self.client or None,
            "era": self.era,
            "version": self.version,
            "connectedAt": self.connected_at,
            "active": self.active,
            "pid": self.pid,
            "cwd": self.cwd,
            "role": self.role,
            "agentId": self.agent_id,
            "server": self.server,
            "to": self.target.describe() if self.target else None,
            "mode": self.mode,
            "wire": self.wire,
            "inFlight": len(self.open),
        }


class Sessions:
    """Sessions in the order of their arrival, and the owner among them."""

    def __init__(self) -> None:
        self._by_id: dict[str, Session] = {}
        # Active sessions by their arrival. HTTP sessions become active and silent with every request, which must not
        # cost more if many sessions are silent.
        self._active: dict[int, Session] = {}
        self._numbers = itertools.count()
        self._hearing: dict[str, Session] = {}
        # Secrets of sessions that have left, and what their role tokens proved, by their ids.
        self._departed: dict[str, tuple[str, Proven]] = {}
        self.owner: Session | None = None
        self._announced_owner: str | None = None

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, id: str) -> Session | None:
        """Return the session of that id."""
        return self._by_id.get(id)

    def add(self, session: Session) -> None:
        """Add a session that begins."""
        self._by_id[session.id] = session
        session.number = next(self._numbers)
        if session.sink.hears_of_owner:
            self._hearing[session.id] = session
        self.came_back(session)

    def resumable(self, id: str, secret: str, proven: Proven = (None, None)) -> tuple[str | None, str | None]:
        """Return the id and the secret under which a bridge continues a session of the past, as far as it may.

        The id of a session that has left is taken over only with its secret, in the same role and by the same agent,
        and so are the grants bound to it.
        """
        claim = secret, proven
        if id in self._by_id or self._departed.get(id, claim) != claim:
            return None, None
        return id, secret if len(secret) == 2 * SECRET_BYTES else None

    def remove(self, session: Session) -> None:
        """Remove a session that ends."""
        if self._by_id.get(session.id) is session:
            del self._by_id[session.id]
            self._departed[session.id] = session.secret, session.proven
            if len(self._departed) > DEPARTED_LIMIT:
                del self._departed[next(iter(self._departed))]
            self._hearing.pop(session.id, None)
            self._retire(session)

    def fell_silent(self, session: Session) -> None:
        """Deactivate a session whose heartbeats stopped: it holds nothing any longer; messages to it are kept."""
        session.active = False
        self._retire(session)

    def came_back(self, session: Session) -> None:
        """Mark a session active that spoke again. The ownership does not come back."""
        session.active = True
        if self._by_id.get(session.id) is session:
            self._active[session.number] = session
            if self.owner is None:
                self._elect()

    def _retire(self, session: Session) -> None:
        self._active.pop(session.number, None)
        if self.owner is session:
            self.owner = None
            self._elect()

    def _elect(self) -> None:
        number = min(
            (number for number, each in self._active.items() if not (each.stateless or each.is_agent)), default=None
        )
        if number is not None:
            owner = self.owner = self._active[number]
            # A session over HTTP is elected again with each of its requests.
            if owner.id != self._announced_owner:
                self._announced_owner = owner.id
                EVENTS.emit(OwnerChanged(session=owner.id))
            for session in self._hearing.values():
                session.sink.owner_changed(owner.id, session is owner)
