"""Conversation over HTTP without its I/O: requests on their way, the order of probes, sessions, and replies.

A body or the data of an event has one message, or an array of them as in revision 2025-03-26. A status other than
success means:

| status        | request           | answered by its body           | not answered by it                             |
| ------------- | ----------------- | ------------------------------ | ---------------------------------------------- |
| 401, 5xx, …   | any               | the answer, if an era is known | FAIL: it says nothing about the era            |
| any other 4xx | `server/discover` | the answer                     | not modern: an answer that says so             |
|               | `initialize`      | the answer                     | FALL_BACK: perhaps the transport of 2024-11-05 |
|               | of the legacy era | the answer; RENEW for 404      | RENEW: the session is gone                     |
|               | of the modern era | the answer; LEARN for -32020   | STRANGER: not the server that was greeted      |

A repair is tried once; a modern error in the legacy era is a STRANGER's, too.
"""

import asyncio
import enum
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from hearth.errors import MessageError, UpstreamError
from hearth.mcp import messages, versions
from hearth.wire import json, values
from hearth.wire.lines import Item
from hearth.wire.values import RawBytes

DISCOVER, INITIALIZE = "server/discover", "initialize"
LISTEN = "subscriptions/listen"
SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
# The specification allows any length; a header has to fit into 8 KiB with all the others.
_ID_LIMIT_CHARACTERS = 4096

_SET_LEVEL, _SUBSCRIBE, _UNSUBSCRIBE = "logging/setLevel", "resources/subscribe", "resources/unsubscribe"
# Lists that may have changed while there was no session, by the capability that says so.
_NOTICES = {
    "tools": "notifications/tools/list_changed",
    "resources": "notifications/resources/list_changed",
    "prompts": "notifications/prompts/list_changed",
}

_SPACE = b" \t\r\n"
# These statuses say nothing about the server's era: it did not look at the message.
_ABOUT_THE_CALLER = frozenset({401, 403, 407, 408, 425, 429})

_WHAT_TO_DO = {
    401: "it wants to know who asks, and not by a login; {identity}",
    403: "it does not let this caller in; check {headers}, and what they allow",
    407: "the proxy wants to know who asks; put a user and a password into HTTP_PROXY or HTTPS_PROXY",
    408: "it waited too long for the request",
    413: "the message is too large for it",
    429: "it has had too many requests; {pace}",
    500: "it failed by itself; look at its own log",
    502: "whatever stands before it cannot reach it",
    503: "it is not available at the moment",
    504: "whatever stands before it waited too long for it",
}
_ELSEWHERE = "it takes no MCP at this address; check {address}"
# Statuses of a server that is overloaded or restarting, and did not handle the request.
_LATER = frozenset({429, 503})


class Wording(NamedTuple):
    """Names of a server's settings in messages: where the reader of the message can change them."""

    identity: str = "give it an Authorization in `headers` of its entry"
    headers: str = "`headers` of its entry"
    header: str = "a header of its entry"
    address: str = "`url` and `transport` of its entry"
    url: str = "the url of its entry"
    place: str = "into its entry"
    pace: str = "wait, or lower max_concurrency of its entry"
    environment: str = "the daemon's environment"


ENTRY = Wording()


class OutgoingRequest:
    """Request on its way over HTTP, until nothing is read for it any more.

    `sent` once all of it has been written; `task` does the asking.
    """

    __slots__ = ("_on_done", "body", "method", "number", "params", "sent", "task")

    def __init__(self, number: int, method: RawBytes, params: RawBytes, on_done: Callable[[int], None]) -> None:
        self.number = number
        self.method = values.text(method) or ""
        self.params = params
        self.body = b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (number, method, params)
        self.sent = False
        self.task: asyncio.Task[None] | None = None
        self._on_done: Callable[[int], None] | None = on_done

    @property
    def is_opening(self) -> bool:
        """True if this request probes the era of the server."""
        return self.method in (DISCOVER, INITIALIZE)

    def was_sent(self) -> None:
        """Note that the kernel has the whole request: it no longer counts as queued."""
        self.sent = True
        self.finish()

    def finish(self) -> None:
        """Stop counting the request as queued, whatever its outcome."""
        done, self._on_done = self._on_done, None
        if done:
            done(len(self.body))

    def drop(self) -> None:
        """Give up its answer."""
        if self.task:
            self.task.cancel()


class ProbeOrder:
    """Order of the two requests that probe the era of a server.

    Over pipes both are written at once, and the first success decides. Over HTTP a server that speaks both eras would
    then create a session that is never used: so the second request is sent when the first was refused, or has had no
    answer for `patience` seconds.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._asked: list[str] = []
        self._way_is_free = asyncio.Event()
        self._one_is_done = asyncio.Event()
        # Whether one of them has shown the server's era.
        self.decided = False

    def ask(self, method: str) -> None:
        """Add a request to send."""
        self._asked.append(method)

    async def wait_for_turn(self, method: str) -> None:
        """Wait until the request may be sent."""
        if self._asked[0] != method:
            await self._wait(self._way_is_free)

    async def wait_for_other(self) -> None:
        """Let the other request go first, and wait until it is done."""
        self._way_is_free.set()
        if len(self._asked) > 1:
            await self._wait(self._one_is_done)

    def answered(self, message: json.Message) -> None:
        """Take the server's answer to one of them."""
        code, _ = values.error(message)
        if message.result is not None or code in versions.MODERN_ONLY_ERRORS:
            self.decided = True
        else:
            self._way_is_free.set()

    def done(self) -> None:
        """Note that nothing more comes for one of them."""
        self._one_is_done.set()

    async def _wait(self, event: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await event.wait()
        except TimeoutError:
            pass


class UpstreamSession:
    """Session of a legacy server: the id and version of every request, and the state to restore after its loss.

    `generation` counts the sessions, so that a caller who finds one lost can tell whether it was renewed since.
    """

    def __init__(self) -> None:
        self.id: str | None = None
        self.version: str | None = None
        self.generation = 0
        # The params of `initialize`, as the owner gave them.
        self.opening: RawBytes | None = None
        self._capabilities: frozenset[str] = frozenset()
        self._told: dict[tuple[str, bytes], RawBytes] = {}

    def headers(self) -> dict[str, str]:
        """Return the headers of every request of the session."""
        found = {SESSION_HEADER: self.id} if self.id else {}
        return {**found, VERSION_HEADER: self.version} if self.version else found

    def begin(self, id: str | None, result: RawBytes) -> None:
        """Begin a session by the answer to `initialize` and the id that came with it."""
        fields = values.members(result)
        self.id = id if id and is_usable(id) else None
        self.version = values.text(fields.get("protocolVersion"))
        self._capabilities = frozenset(values.members(fields.get("capabilities")))
        self.generation += 1

    def note(self, method: str, params: RawBytes) -> None:
        """Remember a request that changes the server's state for the whole session."""
        if method == _SET_LEVEL:
            self._told[method, b""] = params
        elif method == _SUBSCRIBE:
            self._told[method, _uri(params)] = params
        elif method == _UNSUBSCRIBE:
            self._told.pop((_SUBSCRIBE, _uri(params)), None)

    def told(self) -> Iterator[tuple[str, RawBytes]]:
        """Return the requests to repeat in a new session."""
        return ((method, params) for (method, _), params in list(self._told.items()))

    def notices(self) -> Iterator[json.Message]:
        """Return the notifications that a new session means for clients that knew the lists of the former one."""
        for capability, method in _NOTICES.items():
            if capability in self._capabilities:
                yield json.Message(None, method, {})


def is_usable(id: str) -> bool:
    """Return whether the id is one that the specification allows: visible ASCII."""
    return len(id) <= _ID_LIMIT_CHARACTERS and all("!" <= character <= "~" for character in id)


def _uri(params: RawBytes) -> bytes:
    return bytes(values.members(params).get("uri", b""))


# --- replies


class ConnectionBroken(UpstreamError):
    """Failure of a connection. `sent`: the whole request had been written, so the server may have it.

    `is_away`: the server took no connection, and may only be restarting.
    """

    def __init__(self, sentence: str, sent: bool, is_away: bool = False) -> None:
        super().__init__(sentence)
        self.sent = sent
        self.is_away = is_away


def refused(name: str, status: int, words: Wording = ENTRY) -> UpstreamError:
    """Return the error for a status, without the body, which could be anything: errors are logged."""
    default = _WHAT_TO_DO[500] if status >= 500 else _ELSEWHERE
    advice = _WHAT_TO_DO.get(status, default).format(**words._asdict())
    return UpstreamError(f"server {name!r} answered HTTP {status}: {advice}")


def retry_after(status: int, headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds after which an overloaded server wants the request again; None if it does not say.

    A date is compared with the server's own, whose clock may differ.
    """
    asked = headers.get("retry-after", "") if status in _LATER else ""
    if asked.isascii() and asked.isdigit() and len(asked) < 9:
        return float(asked)
    until = _moment(asked)
    return None if until is None else max(0.0, until - (_moment(headers.get("date", "")) or now))


def _moment(date: str) -> int | None:
    """Return the seconds since 1970 of a date of HTTP, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7)."""
    if not date.endswith(" GMT"):
        return None
    from email.utils import mktime_tz, parsedate_tz  # seldom needed

    try:
        found = parsedate_tz(date)
        return None if found is None else mktime_tz(found)
    except (ValueError, IndexError, OverflowError):
        # The parser accepts dates as people write them, and fails at some that are none.
        return None


def items(data: bytes) -> list[Item]:
    """Return every message, in order; an error replaces a part that is no message."""
    try:
        if data.lstrip(_SPACE)[:1] == b"[":
            return list(json.parse_batch(data).items)
        return [json.parse(data)]
    except MessageError as exc:
        return [exc]


def error_in(data: bytes) -> json.Raw | None:
    """Return the JSON-RPC error object in the body of a refusal, whatever the id beside it; None if there is none.

    Servers that did not get as far as the id answer with null, with a name of their own, or with no id at all.
    """
    fields = values.members(data)
    error = values.members(fields.get("error"))
    return fields["error"] if values.integer(error.get("code")) is not None else None


def answers_to(number: int, data: bytes) -> bool:
    """Return whether the body is an answer to just that request."""
    return bytes(values.members(data).get("id", b"")) == b"%d" % number


def refusal(number: int, code: int, text: str) -> json.Message:
    """Build the error response that the server should have sent."""
    return json.parse(messages.error(b"%d" % number, code, text))


def relabelled(number: int, error: json.Raw) -> json.Message:
    """Build the answer to that request from an error."""
    return json.parse(json.one_line(messages.raw_error(b"%d" % number, error)))


class Verdict(enum.Enum):
    """Reaction to a refusal."""

    ANSWER = "hand it on as the answer"
    FAIL = "there is no answer"
    RENEW = "begin a new session, and ask again"
    LEARN = "learn which headers are wanted, and ask again"
    FALL_BACK = "try the old transport"
    STRANGER = "hand it on, and repeat the handshake with that server"


class HttpRefusal(NamedTuple):
    """One refusal. `error` is the JSON-RPC error in its body, whether or not it answers the request."""

    method: str
    status: int
    error: json.Raw | None
    code: int | None
    is_answer: bool

    @classmethod
    def read(cls, request: OutgoingRequest, status: int, body: bytes) -> "HttpRefusal":
        """Read a response."""
        error = error_in(body)
        code = values.integer(values.members(error).get("code"))
        is_answer = error is not None and answers_to(request.number, body)
        return cls(request.method, status, error, code, is_answer)


def judge(refusal: HttpRefusal, era: str | None, has_session: bool, is_last: bool) -> Verdict:
    """Return the reaction to a refusal; no retry if this was the last attempt."""
    if not 400 <= refusal.status < 500 or refusal.status in _ABOUT_THE_CALLER:
        # Not the message itself is refused, but its sender, its timing or all requests.
        return Verdict.ANSWER if era and refusal.is_answer else Verdict.FAIL
    if refusal.method == DISCOVER or (refusal.method == INITIALIZE and (refusal.is_answer or era)):
        return Verdict.ANSWER
    if refusal.method == INITIALIZE:
        return Verdict.FALL_BACK
    return _judge_modern(refusal, is_last) if era == versions.MODERN else _judge_legacy(refusal, has_session, is_last)


def _judge_modern(refusal: HttpRefusal, is_last: bool) -> Verdict:
    if refusal.code == versions.HEADER_MISMATCH and refusal.method == "tools/call" and not is_last:
        return Verdict.LEARN
    is_modern = refusal.is_answer or refusal.code in versions.MODERN_ONLY_ERRORS
    return Verdict.ANSWER if is_modern else Verdict.STRANGER


def _judge_legacy(refusal: HttpRefusal, has_session: bool, is_last: bool) -> Verdict:
    if refusal.code in versions.MODERN_ONLY_ERRORS:
        return Verdict.STRANGER
    if not is_last and _is_expiry(refusal, has_session):
        return Verdict.RENEW
    return Verdict.ANSWER if refusal.error is not None else Verdict.FAIL


def _is_expiry(refusal: HttpRefusal, has_session: bool) -> bool:
    """Tell whether the session expired: 404, as specified; some servers send 400 for an unknown or missing session."""
    if refusal.status == 404 and has_session:
        return refusal.code != versions.METHOD_NOT_FOUND or not refusal.is_answer
    return refusal.status in (400, 404) and not refusal.is_answer
