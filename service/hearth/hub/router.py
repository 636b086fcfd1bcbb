"""A client's line to whoever answers it. One dispatch table per era; payloads go through as raw bytes."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from msgspec import Raw

from hearth.errors import HearthError, MessageError, UpstreamError
from hearth.hub.calls import Call, Listen, unrepeatable
from hearth.hub.catalogue import Catalogue, Offer
from hearth.hub.questions import Questions
from hearth.hub.sessions import Session
from hearth.mcp import answers, eras, names, translate
from hearth.upstreams.upstream import FAILED, READY, Upstream
from hearth.wire import json, values

_CALL = b'"tools/call"'


class Router:
    """Takes parsed messages of sessions and sees to it that each request is answered once."""

    def __init__(
        self,
        identity: answers.Identity,
        catalogue: Catalogue,
        questions: Questions,
        upstreams: Callable[[], Iterable[Upstream]],
        list_timeout: Callable[[], float],
    ) -> None:
        self._identity = identity
        self._catalogue = catalogue
        self._questions = questions
        self._upstreams = upstreams
        self._list_timeout = list_timeout
        self._tasks: set[asyncio.Task[None]] = set()
        self._legacy = {
            "tools/call": self._call_tool,
            "tools/list": self._list_tools,
            "initialize": self._initialize,
            "ping": self._ping,
        }
        self._modern = {
            "tools/call": self._call_tool,
            "tools/list": self._list_tools,
            "server/discover": self._discover,
            "subscriptions/listen": self._listen,
        }

    # --- what came in

    def receive(self, session: Session, tag: int, message: json.Message, resent: bool, replay: bool) -> None:
        """Take one message of a session's client. `resent` and `replay`: another daemon may have seen it before."""
        id = message.id
        if id is None:
            self._receive_notification(session, tag, message, replay)
        elif message.method is None:
            self._questions.receive_answer(session, message)
            session.outlet.finish(tag)
        else:
            key = json.id_key(id)
            if key in session.open or key in session.listens:
                problem = MessageError("a request with this id is still in flight", eras.INVALID_REQUEST)
                session.outlet.answer(tag, answers.failure(id, problem))
                return
            call = session.open[key] = Call(session, tag, id, key, resent, replay)
            try:
                self._receive_request(call, message.method, message.fields.get("params"))
            except HearthError as problem:
                call.failed(problem)

    def _receive_request(self, call: Call, method: str, raw: Raw | None) -> None:
        params = {} if raw is None else json.split(raw)
        meta = values.members(params["_meta"]) if "_meta" in params else {}
        handlers = self._legacy
        # `initialize` is legacy whatever it carries; elsewhere the version in `_meta` tells, request by request.
        if eras.PROTOCOL_VERSION_KEY in meta and method != "initialize":
            eras.check_envelope(meta)
            call.era = eras.MODERN
            self._note_modern(call.session, meta)
            handlers = self._modern
        handler = handlers.get(method)
        if handler is None:
            raise MessageError(f"unknown method: {method}", eras.METHOD_NOT_FOUND)
        handler(call, params, meta)

    def _note_modern(self, session: Session, meta: json.Fields) -> None:
        if session.era is None:
            session.era = eras.MODERN
            session.version = values.text(meta[eras.PROTOCOL_VERSION_KEY])
            session.client = _client_info(meta.get(eras.CLIENT_INFO_KEY))

    def _receive_notification(self, session: Session, tag: int, message: json.Message, replay: bool) -> None:
        keep = drop = None
        if message.method == "notifications/cancelled":
            drop = self._cancelled(session, values.members(message.fields.get("params")))
        elif message.method == "notifications/initialized":
            session.initialized = True
            keep = "initialized"
        session.outlet.finish(tag, keep, drop)
        if replay and keep:
            # The client's list is of another daemon; it is told what it was promised.
            self.tell_tools_changed(session)

    def _cancelled(self, session: Session, params: json.Fields) -> str | None:
        if "requestId" not in params:
            return None
        key = json.id_key(bytes(params["requestId"]))
        listen = session.listens.pop(key, None)
        if listen:
            return listen.keep
        call = session.open.get(key)
        if call:
            call.cancel(params.get("reason"))
        return None

    # --- the openings

    def _initialize(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        session = call.session
        version, body = self._identity.initialized(
            values.text(params.get("protocolVersion")), self._instructions(session)
        )
        session.era = eras.LEGACY
        session.version = version
        session.client = _client_info(params.get("clientInfo"))
        session.capabilities = values.members(params.get("capabilities"))
        if "clientInfo" in params:
            session.caller = translate.Caller(info=bytes(params["clientInfo"]))
        call.close(answers.result(call.id, body), keep="initialize")

    def _discover(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        call.close(answers.result(call.id, self._identity.discovered(self._instructions(call.session))))

    def _instructions(self, session: Session) -> str | None:
        for upstream in self._upstreams():
            if upstream.name == session.server and upstream.greeting:
                return upstream.greeting.instructions
        return None

    def _ping(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        call.close(answers.result(call.id, b"{}"))

    # --- subscriptions of modern clients

    def _listen(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        session = call.session
        wanted = json.split(params.get("notifications", b""))
        listen = Listen(session, call.id, values.is_true(wanted.get("toolsListChanged")))
        del session.open[call.key]
        session.listens[call.key] = listen
        session.outlet.finish(call.tag, keep=listen.keep)
        if call.replayed:
            # Acknowledged by another daemon, whose list the client has.
            listen.tools_changed()
        else:
            listen.acknowledge()

    # --- tools

    def _list_tools(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        if "cursor" in params:
            raise MessageError("this cursor is not known: the list has one page", eras.INVALID_PARAMS)
        unknown = [upstream for upstream in self._in_view(call.session) if upstream.tools is None]
        if call.session.server is None:
            # One that failed before is tried again, and nobody waits for it: it is announced when it comes.
            for upstream in unknown:
                if upstream.state == FAILED:
                    self._spawn(_try(upstream))
            unknown = [upstream for upstream in unknown if upstream.state != FAILED]
        if unknown:
            self._spawn(self._list_after(call, unknown))
        else:
            self._answer_list(call)

    async def _list_after(self, call: Call, unknown: list[Upstream]) -> None:
        """Wait, bounded, for servers that have never said what they offer; go on without the stragglers."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._list_timeout()
        asked: dict[Upstream, asyncio.Future[None]] = {}
        while unknown and loop.time() < deadline:
            asked |= {upstream: asyncio.ensure_future(_try(upstream)) for upstream in unknown}
            await asyncio.wait([asked[upstream] for upstream in unknown], timeout=deadline - loop.time())
            # A reload may have put others in their place meanwhile.
            unknown = [up for up in self._in_view(call.session) if up.tools is None and up not in asked]
        if call.session.server is not None:
            # Offering one server only, its failure is the answer; among others it is left out.
            failed = [up for up in self._in_view(call.session) if up.state == FAILED]
            if failed:
                call.failed(UpstreamError(failed[0].error or f"server {failed[0].name!r} could not be started"))
        self._answer_list(call)

    def _answer_list(self, call: Call) -> None:
        call.session.listed = self._catalogue.version
        body = self._catalogue.list_result(call.era, call.session.server, self._identity.info)
        call.close(answers.result(call.id, body))

    def _in_view(self, session: Session) -> list[Upstream]:
        return [up for up in self._upstreams() if session.server is None or up.name == session.server]

    def _call_tool(self, call: Call, params: json.Fields, meta: json.Fields) -> None:
        name = values.text(params.get("name"))
        if name is None:
            raise MessageError("params.name must be a string", eras.INVALID_PARAMS)
        offer = self._catalogue.find(call.session.server, name)
        if offer and offer.upstream.state == READY:
            self._forward(call, offer, params, meta)
        else:
            self._spawn(self._call_after(call, name, params, meta))

    async def _call_after(self, call: Call, name: str, params: json.Fields, meta: json.Fields) -> None:
        """Start what must run for this call, then forward it."""
        try:
            offer = await self._find_ready(call.session, name)
            if call.is_open:
                self._forward(call, offer, params, meta)
        except HearthError as problem:
            call.failed(problem)

    async def _find_ready(self, session: Session, name: str) -> Offer:
        while True:
            offer = await self._find_by_starting(session, name)
            try:
                await offer.upstream.ensure()
            except UpstreamError:
                if offer.upstream in self._upstreams():
                    raise
                # A reload has put another in its place.
            else:
                return offer

    async def _find_by_starting(self, session: Session, name: str) -> Offer:
        failure: HearthError | None = None
        tried: set[Upstream] = set()
        while True:
            offer = self._catalogue.find(session.server, name)
            if offer:
                return offer
            # Looked up anew each time: a reload may have put others in their place meanwhile.
            untried = (up for up in self._in_view(session) if up.tools is None and up not in tried)
            upstream = next((up for up in untried if session.server or names.may_have(up.name, name)), None)
            if upstream is None:
                raise failure or MessageError(f"unknown tool: {name}", eras.INVALID_PARAMS)
            tried.add(upstream)
            try:
                await upstream.ensure()
            except HearthError as problem:
                failure = problem

    def _forward(self, call: Call, offer: Offer, params: json.Fields, meta: json.Fields) -> None:
        upstream, tool = offer
        connection, era = upstream.connection, upstream.era
        if connection is None or era is None:
            raise UpstreamError(f"server {upstream.name!r} has just ended; call again")
        if (call.resent or call.replayed) and not tool.safe_to_repeat:
            raise unrepeatable(tool.name)
        params["name"] = tool.wire_name
        call.progress_token = meta.get("progressToken")
        if meta or era == eras.MODERN:
            token = b"%d" % connection.reserve() if call.progress_token is not None else None
            sent = translate.request_meta(meta, era, call.session.caller, token)
            params.pop("_meta", None)
            if sent:
                params["_meta"] = Raw(json.join(sent))
        call.send(connection, era, _CALL, json.join(params))

    # --- changes

    def announce_tools(self, sessions: Iterable[Session]) -> None:
        """Tell everybody whose client saw another list."""
        for session in sessions:
            # Who never asked for the list has nothing to be told, unless it asked for exactly that.
            if session.listed == self._catalogue.version or (session.listed is None and not session.listens):
                continue
            session.listed = self._catalogue.version
            self.tell_tools_changed(session)

    def try_unknown(self) -> None:
        """Start what has never said what it offers: who has seen a list without it is told when it has."""
        for upstream in self._upstreams():
            if upstream.tools is None:
                self._spawn(_try(upstream))

    def tell_tools_changed(self, session: Session) -> None:
        """The notice in the session's era."""
        if session.initialized:
            session.outlet.notify(answers.notification("notifications/tools/list_changed"), topic="tools")
        for listen in session.listens.values():
            listen.tools_changed()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _try(upstream: Upstream) -> None:
    try:
        await upstream.ensure()
    except HearthError:
        # It is in the log and in the status.
        pass


def _client_info(raw: Raw | None) -> dict[str, str]:
    fields = values.members(raw)
    found = {key: values.text(fields.get(key)) for key in ("name", "title", "version")}
    return {key: value for key, value in found.items() if value is not None}
