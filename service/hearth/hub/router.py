"""A client's line to whoever answers it. One dispatch table per era; payloads go through as raw bytes."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Raw

from hearth.errors import HearthError, LoginRequired, MessageError
from hearth.hub import target_lookup
from hearth.hub.bindings import Binding
from hearth.hub.calls import Call, broken
from hearth.hub.catalog import Catalog, Target
from hearth.hub.client_requests import ClientRequests
from hearth.hub.dispatcher import Dispatcher, Request, note_modern
from hearth.hub.initialize import InitializeHandler, client_info
from hearth.hub.input_required import InputRequiredLoop
from hearth.hub.large_results import URI_SCHEME, ResultLimit
from hearth.hub.listing import Listing
from hearth.hub.log_levels import LogLevels
from hearth.hub.logins import take_answer
from hearth.hub.server_messages import UrlVisits
from hearth.hub.sessions import FULL, ReplySink, Session
from hearth.hub.subscriptions import Subscriptions
from hearth.hub.suspended_calls import SuspendedCalls
from hearth.hub.target_lookup import TargetLookup, anybody
from hearth.hub.unknown_messages import UnknownMessages
from hearth.mcp import input_required, messages, versions
from hearth.mcp.capabilities import NEWER_QUESTIONS_SINCE
from hearth.mcp.catalog import KINDS, PROMPTS, TOOLS, Kind
from hearth.mcp.client_requests import Question
from hearth.wire import json, values
from hearth.wire.values import RawBytes

if TYPE_CHECKING:
    from hearth.hub.search import InnerCall, ToolSearch

log = logging.getLogger(__name__)

Handler = Callable[[Call, json.Fields, json.Fields], None]


class Router:
    """Takes parsed messages of sessions and sees to it that each request is answered once."""

    def __init__(
        self,
        openings: InitializeHandler,
        catalogue: Catalog,
        binding: Binding,
        forwarding: Dispatcher,
        listing: Listing,
        subscriptions: Subscriptions,
        questions: ClientRequests,
        parking: SuspendedCalls,
        loop: InputRequiredLoop,
        levels: LogLevels,
        visits: UrlVisits,
    ) -> None:
        self._openings = openings
        self._catalogue = catalogue
        self._listing = listing
        self._binding = binding
        self._dispatcher = forwarding
        self._subscriptions = subscriptions
        self._questions = questions
        self._suspended_calls = parking
        self._loop = loop
        self._levels = levels
        self._visits = visits
        self.unknowns = UnknownMessages()
        self.results = ResultLimit()
        self._searching: ToolSearch | None = None
        both: dict[str, Handler] = {
            "tools/call": self._call_tool,
            "prompts/get": self._get_prompt,
            "resources/read": self._read_resource,
            "completion/complete": self._complete,
        }
        for kind in KINDS:
            both[kind.method] = _lister(listing, kind)
        self._legacy: dict[str, Handler] = {
            **both,
            "initialize": self._initialize,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": lambda call, params, meta: subscriptions.subscribe(call, params),
            "resources/unsubscribe": lambda call, params, meta: subscriptions.unsubscribe(call, params),
        }
        self._modern: dict[str, Handler] = {
            **both,
            "server/discover": openings.discover,
            "subscriptions/listen": lambda call, params, meta: subscriptions.listen(call, params),
        }
        # What was called through `call_tool` is what it stands for by now, whatever it is called.
        self._again = {**self._modern, "tools/call": self._call_again}

    # --- what came in

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
        id = message.id
        if id is None:
            self._receive_notification(session, tag, message, replay, batch)
        elif message.method is None:
            self._questions.receive_answer(session, message)
            (batch or session.sink).finish(tag)
        else:
            key = tag if session.stateless else json.id_key(id)
            if key in session.open or key in session.listens:
                problem = MessageError("a request with this id is still in flight", versions.INVALID_REQUEST)
                (batch or session.sink).answer(tag, messages.failure(id, problem))
                return
            call = session.open[key] = Call(self, session, tag, id, key, resent, replay, batch)
            try:
                self._receive_request(call, message.method, message.fields.get("params"))
            except HearthError as problem:
                if isinstance(problem, versions.UnsupportedVersion):
                    self.unknowns.version(session, problem.requested)
                call.failed(problem)
            except Exception as exc:
                log.exception("something was not foreseen")
                call.failed(broken(exc))

    def _receive_request(self, call: Call, method: str, raw: Raw | None) -> None:
        params = {} if raw is None else json.split(raw)
        meta = values.members(params["_meta"]) if "_meta" in params else {}
        handlers, others = self._legacy, self._modern
        # `initialize` is legacy whatever it carries; elsewhere the version in `_meta` tells, request by request.
        if versions.PROTOCOL_VERSION_KEY in meta and method != "initialize":
            versions.check_envelope(meta)
            call.era = versions.MODERN
            if call.session.era is None:
                self._note_modern(call.session, meta)
            handlers, others = self._modern, self._legacy
        handler = handlers.get(method)
        if handler is not None:
            handler(call, params, meta)
        elif method in others:
            raise MessageError(f"{method} does not exist in this revision of MCP", versions.METHOD_NOT_FOUND)
        else:
            self._forward_unknown(call, method, params, meta)

    def _note_modern(self, session: Session, meta: json.Fields) -> None:
        session.era = versions.MODERN
        session.version = values.text(meta[versions.PROTOCOL_VERSION_KEY])
        session.client = client_info(meta.get(versions.CLIENT_INFO_KEY))
        session.caller.capabilities = bytes(meta[versions.CLIENT_CAPABILITIES_KEY])
        # What it is offered may depend on it.
        session.view = None

    # --- notifications

    def _receive_notification(
        self, session: Session, tag: int, message: json.Message, replay: bool, batch: ReplySink | None
    ) -> None:
        keep = drop = None
        method = message.method
        if method == "notifications/cancelled":
            drop = self._cancelled(session, values.members(message.fields.get("params")))
        elif method == "notifications/initialized":
            session.initialized = True
            keep = "initialized"
        elif method == "notifications/roots/list_changed":
            for server in self._binding.roots_changed(session):
                self._subscriptions.follow(session, server)
        elif method:
            self._pass_on(session, method, message)
        (batch or session.sink).finish(tag, keep, drop)
        if replay and keep:
            self._subscriptions.renew(session)

    def _cancelled(self, session: Session, params: json.Fields) -> str | None:
        if "requestId" not in params:
            return None
        return self.withdraw(session, json.id_key(bytes(params["requestId"])), params.get("reason"))

    def withdraw(self, session: Session, key: object, reason: RawBytes | None = None) -> str | None:
        """A client no longer wants an answer, or notices. The name of the line that need not be kept any longer."""
        listen = session.listens.pop(key, None)
        if listen:
            self._subscriptions.unlisten(listen)
            return listen.keep
        call = session.open.get(key)
        if call:
            call.cancel(reason)
        return None

    def _pass_on(self, session: Session, method: str, message: json.Message) -> None:
        """What Hearth does not know goes to the one server that it can be meant for, or to nobody."""
        servers = self._catalogue.in_view(session)
        instance = session.bound[session.era or versions.MODERN].get(servers[0]) if len(servers) == 1 else None
        if instance and instance.connection and instance.era == session.era and not method.startswith("$"):
            instance.connection.notify(method, message.params)
            self.unknowns.notification(session, method, servers[0].name)
        else:
            self.unknowns.notification(session, method)

    # --- what Hearth answers itself

    def _initialize(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        self._openings.initialize(call, params, meta)
        # Only now: the client's name is known.
        self.unknowns.version(call.session, values.text(params.get("protocolVersion")))

    def _ping(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        call.close(messages.result(call.id, b"{}"))

    def _set_level(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        level = values.text(params.get("level"))
        if level not in versions.LOG_LEVELS:
            raise MessageError(f"params.level must be one of {', '.join(versions.LOG_LEVELS)}", versions.INVALID_PARAMS)
        session = call.session
        session.log_level = level
        for instance in session.bound[versions.LEGACY].values():
            self._levels.sync(instance)
        call.close(messages.result(call.id, b"{}"), keep="logLevel")

    # --- what servers answer

    def _call_tool(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        name = values.text(params.get("name"))
        if name is None:
            raise MessageError("params.name must be a string", versions.INVALID_PARAMS)
        if call.session.mode != FULL and self._search.takes(call.session, name):
            self._search_tools(call, name, params, meta)
        else:
            self._forward_tool(call, name, params, meta)

    @property
    def _search(self) -> "ToolSearch":
        if self._searching is None:
            # Loaded with the first client that searches.
            from hearth.hub.search import ToolSearch

            self._searching = ToolSearch(self._catalogue, self._listing, self._dispatcher)
        return self._searching

    def _search_tools(self, call: Call, name: str, params: json.Fields, meta: json.Fields) -> None:
        inner = self._search.called(call, name, params)
        if inner is None:
            self._search.answer(call, name, params)
        else:
            # From here on it is the direct call that it stands for: a retry of it, too.
            self._forward_tool(call, inner.name, inner.params, meta, inner)

    def _forward_tool(
        self, call: Call, name: str, params: json.Fields, meta: json.Fields, inner: "InnerCall | None" = None
    ) -> None:
        comes_back = call.era == versions.MODERN and ("requestState" in params or "inputResponses" in params)
        if comes_back and self._is_retry(call, "tools/call", params, meta):
            return
        session = call.session
        view = self._catalogue.view(session)
        offer = view.tools.get(name)
        if offer is not None:
            if inner is not None:
                inner.check(offer.item)
            instance = session.bound[call.era].get(offer.server)
            if instance is not None and instance.open:
                request = Request("tools/call", params, meta)
                self._dispatcher.forward(call, request, view, offer.target, instance)
                return
        search = target_lookup.named(session, TOOLS, name, inner.missing if inner else None, inner and inner.check)
        self._dispatcher.submit(call, Request("tools/call", params, meta), search)

    def _call_again(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        self._forward_tool(call, values.text(params.get("name")) or "", params, meta)

    def _get_prompt(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        name = values.text(params.get("name"))
        if name is None:
            raise MessageError("params.name must be a string", versions.INVALID_PARAMS)
        if not self._is_retry(call, "prompts/get", params, meta):
            search = target_lookup.named(call.session, PROMPTS, name)
            self._dispatcher.submit(call, Request("prompts/get", params, meta), search)

    def _read_resource(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        uri = values.text(params.get("uri"))
        if uri is None:
            raise MessageError("params.uri must be a string", versions.INVALID_PARAMS)
        if self._is_retry(call, "resources/read", params, meta):
            return
        call.uri = params["uri"]
        if uri.startswith(URI_SCHEME) and self.results.read(call, uri, self._catalogue.view(call.session)):
            return
        search = target_lookup.resource(call.session, uri, call.era)
        self._dispatcher.submit(call, Request("resources/read", params, meta), search)

    def limit_result(self, call: Call, result: RawBytes) -> RawBytes:
        """Return a result that is longer than its server's `result_limit` as the client gets it."""
        return self.results.shorten(call, result)

    def _complete(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        search = target_lookup.completion(call.session, values.members(params.get("ref")))
        self._dispatcher.submit(call, Request("completion/complete", params, meta), search)

    def _forward_unknown(self, call: Call, method: str, params: json.Fields, meta: json.Fields) -> None:
        """An extension's method has one place to go only where there is one server."""
        servers = self._catalogue.in_view(call.session)
        if len(servers) != 1 or method.startswith("hearth/"):
            raise MessageError(f"unknown method: {method}", versions.METHOD_NOT_FOUND)
        server = servers[0]
        call.known = False
        # Nobody knows what it does, so it is not done twice.
        target = Target(server, {}, method)
        missing = MessageError(f"unknown method: {method}", versions.METHOD_NOT_FOUND)
        search = TargetLookup(lambda view, settled: target, anybody, missing)
        self._dispatcher.submit(call, Request(method, params, meta), search)

    # --- input that is required in the middle of a call

    def _is_retry(self, call: Call, method: str, params: json.Fields, meta: json.Fields) -> bool:
        """Whether it goes on with a parked call. Raises StateRefused and MessageError."""
        if call.era != versions.MODERN:
            return False
        if "inputResponses" in params:
            take_answer(call, params)
        if "requestState" not in params:
            return False
        note_modern(call, meta)
        return self._suspended_calls.retry(call, method, params)

    def call_again(self, call: Call) -> None:
        """What a legacy server demanded first is done: the retry is an ordinary call now."""
        params = input_required.without_retry(call.asked or {})
        meta = values.members(params.get("_meta"))
        connection, call.parked, call.connection = call.connection, None, None
        try:
            if connection is call.instance.connection:
                # The process that demanded it knows of it, also if others are for new calls by now.
                own = {key: value for key, value in json.split(call.params).items() if key != "_meta"}
                target = Target(call.server, own)
                request = Request(call.method, params, meta)
                self._dispatcher.forward(call, request, call.view, target, call.instance)
            else:
                self._again[call.method](call, params, meta)
        except HearthError as problem:
            call.failed(problem)

    def input_required(self, call: Call, result: RawBytes) -> None:
        """A modern server asks a legacy client something before it goes on."""
        self._loop.go_round(call, result)

    def urls_demanded(self, call: Call, message: json.Message) -> bool:
        """A legacy server may demand that its client visits URLs first; True when it is taken care of."""
        urls = input_required.url_elicitations(values.members(message.fields.get("error")))
        if not urls:
            return False
        if call.era == versions.LEGACY:
            # Its client knows what to do, and is told when the server is content.
            self._note_visits(call, urls)
            return False
        if call.method not in input_required.MAY_REQUIRE:
            return False
        try:
            self._suspended_calls.take(call).demanded(urls)
        except HearthError as problem:
            call.failed(problem)
        return True

    def era_refused(self, call: Call, message: json.Message) -> bool:
        """Make a call again in its client's era, where a process of the other one says that it does not serve it."""
        code, _ = values.error(message)
        if code != versions.UNSUPPORTED_VERSION or call.rounds or not call.server.need_both():
            return False
        own = json.split(call.params)
        params = call.asked or dict(own)
        meta = values.members(params.get("_meta"))
        own.pop("_meta", None)
        if call.progress_token is not None:
            meta = {**meta, "progressToken": Raw(call.progress_token)}
        # The server has refused it, so it has not run.
        self._dispatcher.send_to_the_next(call, Request(call.method, params, meta), Target(call.server, own))
        return True

    def login_required(self, call: Call, problem: LoginRequired) -> bool:
        """A server that runs refused the call for want of a login; True when that is taken care of."""
        # Who was refused was not heard.
        return self._dispatcher.logins.offer(call, problem, call.method, lambda: call.send_again(call.params))

    def _note_visits(self, call: Call, urls: list[Question]) -> None:
        for url in urls:
            elicitation = input_required.elicitation_id(json.split(url.params))
            if elicitation is not None and call.connection is not None and call.version >= NEWER_QUESTIONS_SINCE:
                self._visits.begun(call.connection, elicitation, call.session)


def _lister(listing: Listing, kind: Kind) -> Handler:
    return lambda call, params, meta: listing.answer(call, kind, params)
