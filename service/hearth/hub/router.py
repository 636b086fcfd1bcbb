"""Entry of every client message: requests to their handlers, one table per era; notifications; answers of clients.

Requests for servers go on through the pipeline. Payloads pass through as raw bytes.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Raw

from hearth.errors import HearthError, MessageError
from hearth.hub.bindings import Binding, LogLevels
from hearth.hub.calls import Call, ClientRequest
from hearth.hub.catalog import Catalog
from hearth.hub.client_requests import ClientRequests, take_answer
from hearth.hub.dispatcher import Dispatcher, broken
from hearth.hub.input_required import SuspendedCalls
from hearth.hub.large_results import URI_SCHEME
from hearth.hub.local_handlers import InitializeHandler, Listing, client_info
from hearth.hub.lookups import completion_lookup, named_lookup, resource_lookup
from hearth.hub.pipeline import Pipeline, unknown_method
from hearth.hub.sessions import FULL, Session
from hearth.hub.sinks import ReplySink
from hearth.hub.subscriptions import Subscriptions
from hearth.mcp import messages, versions
from hearth.mcp.catalog import KINDS, PROMPTS, ListKind
from hearth.wire import json, values
from hearth.wire.values import RawBytes

if TYPE_CHECKING:
    from hearth.hub.search import ToolSearch
    from hearth.upstreams.server import Server

log = logging.getLogger(__name__)

# Number of clients that are remembered. Beyond it the oldest is forgotten, and may cause a warning again.
CLIENTS_LIMIT = 1000
# Characters of a client's text that are logged.
_SHOWN_CHARACTERS = 80

# Takes a call with its params and `_meta`. Raises HearthError, which becomes the answer.
Handler = Callable[[Call, json.Fields, json.Fields], None]


class HubServices(NamedTuple):
    """Parts of the hub that answer requests."""

    catalog: Catalog
    binding: Binding
    dispatcher: Dispatcher
    pipeline: Pipeline
    initialize: InitializeHandler
    listing: Listing
    subscriptions: Subscriptions
    client_requests: ClientRequests
    suspended_calls: SuspendedCalls
    log_levels: LogLevels


class UnknownMessages:
    """Warnings about unknown protocol versions and notifications, one of each per client.

    A client is a session, or the key that tells HTTP clients apart.
    """

    def __init__(self) -> None:
        self._warned: dict[tuple[object, str], None] = {}

    def version(self, client: object, version: str | None) -> None:
        """Warn about a protocol version that is not served."""
        if version not in versions.VERSIONS and self._is_first(client, "version"):
            log.warning("unknown protocol version %s from %s", _shown(version), _name(client), extra=_fields(client))

    def notification(self, client: object, method: str, server: str | None = None) -> None:
        """Warn about a notification that no revision has; `server` is the one that it was forwarded to, if any."""
        if method not in versions.CLIENT_NOTIFICATIONS and self._is_first(client, "notification"):
            fate = f"passed on to server {server!r}" if server else "ignored"
            log.warning(
                "unknown notification %s from %s: %s", _shown(method), _name(client), fate, extra=_fields(client)
            )

    def _is_first(self, client: object, kind: str) -> bool:
        key = (client.id if isinstance(client, Session) else client, kind)
        if key in self._warned:
            return False
        if len(self._warned) >= CLIENTS_LIMIT:
            del self._warned[next(iter(self._warned))]
        self._warned[key] = None
        return True


class Router:
    """Receiver of the parsed messages of all sessions; each request is answered once."""

    def __init__(self, services: HubServices) -> None:
        self._services = services
        self._catalog = services.catalog
        self._pipeline = services.pipeline
        self.unknowns = UnknownMessages()
        # Whether a session may send a notification of an unknown method to a server; None without a policy.
        self.may_send: Callable[[Session, Server, str], bool] | None = None
        self._searching: ToolSearch | None = None
        subscriptions, local = services.subscriptions, self._local
        both: dict[str, Handler] = {
            "tools/call": self._call_tool,
            "prompts/get": self._get_prompt,
            "resources/read": self._read_resource,
            "completion/complete": self._complete,
        }
        for kind in KINDS:
            both[kind.method] = local(_lister(services.listing, kind))
        self._legacy: dict[str, Handler] = {
            **both,
            "initialize": local(self._initialize),
            "ping": self._ping,
            "logging/setLevel": local(self._set_level),
            "resources/subscribe": local(lambda call, params, meta: subscriptions.subscribe(call, params)),
            "resources/unsubscribe": local(lambda call, params, meta: subscriptions.unsubscribe(call, params)),
        }
        self._modern: dict[str, Handler] = {
            **both,
            "server/discover": local(services.initialize.discover),
            "subscriptions/listen": local(lambda call, params, meta: subscriptions.listen(call, params)),
        }

    def _local(self, handler: Handler) -> Handler:
        """Return a handler of a request that Hearth answers itself, behind the authorize step of the pipeline."""
        pipeline, catalog = self._pipeline, self._catalog

        def handle(call: Call, params: json.Fields, meta: json.Fields) -> None:
            if pipeline.authorizers:
                pipeline.authorize(call, catalog.view(call.session), None)
            handler(call, params, meta)

        return handle

    # --- requests

    def receive(
        self,
        session: Session,
        tag: int,
        message: json.Message,
        resent: bool,
        replay: bool,
        batch: ReplySink | None = None,
    ) -> None:
        """Take one message of a session's client. `resent` and `replay`: another daemon may have seen it before."""
        id, method = message.id, message.method
        if id is None:
            self._receive_notification(session, tag, message, replay, batch)
            return
        if method is None:
            self._services.client_requests.receive_answer(session, message)
            (batch or session.sink).finish(tag)
            return
        key = tag if session.stateless else values.id_key(id)
        if key in session.open or key in session.listens:
            duplicate = MessageError("a request with this id is still in flight", versions.INVALID_REQUEST)
            (batch or session.sink).answer(tag, messages.failure(id, duplicate))
            return
        call: Call | None = None
        try:
            raw: Raw | None = message.fields.get("params")
            params = {} if raw is None else json.split(raw)
            meta = values.members(params["_meta"]) if "_meta" in params else {}
            era, handlers, others = versions.LEGACY, self._legacy, self._modern
            # `initialize` is legacy whatever it carries; elsewhere the version in `_meta` decides, request by request.
            if versions.PROTOCOL_VERSION_KEY in meta and method != "initialize":
                versions.check_envelope(meta)
                if session.era is None:
                    session.speak_modern(
                        values.text(meta[versions.PROTOCOL_VERSION_KEY]),
                        client_info(meta.get(versions.CLIENT_INFO_KEY)),
                        bytes(meta[versions.CLIENT_CAPABILITIES_KEY]),
                    )
                era, handlers, others = versions.MODERN, self._modern, self._legacy
            handler = handlers.get(method)
            if handler is None and method in others:
                raise MessageError(f"{method} does not exist in this revision of MCP", versions.METHOD_NOT_FOUND)
            known = handler is not None
            request = ClientRequest(session, tag, id, key, method, era, params, meta, resent, replay, batch, known)
            call = session.open[key] = Call(self._pipeline, request)
            (handler or self._forward_unknown)(call, params, meta)
        except Exception as exc:
            problem = self._problem(session, method, exc)
            if call is None:
                (batch or session.sink).answer(tag, messages.failure(id, problem))
            else:
                call.failed(problem)

    def _problem(self, session: Session, method: str, exc: Exception) -> HearthError:
        if isinstance(exc, versions.UnsupportedVersion):
            self.unknowns.version(session, exc.requested)
        if isinstance(exc, HearthError):
            return exc
        log.error("unhandled exception while routing method=%s", method, exc_info=exc)
        return broken(exc)

    # --- notifications

    def _receive_notification(
        self, session: Session, tag: int, message: json.Message, replay: bool, batch: ReplySink | None
    ) -> None:
        keep = drop = None
        method = message.method
        if method == "notifications/cancelled":
            drop = self._cancelled(session, values.members(message.fields.get("params")))
        elif method == "notifications/initialized":
            session.mark_initialized()
            keep = "initialized"
        elif method == "notifications/roots/list_changed":
            for server in self._services.binding.roots_changed(session):
                self._services.subscriptions.follow(session, server)
        elif method:
            self._pass_on(session, method, message)
        (batch or session.sink).finish(tag, keep, drop)
        if replay and keep:
            self._services.subscriptions.renew(session)

    def _cancelled(self, session: Session, params: json.Fields) -> str | None:
        if "requestId" not in params:
            return None
        return self.withdraw(session, values.id_key(bytes(params["requestId"])), params.get("reason"))

    def withdraw(self, session: Session, key: object, reason: RawBytes | None = None) -> str | None:
        """Cancel a request or a listen stream for its client; return the name of the line to drop, if any."""
        listen = session.listens.pop(key, None)
        if listen:
            self._services.subscriptions.unlisten(listen)
            return listen.keep
        call = session.open.get(key)
        if call:
            call.cancel(reason)
        return None

    def _pass_on(self, session: Session, method: str, message: json.Message) -> None:
        """Forward an unknown notification to the one server that it can be meant for, if there is one."""
        servers = self._catalog.in_view(session)
        instance = session.bound[session.era or versions.MODERN].get(servers[0]) if len(servers) == 1 else None
        allowed = self.may_send is None or not servers or self.may_send(session, servers[0], method)
        if allowed and instance and instance.connection and instance.era == session.era and not method.startswith("$"):
            instance.connection.notify(method, message.params)
            self.unknowns.notification(session, method, servers[0].name)
        else:
            self.unknowns.notification(session, method)

    # --- requests that Hearth answers itself

    def _initialize(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        self._services.initialize.initialize(call, params, meta)
        # Only now: the client's name is known.
        self.unknowns.version(call.session, values.text(params.get("protocolVersion")))

    def _ping(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        call.close(messages.result(call.id, b"{}"))

    def _set_level(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        level = values.text(params.get("level"))
        if level not in versions.LOG_LEVELS:
            raise MessageError(f"params.level must be one of {', '.join(versions.LOG_LEVELS)}", versions.INVALID_PARAMS)
        session = call.session
        session.set_log_level(level)
        for instance in session.bound[versions.LEGACY].values():
            self._services.log_levels.sync(instance)
        call.close(messages.result(call.id, b"{}"), keep="logLevel")

    # --- requests that servers answer

    def _call_tool(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        name = values.text(params.get("name"))
        if name is None:
            raise MessageError("params.name must be a string", versions.INVALID_PARAMS)
        request = call.request
        if request.session.mode != FULL and self._search.takes(request.session, name):
            self._search_tools(call, name, params)
            return
        comes_back = request.era == versions.MODERN and ("requestState" in params or "inputResponses" in params)
        if not (comes_back and self._is_retry(call)):
            self._pipeline.call_tool(call, name)

    @property
    def _search(self) -> "ToolSearch":
        if self._searching is None:
            # Loaded with the first client that searches.
            from hearth.hub.search import ToolSearch

            self._searching = ToolSearch(self._catalog, self._services.listing, self._services.dispatcher)
        return self._searching

    def _search_tools(self, call: Call, name: str, params: json.Fields) -> None:
        inner = self._search.called(call, name, params)
        if inner is None:
            self._search.answer(call, name, params)
            return
        # From here on the call is the direct call that it stands for, and so is a retry of it.
        call.replace_params(inner.params)
        if not self._is_retry(call):
            self._pipeline.call_tool(call, inner.name, inner)

    def _get_prompt(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        name = values.text(params.get("name"))
        if name is None:
            raise MessageError("params.name must be a string", versions.INVALID_PARAMS)
        if not self._is_retry(call):
            self._pipeline.submit(call, named_lookup(call.session, PROMPTS, name))

    def _read_resource(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        uri = values.text(params.get("uri"))
        if uri is None:
            raise MessageError("params.uri must be a string", versions.INVALID_PARAMS)
        if self._is_retry(call):
            return
        results = self._pipeline.results
        if uri.startswith(URI_SCHEME) and results.read(call, uri, self._catalog.view(call.session)):
            return
        self._pipeline.submit(call, resource_lookup(call.session, uri, call.era))

    def _complete(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        self._pipeline.submit(call, completion_lookup(call.session, values.members(params.get("ref"))))

    def _forward_unknown(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        """Forward a method of an extension, which is possible only if there is a single server."""
        method = call.method
        servers = self._catalog.in_view(call.session)
        if len(servers) != 1 or method.startswith("hearth/"):
            raise MessageError(f"unknown method: {method}", versions.METHOD_NOT_FOUND)
        self._pipeline.submit(call, unknown_method(call.request, servers[0]))

    def _is_retry(self, call: Call) -> bool:
        """Resume the suspended call of a retry; return False for any other. Raises StateRefused, MessageError."""
        request = call.request
        if request.era != versions.MODERN:
            return False
        if "inputResponses" in request.params:
            take_answer(call)
        if "requestState" not in request.params:
            return False
        return self._services.suspended_calls.retry(call, request.method, call.request.params)


def _lister(listing: Listing, kind: ListKind) -> Handler:
    return lambda call, params, meta: listing.answer(call, kind, params)


def _shown(text: str | None) -> str:
    return ascii(text if text is None else text[:_SHOWN_CHARACTERS])


def _name(client: object) -> str:
    if not isinstance(client, Session):
        return "an HTTP client"
    name = client.client.get("name")
    return f"client {_shown(name)}" if name else "a client"


def _fields(client: object) -> dict[str, str]:
    return {"session": client.id} if isinstance(client, Session) else {}
