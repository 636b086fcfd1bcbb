"""Servers, instances and calls as the hub has them, with conversations whose other end is the test."""

from hearth.config import Config, ServerSpec
from hearth.hub.calls import Call, ClientRequest
from hearth.hub.catalog import View
from hearth.hub.sessions import Session
from hearth.mcp import capabilities, isolation, versions
from hearth.mcp.catalog import KINDS, Item, ListKind, ServerCatalog
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.upstreams.supervision import READY, State, Terms
from hearth.upstreams.supervisor import InstanceKey
from hearth.upstreams.traits import TraitStore
from hearth.wire import json, values
from hearth.wire.values import RawBytes
from unit.conversations import Audience, Recorded
from unit.hub.outlets import Kept

# Read, and never written: what a test lets servers learn goes elsewhere.
NO_FILE = "/nowhere/learned.json"


def server(name: str = "s", learned: TraitStore | None = None, **keys: object) -> Server:
    """A server by its config; nothing of it runs."""
    spec = ServerSpec(name=name, **{"command": "true", **keys})  # type: ignore[arg-type]
    return Server(spec, Config(), learned or TraitStore(NO_FILE), Audience(), lambda instance, seconds: None)


def offering(
    server_name: str = "s",
    era: str = versions.LEGACY,
    declared: bytes = b'{"tools":{},"prompts":{},"resources":{"subscribe":true},"logging":{}}',
    instructions: str | None = None,
    **lists: list[object],
) -> ServerCatalog:
    """What a server offers; lists by their names in MCP, each item by its name, or as a whole definition."""
    version = versions.NEWEST_LEGACY if era == versions.LEGACY else versions.NEWEST_MODERN
    found = ServerCatalog(era, version, json.split(declared), instructions)
    for kind in KINDS:
        found.take(kind, [item(kind, server_name, each) for each in lists.get(kind.member, [])])
    return found


def item(kind: ListKind, server_name: str, definition: object) -> Item:
    fields = definition if isinstance(definition, dict) else {kind.key: definition}
    return Item(kind, server_name, json.split(json.dumps(fields)))


def instance(
    of: Server, offered: ServerCatalog | None = None, mode: str = isolation.SHARED, session: Session | None = None
) -> tuple[Instance, Recorded]:
    """An instance of the server that is ready, in the place of the one that would have been started."""
    offered = offered or offering(of.name)
    tenant = session.client_context(offered.era) if session else ClientContext("nobody", offered.era)
    found = Instance(
        of.spec, mode, tenant, offered.era, lambda owner, _: Recorded(owner), capabilities.FULL, Audience()
    )
    connection = Recorded(found, of.name)
    found.connection, found.catalog, found.era = connection, offered, offered.era
    # As the end of its start has it; nobody watches over it.
    found.supervisor.state = State(Terms(limit=None, idle=0.0, checked=False), READY)
    found._ready(0.0)
    of.instances[InstanceKey(offered.era, mode, session.id if session else "")] = found
    return found, connection


class Desk:
    """Takes what is not the end of a call, and keeps it."""

    result_steps = ()

    def __init__(self, takes_urls: bool = False) -> None:
        self.required: list[bytes] = []
        self.demands: list[json.Message] = []
        self._takes_urls = takes_urls

    def input_required(self, call: Call, result: RawBytes) -> None:
        self.required.append(bytes(result))

    def urls_demanded(self, call: Call, message: json.Message) -> bool:
        self.demands.append(message)
        return self._takes_urls

    def era_refused(self, call: Call, message: json.Message) -> bool:
        return False

    def authorize_now(self, call: Call, target: object) -> None:
        pass


def client(
    era: str = versions.LEGACY, version: str = "2025-11-25", declared: bytes = b"{}", id: str | None = None
) -> tuple[Session, Kept]:
    """A session whose client has opened the conversation, and its outlet."""
    sink = Kept()
    member = Session(sink, "lines", id)
    member.era = era
    member.version = version if era == versions.LEGACY else versions.NEWEST_MODERN
    member.capabilities = json.split(declared)
    member.caller.capabilities = declared
    member.initialized = era == versions.LEGACY
    return member, sink


def opened(
    member: Session,
    id: bytes = b"1",
    era: str | None = None,
    desk: Desk | None = None,
    tag: int = 7,
    method: str = "tools/call",
    params: bytes = b'{"name":"t"}',
    meta: dict[str, object] | None = None,
    **more: bool,
) -> Call:
    """A request of that session's client that has arrived and was not sent yet."""
    era = era or member.era or versions.LEGACY
    fields, said = json.split(params), json.split(json.dumps(meta or {}))
    request = ClientRequest(member, tag, id, values.id_key(id), method, era, fields, said, **more)
    call = member.open[request.key] = Call(desk or Desk(), request)  # type: ignore[arg-type]
    return call


def declaring(declared: bytes, token: bytes | None = None, level: str | None = None) -> dict[str, object]:
    """The `_meta` of a modern request."""
    meta: dict[str, object] = {versions.CLIENT_CAPABILITIES_KEY: json.loads(declared)}
    meta |= {} if token is None else {"progressToken": json.loads(token)}
    return meta | ({} if level is None else {versions.LOG_LEVEL_KEY: level})


def sent(
    member: Session,
    of: Server,
    on: Instance,
    id: bytes = b"1",
    era: str | None = None,
    desk: Desk | None = None,
    method: str = "tools/call",
    params: bytes = b'{"name":"t"}',
    view: View | None = None,
    asked: bytes | None = None,
    meta: dict[str, object] | None = None,
    **more: bool,
) -> Call:
    """A request that its server has; `asked` are its params where its client wrote others."""
    call = opened(member, id, era, desk, 7, method, params if asked is None else asked, meta, **more)
    assert on.connection is not None
    call.send(of, on, on.connection, json.dumps(method), params, view or View([], False))
    return call
