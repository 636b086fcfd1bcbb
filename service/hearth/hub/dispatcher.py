"""A client's request to the server that has what it asks for: found, started if it does not run, and sent."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, NamedTuple

from msgspec import Raw

from hearth.errors import HearthError, LoginRequired, MessageError, UpstreamError
from hearth.hub import log_levels
from hearth.hub.bindings import Binding
from hearth.hub.calls import Call, guarded, unrepeatable
from hearth.hub.catalog import Catalog, Target, View
from hearth.hub.deadlines import Deadlines
from hearth.hub.log_levels import LogLevels
from hearth.hub.logins import Logins
from hearth.hub.target_lookup import TargetLookup, anybody
from hearth.mcp import translate, versions
from hearth.mcp.pinning import Withheld
from hearth.upstreams.connection import Connection
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.wire import json, values

# How often a call waits for the next process when one has ended before it could be told anything.
ENDED_LIMIT = 5


class Request(NamedTuple):
    """What a client sent, as far as it is looked at. The params are written to on their way."""

    method: str
    params: json.Fields
    meta: json.Fields


class Dispatcher:
    """Sends calls."""

    def __init__(
        self,
        catalogue: Catalog,
        binding: Binding,
        levels: LogLevels,
        deadlines: Deadlines,
        find: Callable[[str], Server | None] = lambda name: None,
        server_info: bytes = b"{}",
    ) -> None:
        self._catalogue = catalogue
        self._binding = binding
        self._levels = levels
        self._deadlines = deadlines
        self._raw_methods: dict[str, bytes] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.logins = Logins(find, self.spawn, server_info)

    def submit(self, call: Call, request: Request, search: TargetLookup) -> None:
        """Forward a request. Raises HearthError when it is clear at once that it cannot be; later, the call fails."""
        session = call.session
        view = self._catalogue.view(session)
        target = search.locate(view, False)
        if target is not None:
            instance = session.bound[call.era].get(target.server)
            if instance is not None and instance.open:
                self.forward(call, request, view, target, instance)
                return
        self.spawn(self._submit_later(call, request, search), call)

    async def _submit_later(self, call: Call, request: Request, search: TargetLookup) -> None:
        """Start what must run for this call, then forward it."""
        gone: Server | None = None
        ended = 0
        try:
            while True:
                target = await self._find(call, search)
                declared = request.meta.get(versions.CLIENT_CAPABILITIES_KEY)
                try:
                    instance = await self._binding.bind(
                        call.session, call.era, target.server, None if declared is None else bytes(declared)
                    )
                except UpstreamError:
                    if target.server is gone or target.server in self._catalogue.in_view(call.session):
                        raise
                    # A reload may have put another in its place.
                    gone = target.server
                    continue
                if not call.is_open:
                    return
                if instance.connection is None:
                    # It ended before it could be told anything: the next one is waited for.
                    ended += 1
                    if ended >= ENDED_LIMIT:
                        raise UpstreamError(f"server {instance.name!r} ends as soon as it is started; call again")
                    continue
                view = self._catalogue.view(call.session)
                self.forward(call, request, view, search.locate(view, False) or target, instance)
                return
        except LoginRequired as problem:
            call.declared = request.meta.get(versions.CLIENT_CAPABILITIES_KEY, b"{}")
            again = functools.partial(self.submit, call, request, search)
            if not self.logins.offer(call, problem, request.method, again):
                call.failed(problem)
        except HearthError as problem:
            call.failed(problem)

    async def _find(self, call: Call, search: TargetLookup) -> Target:
        failure: HearthError | None = None
        tried: set[Server] = set()
        while True:
            view = self._catalogue.view(call.session)
            target = search.locate(view, False)
            if target:
                return target
            # Looked up anew each time: a reload may have put others in their place meanwhile.
            untried = (server for server in self._catalogue.unknown(call.session) if server not in tried)
            server = next((server for server in untried if search.may_have(server)), None)
            if server is None:
                target = search.locate(view, True)
                if target:
                    return target
                raise failure or self._gone(call) or search.missing
            tried.add(server)
            try:
                await self._binding.bind(call.session, call.era, server)
            except HearthError as problem:
                is_there = server in self._catalogue.in_view(call.session)
                failure = problem if is_there else _taken_out(server)

    def _gone(self, call: Call) -> HearthError | None:
        """Whether the one server that this session is for was taken out of the config."""
        server = call.session.server
        if server is None or self._catalogue.in_view(call.session):
            return None
        sentence = f"server {server!r} is not in the config any more; this session is for it alone, and waits for it"
        return MessageError(sentence, versions.INVALID_PARAMS)

    def forward(self, call: Call, request: Request, view: View, target: Target, instance: Instance) -> None:
        """Send it to an instance that is ready, or to the next one if that has just ended. Raises UpstreamError."""
        if (call.resent or call.replayed) and target.unrepeatable is not None:
            raise unrepeatable(target.unrepeatable)
        if instance.limited and instance.queue.full:
            instance.queue.add(_QueuedCall(self, call, request, view, target, instance, monotonic()))
            if not self._deadlines.armed:
                self._deadlines.arm()
        else:
            self.deliver(call, request, view, target, instance)

    def deliver(self, call: Call, request: Request, view: View, target: Target, instance: Instance) -> None:
        """Send it now, however many are in flight. Raises UpstreamError."""
        try:
            self._send(call, request, view, target, instance)
        except UpstreamError:
            if instance.open or instance.obsolete:
                raise
            self.send_to_the_next(call, request, target)

    def send_to_the_next(self, call: Call, request: Request, target: Target) -> None:
        """Send a call that a process has not taken to the one that takes new calls now."""
        if call.asked is not None:
            # As it came: some of it has been written over.
            request = request._replace(params=call.asked)

        def locate(view: View, settled: bool) -> Target:
            self.check_allowed(call, request, target)
            return target

        missing = UpstreamError(f"server {target.server.name!r} has just ended; call again")
        self.spawn(self._submit_later(call, request, TargetLookup(locate, anybody, missing)), call)

    def check_allowed(self, call: Call, request: Request, target: Target) -> None:
        """See to it that the tool is still one that may be called: since it was found, its server may describe it
        otherwise. Raises Withheld."""
        withheld = self._catalogue.view(call.session).withheld
        if withheld and request.method == "tools/call":
            tool = target.server.name, values.text(target.changes.get("name")) or ""
            for each in withheld.values():
                if each[:2] == tool:
                    raise Withheld(*each)

    def _send(self, call: Call, request: Request, view: View, target: Target, instance: Instance) -> None:
        method, params, meta = request
        connection, era = instance.connection, instance.era
        if connection is None:
            raise UpstreamError(f"server {instance.name!r} has just ended; call again")
        if call.era == versions.MODERN != era:
            if "requestState" in params:
                from hearth.mcp.request_state import EXPIRED, StateRefused

                # Not Hearth's own, or of a daemon that is gone; and a legacy server gives none.
                raise StateRefused(EXPIRED)
            call.asked = dict(params)
            params.pop("inputResponses", None)
        params.update(target.changes)
        call.progress_token = meta.get("progressToken")
        if meta or era == versions.MODERN or call.era == versions.MODERN:
            self._write_meta(call, params, meta, instance, connection)
        raw_method = self._raw_methods.get(method)
        if raw_method is None:
            raw_method = self._raw_method(method)
        call.send(target.server, instance, connection, method, raw_method, json.join(params), view)
        if not self._deadlines.armed:
            self._deadlines.arm()

    def _raw_method(self, method: str) -> bytes:
        raw = json.dumps(method)
        # The methods of extensions are the client's choice, and there may be very many.
        if len(self._raw_methods) < 100:
            self._raw_methods[method] = raw
        return raw

    def _write_meta(
        self, call: Call, params: json.Fields, meta: json.Fields, instance: Instance, connection: Connection
    ) -> None:
        level = None
        if call.era == versions.LEGACY:
            wanted = call.session.log_level or log_levels.DEFAULT
            if not meta and instance.era == versions.MODERN:
                params["_meta"] = call.session.caller.envelope(wanted)
                return
            level = json.dumps(wanted)
        else:
            note_modern(call, meta)
            if call.log_level and instance.era == versions.LEGACY:
                self._levels.sync(instance, call.log_level)
        # Only now: the level may have been sent by a request of its own.
        token = b"%d" % connection.reserve() if call.progress_token is not None else None
        sent = translate.request_meta(meta, instance.era, call.session.caller, token, level)
        params.pop("_meta", None)
        if sent:
            params["_meta"] = Raw(json.join(sent))

    def spawn(self, work: Coroutine[Any, Any, None], call: Call | None = None) -> None:
        """Go on with something, for that call or for nobody."""
        task = asyncio.create_task(guarded(work, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _taken_out(server: Server) -> HearthError:
    return UpstreamError(f"server {server.name!r} was taken out of the config before it was ready")


def note_modern(call: Call, meta: json.Fields) -> None:
    """What a modern request says of itself that its own answer depends on."""
    call.progress_token = meta.get("progressToken")
    call.declared = meta.get(versions.CLIENT_CAPABILITIES_KEY, b"{}")
    call.log_level = values.text(meta.get(versions.LOG_LEVEL_KEY))


class _QueuedCall(NamedTuple):
    """A call that waits until its server has fewer in flight."""

    forwarding: Dispatcher
    call: Call
    request: Request
    view: View
    target: Target
    instance: Instance
    # Since when it has waited.
    since: float

    def send(self) -> None:
        if not self.call.is_open or self.call.session.left:
            return
        try:
            self.forwarding.check_allowed(self.call, self.request, self.target)
            self.forwarding.deliver(self.call, self.request, self.view, self.target, self.instance)
        except HearthError as problem:
            self.call.failed(problem)

    def failed(self, problem: HearthError) -> None:
        self.call.failed(problem)
