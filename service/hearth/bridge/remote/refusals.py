"""What an HTTP status means when it is no success, and what follows from it. Pure: who asked acts on it.

| status               | what follows                                                              |
| -------------------- | ------------------------------------------------------------------------- |
| 404, 400             | of a legacy session: a new one, and once more; else as any other 4xx       |
| 400 with -32020      | of a modern call: learn which headers the tool wants, and once more        |
| 429, 503             | with Retry-After: wait, and once more                                      |
| 401, 403             | a sentence that says how to log in                                         |
| with JSON-RPC error  | that error, as the answer                                                  |
| any other            | -32603 with status and reason; of `server/discover` -32601: it is legacy   |
"""

from hearth.bridge.remote.messages import DISCOVER, INITIALIZE, Key, error_in, key_of

RENEW, LEARN, LATER, ANSWER, FAIL = "renew", "learn", "later", "answer", "fail"

HEADER_MISMATCH = -32020
METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
# What a server may have us wait for, in all, before its answer is an error. Clients wait for half a minute and more.
LONGEST_WAIT_SECONDS = 20.0

# These say nothing about the message: the server did not look at it.
_ABOUT_THE_CALLER = frozenset({401, 403, 407, 408, 425, 429})
_WHAT_TO_DO = {
    401: "it does not know who asks, or takes what it was given for no longer valid",
    403: "it does not let this caller in, or does not allow what was asked",
    404: "it takes no MCP at this address; check what stands after --to",
    405: "it takes no MCP at this address; check what stands after --to",
    406: "it takes no MCP at this address; check what stands after --to",
    407: "a proxy stands before it, which wants to know who asks",
    408: "it waited too long for the request",
    413: "the message is too large for it",
    415: "it takes no MCP at this address; check what stands after --to",
    429: "it has had too many requests; wait a moment",
    502: "whatever stands before it cannot reach it",
    503: "it is not available at the moment; try again",
    504: "whatever stands before it waited too long for it",
}


class Refusal:
    """One refusal: `error` is the JSON-RPC error in its body, as JSON; `is_answer`: its id is the request's."""

    __slots__ = ("code", "error", "is_answer", "reason", "retry_after", "status")

    def __init__(self, status: int, reason: str, retry_after: float | None, body: bytes, key: Key | None) -> None:
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        found = error_in(body)
        self.error = found[0] if found else None
        self.code = _code(found[0]) if found else None
        self.is_answer = bool(found and found[1] is not None and key_of(found[1]) == key)

    @property
    def is_expiry(self) -> bool:
        """404 says it, as specified; some servers say 400, to whom the session is unknown or missing."""
        if self.status == 404:
            return self.code != METHOD_NOT_FOUND or not self.is_answer
        return self.status == 400 and not self.is_answer


def wait(headers: "dict[str, str]", time: float) -> float | None:
    """The seconds that Retry-After asks for. A date is compared with the server's own, whose clock may be another."""
    asked = headers.get("retry-after", "")
    if asked.isascii() and asked.isdigit() and len(asked) < 9:
        return int(asked)
    until, now = _moment(asked), _moment(headers.get("date", ""))
    return None if until is None else max(0.0, until - (time if now is None else now))


def _moment(date: str) -> int | None:
    """The seconds since 1970 of a date as HTTP writes it, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7)."""
    if not date.endswith(" GMT"):
        return None
    from email.utils import mktime_tz, parsedate_tz  # seldom needed

    try:
        found = parsedate_tz(date)
        return None if found is None else mktime_tz(found)
    except (ValueError, IndexError, OverflowError):
        # It reads dates as people write them, and stumbles over some that are none.
        return None


def judge(refusal: Refusal, method: str, is_modern: bool, can_renew: bool, mended: "set[str]", waited: float) -> str:
    """What to do; nothing that was done already. `waited`: seconds that the server has had us wait."""
    status = refusal.status
    asked = refusal.retry_after
    if status in (429, 503) and asked is not None and waited + asked <= LONGEST_WAIT_SECONDS:
        return LATER
    if status in (401, 403):
        return FAIL
    if not is_modern and can_renew and RENEW not in mended and method != INITIALIZE and refusal.is_expiry:
        return RENEW
    if is_modern and method == "tools/call" and refusal.code == HEADER_MISMATCH and LEARN not in mended:
        return LEARN
    return ANSWER if refusal.error is not None or (method == DISCOVER and is_about_the_message(status)) else FAIL


def is_about_the_message(status: int) -> bool:
    """Whether the status refuses the message itself, rather than its sender, its moment or everything."""
    return 400 <= status < 500 and status not in _ABOUT_THE_CALLER


def sentence(shown: str, status: int, reason: str) -> str:
    """The error for a status. What the body said stays out of it: it could be anything."""
    default = "it failed by itself; look at its own log" if status >= 500 else "it does not take the request"
    said = "".join(character for character in reason[:60] if " " <= character <= "~").strip()
    return f"{shown} answered HTTP {status}{' ' + said if said else ''}: {_WHAT_TO_DO.get(status, default)}"


def _code(error: str) -> int | None:
    from hearth.bridge.jsonlite import read

    code = read(error.encode()).get("code")
    return code if isinstance(code, int) else None
