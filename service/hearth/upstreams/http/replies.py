"""Replies of a server over HTTP: messages in a body, errors, and the meaning of a refusal. Pure: the caller acts.

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

import enum
from typing import NamedTuple

from hearth.errors import MessageError, UpstreamError
from hearth.mcp import messages, versions
from hearth.upstreams.http.session import DISCOVER, INITIALIZE, OutgoingRequest
from hearth.wire import json, values
from hearth.wire.lines import Item

_SPACE = b" \t\r\n"
# These statuses say nothing about the server's era: it did not look at the message.
_ABOUT_THE_CALLER = frozenset({401, 403, 407, 408, 425, 429})

_WHAT_TO_DO = {
    401: "it wants to know who asks, and not by a login; give it an Authorization in `headers` of its entry",
    403: "it does not let this caller in; check `headers` of its entry, and what they allow",
    407: "the proxy wants to know who asks; put a user and a password into HTTP_PROXY or HTTPS_PROXY",
    408: "it waited too long for the request",
    413: "the message is too large for it",
    429: "it has had too many requests; wait, or lower max_concurrency of its entry",
    500: "it failed by itself; look at its own log",
    502: "whatever stands before it cannot reach it",
    503: "it is not available at the moment",
    504: "whatever stands before it waited too long for it",
}
_ELSEWHERE = "it takes no MCP at this address; check `url` and `transport` of its entry"


class ConnectionBroken(UpstreamError):
    """Failure of a connection. `sent`: the whole request had been written, so the server may have it."""

    def __init__(self, sentence: str, sent: bool) -> None:
        super().__init__(sentence)
        self.sent = sent


def is_about_the_message(status: int) -> bool:
    """Tell whether the status refuses the message itself, rather than its sender, its timing or all requests."""
    return 400 <= status < 500 and status not in _ABOUT_THE_CALLER


def refused(name: str, status: int) -> UpstreamError:
    """Return the error for a status, without the body, which could be anything: errors are logged."""
    default = _WHAT_TO_DO[500] if status >= 500 else _ELSEWHERE
    return UpstreamError(f"server {name!r} answered HTTP {status}: {_WHAT_TO_DO.get(status, default)}")


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
    if not is_about_the_message(refusal.status):
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
