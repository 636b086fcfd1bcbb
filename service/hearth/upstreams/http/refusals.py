"""What a request's HTTP status means when it is no success, and what follows from it. Pure: who asked acts on it.

| status        | request           | answered by its body           | not answered by it                             |
| ------------- | ----------------- | ------------------------------ | ---------------------------------------------- |
| 401, 5xx, …   | any               | the answer, if an era is known | FAIL: it says nothing about what is spoken     |
| any other 4xx | `server/discover` | the answer                     | not modern: an answer that says so             |
|               | `initialize`      | the answer                     | FALL_BACK: perhaps the transport of 2024-11-05 |
|               | of the legacy era | the answer; RENEW for 404      | RENEW: the session is gone                     |
|               | of the modern era | the answer; LEARN for -32020   | STRANGER: not the server that was greeted      |

What could be mended is mended once; a modern error in the legacy era is a STRANGER's, too.
"""

import enum
from typing import NamedTuple

from hearth.mcp import versions
from hearth.upstreams.http import bodies, errors
from hearth.upstreams.http.pending import DISCOVER, INITIALIZE, Outgoing
from hearth.wire import json, values


class Verdict(enum.Enum):
    """What to do about a refusal."""

    ANSWER = "hand it on as the answer"
    FAIL = "there is no answer"
    RENEW = "begin a new session, and ask again"
    LEARN = "learn which headers are wanted, and ask again"
    FALL_BACK = "try the old transport"
    STRANGER = "hand it on, and greet whoever that is anew"


class Refusal(NamedTuple):
    """One refusal. `error` is the JSON-RPC error in its body, whether or not it answers the request."""

    method: str
    status: int
    error: json.Raw | None
    code: int | None
    is_answer: bool

    @classmethod
    def read(cls, request: Outgoing, status: int, body: bytes) -> "Refusal":
        """What a response says."""
        error = bodies.error_in(body)
        code = values.integer(values.members(error).get("code"))
        is_answer = error is not None and bodies.answers_to(request.number, body)
        return cls(request.method, status, error, code, is_answer)


def judge(refusal: Refusal, era: str | None, has_session: bool, is_last: bool) -> Verdict:
    """What to do; nothing that asks again, if this was the last time."""
    if not errors.is_about_the_message(refusal.status):
        return Verdict.ANSWER if era and refusal.is_answer else Verdict.FAIL
    if refusal.method == DISCOVER or (refusal.method == INITIALIZE and (refusal.is_answer or era)):
        return Verdict.ANSWER
    if refusal.method == INITIALIZE:
        return Verdict.FALL_BACK
    return _judge_modern(refusal, is_last) if era == versions.MODERN else _judge_legacy(refusal, has_session, is_last)


def _judge_modern(refusal: Refusal, is_last: bool) -> Verdict:
    if refusal.code == versions.HEADER_MISMATCH and refusal.method == "tools/call" and not is_last:
        return Verdict.LEARN
    is_modern = refusal.is_answer or refusal.code in versions.MODERN_ONLY_ERRORS
    return Verdict.ANSWER if is_modern else Verdict.STRANGER


def _judge_legacy(refusal: Refusal, has_session: bool, is_last: bool) -> Verdict:
    if refusal.code in versions.MODERN_ONLY_ERRORS:
        return Verdict.STRANGER
    if not is_last and _is_expiry(refusal, has_session):
        return Verdict.RENEW
    return Verdict.ANSWER if refusal.error is not None else Verdict.FAIL


def _is_expiry(refusal: Refusal, has_session: bool) -> bool:
    """404 says it, as specified; some servers say 400, to whom the session is unknown or missing."""
    if refusal.status == 404 and has_session:
        return refusal.code != versions.METHOD_NOT_FOUND or not refusal.is_answer
    return refusal.status in (400, 404) and not refusal.is_answer
