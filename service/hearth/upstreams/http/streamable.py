"""Streamable HTTP, 2025-03-26 to 2026-07-28: each message is a POST, and its answer comes as JSON or as a stream."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hearth.errors import MessageError, UpstreamError
from hearth.mcp import http_headers, versions
from hearth.upstreams.handshake import Reply
from hearth.upstreams.http import conversation
from hearth.upstreams.http.conversation import (
    DISCOVER,
    INITIALIZE,
    LISTEN,
    SESSION_HEADER,
    VERSION_HEADER,
    HttpRefusal,
    OutgoingRequest,
    ProbeOrder,
    UpstreamSession,
    Verdict,
    judge,
)
from hearth.upstreams.http.streams import STREAM, EventListener, RequestStream
from hearth.wire import json, values
from hearth.wire.lines import Item

if TYPE_CHECKING:
    from hearth.upstreams.http.client import Response
    from hearth.upstreams.http.connection import HttpUpstreamConnection

# Concurrent requests, each on a connection of its own; others wait for their turn. Standing streams and answers to the
# server do not count, or a server that asks back might never be answered.
REQUESTS_AT_ONCE = 128
# Time without any answer to one opening before the other is sent.
OPENING_SECONDS = 5.0
# Time for the server to accept a notification or an answer.
TELL_SECONDS = 30.0
RENEWAL_SECONDS = 30.0
# Time for the owner to list the tools again, after a server has missed a header.
LEARNING_SECONDS = 10.0

# Time for the server to set a level of messages or to subscribe; some never answer that.
SETTLE_SECONDS = 1.0

_JSON = "application/json"
# Requests that later ones must not overtake: they change what the server sends while it works on those.
_SETTINGS = frozenset({"logging/setLevel", "resources/subscribe", LISTEN})
_SENDING = {"Accept": f"{_JSON}, {STREAM}", "Content-Type": _JSON}
# Requests that may be sent twice. A tool call may not: its first sending may have had an effect.
_REPEATABLE = frozenset(
    {
        *("server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list"),
        *("resources/read", "prompts/get", "completion/complete", "ping"),
        *("subscriptions/listen", "resources/subscribe", "resources/unsubscribe", "logging/setLevel"),
    }
)
_TOOLS_CHANGED = json.Message(None, "notifications/tools/list_changed", {})


class StreamableCarrier:
    """Carrier of one conversation. `may_fall_back`: whether the old transport is worth a try."""

    def __init__(self, connection: "HttpUpstreamConnection", may_fall_back: bool) -> None:
        self._connection = connection
        self._may_fall_back = may_fall_back
        self._era: str | None = None
        self._version = versions.NEWEST_MODERN
        self.session = UpstreamSession()
        self._listener = EventListener(connection, self)
        self._places = asyncio.Semaphore(REQUESTS_AT_ONCE)
        # Cleared while requests have to wait until the server has accepted `initialized`, or for a new session.
        self._ready = asyncio.Event()
        self._ready.set()
        self._openings = ProbeOrder(min(OPENING_SECONDS, connection.spec.start_timeout / 2))
        self._lane = asyncio.Lock()
        self._renewing: asyncio.Task[None] | None = None
        # Settings that the server has not confirmed yet, by the numbers of their requests.
        self._settling: dict[int, asyncio.Future[None]] = {}
        self._indexes: Mapping[str, http_headers.Index] = {}
        self._learned = asyncio.Event()

    # --- as a carrier

    def ask(self, request: OutgoingRequest) -> None:
        """Send a request."""
        if request.is_opening:
            self._openings.ask(request.method)
        if request.method == INITIALIZE:
            self.session.opening = request.params
        self.session.note(request.method, request.params)
        # A callback instead of `finally`: a task that is cancelled before its first step never runs its `finally`.
        request.task = self._connection.spawn(self._ask(request))
        request.task.add_done_callback(lambda task: self._asked(request, task))
        if request.method in _SETTINGS and (request.method != LISTEN or b'"resourceSubscriptions"' in request.params):
            self._settling[request.number] = asyncio.get_running_loop().create_future()
            request.task.add_done_callback(lambda _: self._settle(request))

    def tell(self, method: str, payload: bytes) -> None:
        """Send a notification, after those before it. The modern era has none over HTTP."""
        if method == "notifications/initialized":
            self._ready.clear()
            self._connection.spawn(self._introduce(payload))
        elif self._era != versions.MODERN:
            self._connection.spawn(self._tell_in_order(payload))

    def answer(self, payload: bytes) -> "asyncio.Task[None]":
        """Send an answer, which waits for no notification; return the task that does."""
        return self._connection.spawn(self._tell(payload))

    def withdraw(self, request: OutgoingRequest | None, payload: bytes) -> None:
        """Close the stream, which cancels in the modern era; in the legacy era, send a notification first."""
        # No notification for a request that the server did not get, nor for `initialize`, which cannot be cancelled.
        if request is None:
            return
        if self._era == versions.LEGACY and request.sent and not request.is_opening:
            self._connection.spawn(self._cancel(request, payload))
        else:
            request.drop()

    def greeted(self, era: str, version: str) -> None:
        """Note the result of the handshake; end a legacy session that is not needed in the modern era."""
        self._era = era
        if era == versions.MODERN:
            self._version = version or self._version
            self._give_back(self.session.headers())

    def learn_headers(self, indexes: Mapping[str, http_headers.Index]) -> None:
        """Set which arguments of which tools go into headers, too."""
        self._indexes = indexes
        self._learned.set()

    async def say_goodbye(self) -> None:
        """End the session."""
        if self.session.id and self._era != versions.MODERN:
            await self._delete(self.session.headers())

    # --- asking

    async def _ask(self, request: OutgoingRequest) -> None:
        try:
            if request.is_opening:
                await self._openings.wait_for_turn(request.method)
                await self._post(request, is_last=True)
            elif request.method == LISTEN:
                await self._exchange(request)
            else:
                async with self._places:
                    await self._exchange(request)
        except UpstreamError as exc:
            self._connection.fail(request.number, exc)

    def _asked(self, request: OutgoingRequest, task: "asyncio.Task[None]") -> None:
        if request.is_opening:
            self._openings.done()
        if request.task is task:  # or else another carrier has it now
            self._connection.finished(request)

    def _settle(self, request: OutgoingRequest) -> None:
        settled = self._settling.pop(request.number, None)
        if settled and not settled.done():
            settled.set_result(None)

    async def _exchange(self, request: OutgoingRequest) -> None:
        """Send a request, and repeat it once after a refusal that can be repaired."""
        await self._ready.wait()
        if self._settling and request.method not in _SETTINGS:
            # Each POST takes a way of its own: a call must not overtake the level or the subscription of its messages.
            waiting = dict(self._settling)
            await asyncio.wait(waiting.values(), timeout=SETTLE_SECONDS)
            for number in waiting:
                self._settling.pop(number, None)
        generation = self.session.generation
        verdict = await self._post(request, is_last=False)
        if verdict is Verdict.RENEW:
            await self.renew(generation)
        elif verdict is Verdict.LEARN:
            await self._learn_anew()
        else:
            return
        await self._post(request, is_last=True)

    async def _post(self, request: OutgoingRequest, is_last: bool) -> Verdict | None:
        """Send a request and handle its response; return the verdict on a refusal. Raises UpstreamError."""
        sending = {**_SENDING, **self._headers(request)}
        may_repeat = request.method in _REPEATABLE
        send = self._connection.client.send
        async with await send("POST", sending, request.body, may_repeat, on_sent=request.was_sent) as response:
            if request.method == DISCOVER:
                # Some legacy servers create a session for any request.
                self._give_back({SESSION_HEADER: response.header(SESSION_HEADER) or ""})
            if 200 <= response.status < 300:
                await self._receive(request, response)
                return None
            body = await response.body(self._connection.message_limit)
        refusal = HttpRefusal.read(request, response.status, body)
        verdict = judge(refusal, self._era, self.session.id is not None, is_last)
        if verdict not in (Verdict.RENEW, Verdict.LEARN):
            await self._act(request, refusal, verdict)
        return verdict

    def _headers(self, request: OutgoingRequest) -> dict[str, str]:
        if self._era == versions.MODERN or request.method == DISCOVER:
            return {VERSION_HEADER: self._version, **self._repeated(request)}
        # A new session is asked for without the old one's id.
        return {} if request.method == INITIALIZE else self.session.headers()

    def _repeated(self, request: OutgoingRequest) -> dict[str, str]:
        """Return the headers in which the modern era repeats parts of a request."""
        try:
            found = http_headers.standard(request.method, request.params)
        except MessageError as exc:
            raise UpstreamError(str(exc)) from exc
        if self._indexes and request.method == "tools/call":
            params = values.members(request.params)
            index = self._indexes.get(values.text(params.get("name")) or "", {})
            found.update(http_headers.values(index, params.get("arguments")))
        return found

    # --- replies

    async def _receive(self, request: OutgoingRequest, response: "Response") -> None:
        name = self._connection.name
        if response.content_type == STREAM:
            await RequestStream(self._connection, self, request).read(response)
        elif response.content_type == _JSON:
            self.hand_over(request, conversation.items(await response.body(self._connection.message_limit)), response)
            if self._connection.awaits(request.number):
                raise UpstreamError(f"server {name!r} answered with something that is no answer to what it was asked")
        else:
            kind = response.content_type or "nothing"
            raise UpstreamError(
                f"server {name!r} answered HTTP {response.status} with {kind} instead of JSON or an event stream:"
                f" check {self._connection.words.url}"
            )

    def hand_over(self, request: OutgoingRequest, items: list[Item], response: "Response") -> None:
        """Pass on the messages for a request. A session begins with the answer to `initialize`."""
        for item in items if request.is_opening else ():
            if isinstance(item, json.Message) and item.method is None:
                self._openings.answered(item)
                if request.method == INITIALIZE and item.result is not None:
                    self.session.begin(response.header(SESSION_HEADER), item.result)
                    if self._era == versions.MODERN:
                        self._give_back(self.session.headers())
        self._connection.take(items, request.number)
        if request.method == LISTEN:
            # The first message is the acknowledgement (2026-07-28, basic/utilities/subscriptions).
            self._settle(request)

    async def _act(self, request: OutgoingRequest, refusal: HttpRefusal, verdict: Verdict) -> None:
        connection = self._connection
        if verdict is Verdict.FALL_BACK and await self._falls_back(request, refusal.status):
            return
        problem = connection.refused(refusal.status)
        if verdict is Verdict.FAIL and refusal.status == 404 and self.session.id:
            # Only the second attempt gets here: the first one renews the session.
            problem = UpstreamError(f"server {connection.name!r} lost the session again that it had begun (HTTP 404)")
        if verdict is Verdict.STRANGER:
            connection.over(UpstreamError(f"{problem}; it is no longer the server that was greeted"))
        if refusal.error is not None and verdict is not Verdict.FAIL:
            self._take_answer(request, conversation.relabelled(request.number, refusal.error))
        elif verdict in (Verdict.ANSWER, Verdict.FALL_BACK):
            self._take_answer(request, conversation.refusal(request.number, versions.METHOD_NOT_FOUND, str(problem)))
        elif request.method == DISCOVER and refusal.status >= 500:
            raise UpstreamError(f'{problem}; one that breaks when it is asked for its era needs era = "legacy" there')
        else:
            raise problem

    def _take_answer(self, request: OutgoingRequest, answer: json.Message) -> None:
        if request.is_opening:
            self._openings.answered(answer)
        self._connection.take([answer], request.number)

    async def _falls_back(self, request: OutgoingRequest, status: int) -> bool:
        """Try the old transport, if the server speaks nothing newer; return whether it has taken over the request."""
        connection = self._connection
        if not self._may_fall_back or self._era:
            return False
        await self._openings.wait_for_other()
        if self._openings.decided:
            return False
        try:
            await connection.fall_back()
        except UpstreamError as exc:
            raise UpstreamError(f"{connection.refused(status)}; nor is it the old HTTP+SSE: {exc}") from exc
        connection.ask_again(request)
        return True

    async def _learn_anew(self) -> None:
        """React to a missing header: the tools have changed. The owner lists them, and calls `learn_headers`."""
        self._learned.clear()
        self._connection.take([_TOOLS_CHANGED], None)
        try:
            async with asyncio.timeout(LEARNING_SECONDS):
                await self._learned.wait()
        except TimeoutError:
            pass

    # --- telling

    async def _introduce(self, payload: bytes) -> None:
        try:
            await self._post_told(payload)
        finally:
            self._ready.set()
        self._listener.start()

    async def _tell_in_order(self, payload: bytes) -> None:
        async with self._lane:
            await self._tell(payload)

    async def _tell(self, payload: bytes) -> None:
        await self._ready.wait()
        await self._post_told(payload)

    async def _post_told(self, payload: bytes) -> None:
        """Send a message without an answer. A failure is only logged: callers that need its effect have time limits."""
        connection = self._connection
        try:
            async with asyncio.timeout(TELL_SECONDS):
                sending = {**_SENDING, **self.session.headers()}
                # Sending such a message twice is harmless.
                async with await connection.client.send("POST", sending, payload, may_repeat=True) as taken:
                    # The next request renews an expired session.
                    is_expired = taken.status == 404 and self.session.id
                    if not 200 <= taken.status < 300 and not is_expired:
                        connection.warn_limited(connection.refused(taken.status))
        except TimeoutError:
            connection.warn_limited(
                UpstreamError(f"did not take a notification or an answer within {TELL_SECONDS:g} s")
            )
        except UpstreamError as exc:
            connection.warn_limited(exc)

    async def _cancel(self, request: OutgoingRequest, payload: bytes) -> None:
        await self._post_told(payload)
        # Some servers then answer with an error, others never: the answer is not read.
        request.drop()

    # --- sessions

    async def renew(self, generation: int) -> None:
        """Begin a new session, unless another caller has done so since that generation. Raises UpstreamError."""
        if self._renewing is None:
            if self.session.generation != generation:
                return
            self._renewing = self._connection.spawn(self._renew())
        # Shielded: one caller's cancellation must not take the session from the others.
        await asyncio.shield(self._renewing)

    async def _renew(self) -> None:
        connection = self._connection
        self._ready.clear()
        try:
            async with asyncio.timeout(RENEWAL_SECONDS):
                await self._begin_again()
        except TimeoutError:
            raise UpstreamError(f"server {connection.name!r} lost its session and gave no new one") from None
        finally:
            self._ready.set()
            self._renewing = None
        self._listener.start()
        connection.take(list(self.session.notices()), None)

    async def _begin_again(self) -> None:
        connection, opening = self._connection, self.session.opening
        if opening is None:
            raise UpstreamError(f"server {connection.name!r} wants a session and was never asked for one")
        answer = await self._say(b'"initialize"', opening)
        if answer.result is None:
            problem = UpstreamError(f"server {connection.name!r} lost its session and refuses a new one")
            connection.over(problem)
            raise problem
        await self._post_told(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        for method, params in self.session.told():
            await self._say(json.dumps(method), params)

    async def _say(self, method: bytes, params: values.RawBytes) -> json.Message:
        """Send a request of the carrier's own, ahead of the waiting ones."""
        reply = Reply()
        request = self._connection.expect(method, params, reply)
        try:
            await self._post(request, is_last=True)
        except UpstreamError as exc:
            self._connection.fail(request.number, exc)
        finally:
            self._connection.finished(request)
        return await reply.future

    def _give_back(self, session: Mapping[str, str]) -> None:
        if session.get(SESSION_HEADER):
            self._connection.spawn(self._delete(session))

    async def _delete(self, session: Mapping[str, str]) -> None:
        try:
            async with await self._connection.client.send("DELETE", session):
                pass  # 405 means that the server ends sessions by itself
        except UpstreamError:
            pass
