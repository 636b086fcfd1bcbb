"""Path of every client request to a server: resolve -> authorize -> dispatch -> result.

- resolve: a `TargetLookup` finds the server and the names that the request has there (`Pipeline._resolve`).
- authorize: `Pipeline.authorize` refuses tools that are not approved, then asks each of `authorizers`.
- dispatch: the `Dispatcher` translates the request for the server's era, queues and sends it.
- result: `Pipeline.result` passes a result through each of `result_steps`, then limits its size. Answers that do
  not end the call (input required, another era, a login) are handled here, too.

The router reads messages and answers requests that need no server; it calls `authorize` for those, too, with no target.
Not for `ping`, for the search tools that only list, and for full texts of large results: a session reads there what it
has seen already.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from hearth.errors import HearthError, LoginRequired, MessageError, UpstreamError
from hearth.hub.authorization.permit import Postponed
from hearth.hub.bindings import Binding
from hearth.hub.calls import Call, ClientRequest, ResultStep
from hearth.hub.catalog import Catalog, Target, View
from hearth.hub.dispatcher import Dispatcher
from hearth.hub.events import EVENTS, LoginNeeded
from hearth.hub.input_required import InputRequiredLoop, SuspendedCalls
from hearth.hub.large_results import ResultLimit
from hearth.hub.lookups import TargetLookup, any_server, named_lookup, request_lookup
from hearth.hub.server_messages import UrlVisits
from hearth.mcp import questions, versions
from hearth.mcp.capabilities import NEWER_QUESTIONS_SINCE
from hearth.mcp.catalog import TOOLS
from hearth.mcp.pinning import Withheld
from hearth.mcp.questions import Question
from hearth.upstreams.server import Server
from hearth.wire import json, values
from hearth.wire.values import RawBytes

if TYPE_CHECKING:
    from hearth.hub.search import InnerCall

# How often a call waits for the next process when one has ended before anything could be sent to it.
ENDED_LIMIT = 5

# Raises HearthError for a call that may not be made; the target is None for a request that Hearth answers itself.
Authorizer = Callable[[Call, Target | None], None]


class Pipeline:
    """Runner of the four steps, for all sessions of a daemon.

    `authorizers` and `result_steps` are applied in their order; an empty tuple costs nothing.
    """

    def __init__(
        self,
        catalog: Catalog,
        binding: Binding,
        dispatcher: Dispatcher,
        suspended_calls: SuspendedCalls,
        loop: InputRequiredLoop,
        visits: UrlVisits,
        authorizers: tuple[Authorizer, ...] = (),
        result_steps: tuple[ResultStep, ...] = (),
    ) -> None:
        self._catalog = catalog
        self._binding = binding
        self._dispatcher = dispatcher
        self._suspended_calls = suspended_calls
        self._loop = loop
        self._visits = visits
        self.authorizers = authorizers
        self.result_steps = result_steps
        self.results = ResultLimit()

    def call_tool(self, call: Call, name: str, inner: "InnerCall | None" = None) -> None:
        """Take a `tools/call` through the steps, without a lookup if its server is ready. Raises HearthError."""
        request = call.request
        session = request.session
        view = self._catalog.view(session)
        offer = view.tools.get(name)
        if offer is not None:
            if inner is not None:
                inner.check(offer.item)
            if view.withheld or self.authorizers:
                try:
                    self.authorize(call, view, offer.target)
                except Postponed as order:
                    self._postpone(call, order, functools.partial(self.call_tool, call, name, inner))
                    return
            instance = session.bound[request.era].get(offer.server)
            if instance is not None and instance.open:
                self._dispatcher.dispatch(call, view, offer.target, instance)
                return
        missing, check = (inner.missing, inner.check) if inner else (None, None)
        self.submit(call, named_lookup(session, TOOLS, name, missing, check))

    def submit(self, call: Call, lookup: TargetLookup) -> None:
        """Take a request through the steps. Raises HearthError if it fails at once; a later failure fails the call."""
        request = call.request
        view = self._catalog.view(request.session)
        try:
            target = self._resolve(call, lookup, view)
        except Postponed as order:
            self._postpone(call, order, functools.partial(self.submit, call, lookup))
            return
        if target is not None:
            instance = request.session.bound[request.era].get(target.server)
            if instance is not None and instance.open:
                self._dispatcher.dispatch(call, view, target, instance)
                return
        self._dispatcher.spawn(self._submit_later(call, lookup), call)

    # --- resolve

    def _resolve(self, call: Call, lookup: TargetLookup, view: View, settled: bool = False) -> Target | None:
        """Find a request's target in its client's view, and authorize it."""
        target = lookup.locate(view, settled)
        if target is not None:
            if view.withheld or self.authorizers:
                self.authorize(call, view, target)
        elif lookup.tool is not None and lookup.tool in view.withheld:
            # Left out of the view because it is not approved.
            raise Withheld(*view.withheld[lookup.tool])
        elif lookup.tool is not None and lookup.tool in view.hidden and self._catalog.filter:
            raise self._catalog.filter.refusal(call.session, lookup.tool, *view.hidden[lookup.tool])
        return target

    async def _submit_later(self, call: Call, lookup: TargetLookup) -> None:
        """Start the servers that must run for this call, then dispatch it."""
        session, era = call.session, call.era
        gone: Server | None = None
        ended = 0
        try:
            while True:
                target = await self._find(call, lookup)
                declared = call.request.meta.get(versions.CLIENT_CAPABILITIES_KEY)
                try:
                    instance = await self._binding.bind(
                        session, era, target.server, None if declared is None else bytes(declared)
                    )
                except UpstreamError:
                    if target.server is gone or target.server in self._catalog.in_view(session):
                        raise
                    # A reload may have replaced the server.
                    gone = target.server
                    continue
                if not call.is_open:
                    return
                if instance.connection is None:
                    # The process ended before anything was sent to it: wait for the next one.
                    ended += 1
                    if ended >= ENDED_LIMIT:
                        raise UpstreamError(f"server {instance.name!r} ends as soon as it is started; call again")
                    continue
                view = self._catalog.view(session)
                self._dispatcher.dispatch(call, view, self._resolve(call, lookup, view) or target, instance)
                return
        except LoginRequired as problem:
            again = functools.partial(self.submit, call, lookup)
            if not self._dispatcher.logins.offer(call, problem, call.method, again):
                call.failed(problem)
        except Postponed as order:
            await order.wait(call, functools.partial(self.submit, call, lookup))
        except HearthError as problem:
            call.failed(problem)

    async def _find(self, call: Call, lookup: TargetLookup) -> Target:
        session = call.session
        failure: HearthError | None = None
        tried: set[Server] = set()
        while True:
            view = self._catalog.view(session)
            target = self._resolve(call, lookup, view)
            if target:
                return target
            # Looked up again each time: a reload may have replaced servers in the meantime.
            untried = (server for server in self._catalog.unknown(session) if server not in tried)
            server = next((server for server in untried if lookup.may_have(server)), None)
            if server is None:
                target = self._resolve(call, lookup, view, settled=True)
                if target:
                    return target
                raise failure or self._gone(call) or lookup.missing
            tried.add(server)
            try:
                await self._binding.bind(session, call.era, server)
            except HearthError as problem:
                failure = problem
                if server not in self._catalog.in_view(session):
                    failure = UpstreamError(f"server {server.name!r} was taken out of the config before it was ready")

    def _gone(self, call: Call) -> HearthError | None:
        """Return the error for a session whose only server was removed from the config."""
        server = call.session.server
        if server is None or self._catalog.in_view(call.session):
            return None
        sentence = f"server {server!r} is not in the config any more; this session is for it alone, and waits for it"
        return MessageError(sentence, versions.INVALID_PARAMS)

    # --- authorize

    def authorize(self, call: Call, view: View, target: Target | None) -> None:
        """Raise HearthError if the call may not be made: Withheld for a tool that is not approved, or is blocked.

        Called again before a call is sent that has waited: its server may have changed the tool's definition since the
        lookup.
        """
        if view.withheld and target is not None and call.method == "tools/call":
            tool = target.server.name, values.text(target.changes.get("name")) or ""
            for each in view.withheld.values():
                if each[:2] == tool:
                    raise Withheld(*each)
        for authorizer in self.authorizers:
            authorizer(call, target)

    def _postpone(self, call: Call, order: Postponed, again: Callable[[], None]) -> None:
        self._dispatcher.spawn(order.wait(call, again), call)

    def authorize_now(self, call: Call, target: Target) -> None:
        """Authorize a call that has waited, by its client's current view. Raises HearthError."""
        self.authorize(call, self._catalog.view(call.session), target)

    # --- dispatch

    def redispatch(self, call: Call, target: Target) -> None:
        """Send a call that a process has not accepted to the process that takes new calls now."""
        missing = UpstreamError(f"server {target.server.name!r} has just ended; call again")
        lookup = TargetLookup(lambda view, settled: target, any_server, missing)
        self._dispatcher.spawn(self._submit_later(call, lookup), call)

    # --- result

    def result(self, call: Call, result: RawBytes) -> RawBytes:
        """Return a server's result as the client gets it: through every step, then within `result_limit`."""
        for step in self.result_steps:
            result = step(call, result)
        attempt = call.attempt
        limit = attempt.server.spec.result_limit if attempt else 0
        if limit and len(result) > limit and call.method == "tools/call":
            result = self.results.shorten(call, result)
        return result

    def input_required(self, call: Call, result: RawBytes) -> None:
        """Ask a legacy client for the input that a modern server requires before it continues."""
        self._loop.go_round(call, result)

    def urls_demanded(self, call: Call, message: json.Message) -> bool:
        """Handle a legacy server's demand that its client visits URLs first; return True if the demand is handled."""
        urls = questions.url_elicitations(values.members(message.fields.get("error")))
        if not urls:
            return False
        if call.era == versions.LEGACY:
            # A legacy client handles the error itself, and is notified when the server is satisfied.
            self._note_visits(call, urls)
            return False
        if call.method not in questions.MAY_REQUIRE:
            return False
        try:
            self._suspended_calls.take(call).demanded(urls)
        except HearthError as problem:
            call.failed(problem)
        return True

    def _note_visits(self, call: Call, urls: list[Question]) -> None:
        for url in urls:
            elicitation = questions.elicitation_id(json.split(url.params))
            if elicitation is not None and call.attempt is not None and call.version >= NEWER_QUESTIONS_SINCE:
                self._visits.begun(call.attempt.connection, elicitation, call.session)

    def call_again(self, call: Call) -> None:
        """Make a call again whose legacy server has got what it demanded: the retry is an ordinary call now."""
        attempt = call.attempt
        assert attempt is not None
        call.replace_params(questions.without_retry(call.request.params))
        call.detach()
        try:
            if attempt.connection is attempt.instance.connection:
                # The process that made the demand knows of its outcome, even if new calls go to another process by now.
                target = Target(attempt.server, _own_params(attempt.params))
                self.authorize_now(call, target)
                self._dispatcher.dispatch(call, attempt.view, target, attempt.instance)
            else:
                self.submit(call, request_lookup(call.request))
        except HearthError as problem:
            call.failed(problem)

    def era_refused(self, call: Call, message: json.Message) -> bool:
        """Make a call again in its client's era if a process of the other era refused that revision."""
        attempt = call.attempt
        assert attempt is not None
        code, _ = values.error(message)
        if code != versions.UNSUPPORTED_VERSION or call.rounds or not attempt.server.need_both():
            return False
        # The server has refused it, so it has not run.
        self.redispatch(call, Target(attempt.server, _own_params(attempt.params)))
        return True

    def login_required(self, call: Call, problem: LoginRequired) -> bool:
        """Offer a login if a running server refused the call for lack of one; return True if it is offered."""
        attempt = call.attempt
        assert attempt is not None
        EVENTS.emit(LoginNeeded(server=problem.server))

        def send_again() -> None:
            # The login may have taken minutes, and the policy may be another by now.
            self.authorize_now(call, Target(attempt.server, _own_params(attempt.params)))
            call.send_again(attempt.params)

        # A call that was refused was not executed.
        return self._dispatcher.logins.offer(call, problem, call.method, send_again)


def _own_params(sent: bytes) -> dict[str, json.Raw]:
    """Return the params as a server got them, without the `_meta` of the one request."""
    return {key: value for key, value in json.split(sent).items() if key != "_meta"}


def unknown_method(request: ClientRequest, server: Server) -> TargetLookup:
    """Return the lookup for a method that Hearth does not know, on the only server that it can be meant for."""
    # Not safe to repeat: its effects are not known.
    target = Target(server, {}, request.method)
    missing = MessageError(f"unknown method: {request.method}", versions.METHOD_NOT_FOUND)
    return TargetLookup(lambda view, settled: target, any_server, missing)
