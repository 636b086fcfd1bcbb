"""JSON-RPC connection to one MCP server: matches answers to requests, and passes all other messages to its owner.

Knows nothing of tools or sessions. Every request has a `Waiter`, which is called exactly once. The subclasses in
`stdio`, `http.connection` and `pack_api` transport the messages.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hearth.errors import HearthError, MessageError, TooLarge, UpstreamError
from hearth.masking import NOTHING
from hearth.mcp import messages, versions
from hearth.mcp.catalog import ListKind, ListLimits
from hearth.wire import json, values
from hearth.wire.lines import Item
from hearth.wire.values import RawBytes

if TYPE_CHECKING:
    from hearth.mcp.http_headers import Index
    from hearth.upstreams.instance import Instance

log = logging.getLogger(__name__)

# Malformed messages are the server's own fault; after this many they are no longer logged.
GARBAGE_REPORTS = 5
_ID_DIGITS = 19
CANCELLED = "notifications/cancelled"
# Default limit of a call without an answer: after so long the client has given it up.
ABANDONED_SECONDS = 1800.0
# A modern server must send nothing more about a cancelled request (2026-07-28, cancellation); this long to notice.
NOTICED_SECONDS = 60.0
# Above this number the oldest abandoned request is forgotten.
ABANDONED_LIMIT = 10_000


class Waiter(Protocol):
    """Protocol for the receiver of the answer to one request."""

    def answered(self, message: json.Message) -> None:
        """Take the server's answer, a result or an error."""

    def failed(self, problem: HearthError) -> None:
        """Note that no answer will come."""

    def progressed(self, params: json.Fields) -> None:
        """Take the server's report of progress on the request."""


class Owner(Protocol):
    """Protocol for the owner of a connection, which receives the messages that no request waits for.

    `cause` is the request of ours on whose stream a message came; None if the transport does not tell.
    """

    def noticed(self, connection: "Connection", message: json.Message, cause: int | None) -> None:
        """Take a notification other than progress."""

    def asked(self, connection: "Connection", message: json.Message, cause: int | None) -> None:
        """Take a request of the server other than ping; `connection.answer` answers it."""

    def lost(self, connection: "Connection") -> None:
        """Note that nothing can be sent or received any more; `closed` follows."""

    def closed(self, connection: "Connection", why: str) -> None:
        """Note the end of the conversation; all waiters have been told. `why` is a sentence about the server."""


class InstanceListener(Protocol):
    """Receiver of events that no request waits for; one for all instances."""

    def catalog_changed(self, instance: "Instance", noticed: Collection[ListKind] = ()) -> None:
        """Take the instance's new or changed catalog; `noticed` are the lists that the server itself called changed."""

    def noticed(self, instance: "Instance", connection: "Connection", message: json.Message, cause: int | None) -> None:
        """Take a notification that is not about lists or progress."""

    def asked(self, instance: "Instance", connection: "Connection", message: json.Message, cause: int | None) -> None:
        """Take a request of the server to a client."""

    def started(self, instance: "Instance") -> None:
        """Note that the instance is ready."""

    def failed(self, instance: "Instance", problem: BaseException) -> None:
        """Note that the instance could not be started; with LoginRequired it waits for a user to log in."""

    def ended(self, instance: "Instance", connection: "Connection") -> None:
        """Note that this connection is closed."""

    def owes(self, connection: "Connection") -> bool:
        """Return whether the server waits for an answer to a request of its own."""


class _Abandoned(NamedTuple):
    whose: object
    until: float
    # An answer to this request or a later one shows that the server has seen the cancellation; None if none does.
    noticed_by: int | None


class AbandonedRequests:
    """Requests of one connection that were given up, while the server may still be busy with them.

    A notification without a cause may belong to one of these as well as to a request in flight: a server should stop
    when the request is cancelled, and may continue all the same. A late answer, for which no waiter is left, ends the
    doubt. A modern server sends nothing more about a request once the cancellation has arrived: there, the answer to
    any later request is enough. The collection is nearly always empty, and false then.
    """

    def __init__(self) -> None:
        self._requests: dict[int, _Abandoned] = {}

    def __bool__(self) -> bool:
        return bool(self._requests)

    def add(
        self, number: int, whose: object, seconds: float = ABANDONED_SECONDS, noticed_by: int | None = None
    ) -> None:
        """Add a request that may keep the server busy for `seconds`, or until an answer to `noticed_by` or later."""
        if len(self._requests) >= ABANDONED_LIMIT:
            del self._requests[next(iter(self._requests))]
        self._requests[number] = _Abandoned(whose, time.monotonic() + seconds, noticed_by)

    def answered(self, number: int) -> None:
        """Note the answer to a request, given up or not."""
        self._requests.pop(number, None)
        done = [
            key for key, each in self._requests.items() if each.noticed_by is not None and each.noticed_by <= number
        ]
        for key in done:
            del self._requests[key]

    def owners(self) -> set[object]:
        """Return the owners of requests that the server may still be busy with."""
        now = time.monotonic()
        self._requests = {number: each for number, each in self._requests.items() if each.until > now}
        return {each.whose for each in self._requests.values()}


class Connection:
    """Connection for one conversation. Methods raise UpstreamError if nothing can be sent."""

    # The process, if any, and the last lines of its stderr.
    pid = 0
    last_words: tuple[str, ...] = ()
    # The first line on its stdout that was not MCP, cut and masked, and how many there were.
    stray = ""
    stray_lines = 0
    # Mask that hides the secrets that the server was given.
    mask = NOTHING
    # Whether arguments may travel as headers, too.
    sends_headers = False
    # Whether the server refuses every request until a user has logged in.
    needs_login = False
    # Whether the server works although no call waits for it: an in-process one may (`pack_api`).
    busy = False
    # Limits on each of the server's lists.
    list_limits = ListLimits()
    # Words for the other side and its protocol, and for the source of malformed messages.
    peer = "server"
    protocol = "MCP"
    _where = ""

    def __init__(self, name: str, owner: Owner) -> None:
        self.name = name
        self._owner = owner
        self._waiting: dict[int, Waiter] = {}
        self._standing: set[int] = set()
        self._next_id = 1
        self.abandoned = AbandonedRequests()
        self._garbage = 0
        # Since the last look of supervision: whether anything came, and whether a request was given up unanswered.
        self.heard = False
        self.gave_up = False
        # Called whenever a request is no longer in flight, if set.
        self.on_free: Callable[[], None] | None = None

    # --- methods of the transport

    async def open(self) -> None:
        """Open the connection. Raises UpstreamError."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Close the connection, bounded; return when nothing is left of it."""
        raise NotImplementedError

    def greeted(self, era: str, version: str) -> None:
        """Note the result of the handshake: the era and version that the server speaks."""

    def learn_headers(self, indexes: "Mapping[str, Index]") -> None:
        """Set which arguments of which tools go into headers, too; for transports that have headers."""

    def notify(self, method: str, params: RawBytes | None = None) -> None:
        """Send a notification; a server that is gone gets none, without an error."""
        raise NotImplementedError

    def answer(self, payload: bytes, cause: int | None = None) -> None:
        """Answer a request of the server. Never raises: a server that is gone needs no answer."""
        raise NotImplementedError

    async def why_lost(self) -> UpstreamError:
        """Return why nothing can be sent any more."""
        raise NotImplementedError

    def _send(self, number: int, method: bytes, params: RawBytes) -> None:
        raise NotImplementedError

    def _withdraw(self, number: int, reason: RawBytes | None) -> None:
        self.notify(CANCELLED, cancellation(number, reason))

    # --- requests

    @property
    def in_flight(self) -> int:
        """Number of requests without an answer, standing streams excluded."""
        return len(self._waiting) - len(self._standing)

    def waiters(self) -> Iterator[Waiter]:
        """Return the waiters of requests in flight, standing streams excluded, the longest waiting first."""
        return (waiter for number, waiter in list(self._waiting.items()) if number not in self._standing)

    def waiter(self, number: int) -> Waiter | None:
        """Return the waiter of a request, if any."""
        return self._waiting.get(number)

    def replace(self, number: int, waiter: Waiter) -> None:
        """Replace the waiter of a request."""
        if number in self._waiting:
            self._waiting[number] = waiter

    def reserve(self) -> int:
        """Return the id, and progress token, of the next request."""
        return self._next_id

    def request(self, method: bytes, params: RawBytes, waiter: Waiter) -> int:
        """Send a request and return its id; `method` is raw JSON. Raises UpstreamError if it cannot be sent."""
        number = self._next_id
        self._send(number, method, params)
        self._next_id = number + 1
        self._waiting[number] = waiter
        return number

    def request_stream(self, method: bytes, params: RawBytes, waiter: Waiter) -> int:
        """Send a request that is answered only when it ends, such as a subscription."""
        number = self.request(method, params, waiter)
        self._standing.add(number)
        return number

    def forget(self, number: int) -> None:
        """Drop the waiter of a request without telling the server."""
        if self._drop(number) and self.on_free:
            self.on_free()

    def _drop(self, number: int) -> bool:
        is_call = number not in self._standing
        self._standing.discard(number)
        is_known = self._waiting.pop(number, None) is not None
        self.gave_up = self.gave_up or (is_known and is_call)
        return is_known

    def cancel(
        self, number: int, reason: RawBytes | None = None, whose: object = None, will_stop: bool = False
    ) -> None:
        """Drop the waiter of a request, and send a cancellation to the server.

        The owner (`whose`) is remembered for as long as the server may be busy with the request; if the server
        `will_stop`, until it has seen the cancellation.
        """
        if self._drop(number):
            if whose is not None:
                if will_stop:
                    self.abandoned.add(number, whose, NOTICED_SECONDS, self._next_id)
                else:
                    self.abandoned.add(number, whose)
            self._withdraw(number, reason)
            if self.on_free:
                self.on_free()

    # --- incoming messages, for the subclasses

    def _take_all(self, items: Iterable[Item], cause: int | None = None) -> None:
        """Handle messages of the server. A failure over one affects neither the next ones nor the conversation."""
        for item in items:
            try:
                self._take(item, cause)
            except Exception:
                log.exception("internal error over a message", extra={"upstream": self.name})

    def _take(self, item: Item, cause: int | None = None) -> None:
        """Handle one message of the server."""
        if not isinstance(item, json.Message):
            self._take_unusable(item, cause)
        elif item.method is None:
            id = item.id
            # Hearth's own ids are short decimal numbers; no request had any other id.
            number = int(id) if id and id.isdigit() and len(id) < _ID_DIGITS else 0
            waiter = self._waiting.pop(number, None)
            if self.abandoned:
                self.abandoned.answered(number)
            if waiter is None:
                # A second answer, an answer to a cancelled request, or one to a request that was never sent.
                log.debug("an answer that nobody waits for", extra={"upstream": self.name})
                return
            self._standing.discard(number)
            try:
                waiter.answered(item)
            except Exception:
                # The waiter must be told, whatever is wrong here.
                waiter.failed(UpstreamError(f"the answer of {self.peer} {self.name!r} could not be handled"))
                raise
            finally:
                if self.on_free:
                    self.on_free()
        elif item.id is None:
            if item.method == "notifications/progress":
                self._take_progress(item)
            else:
                self._owner.noticed(self, item, cause)
        elif item.method == "ping":
            self.answer(messages.result(item.id, b"{}"), cause)
        else:
            self._owner.asked(self, item, cause)

    def _take_progress(self, message: json.Message) -> None:
        params = values.members(message.fields.get("params"))
        number = values.integer(params.get("progressToken"))
        waiter = self._waiting.get(number) if number is not None else None
        if waiter:
            waiter.progressed(params)

    def _take_unusable(self, problem: MessageError | TooLarge, cause: int | None) -> None:
        if isinstance(problem, MessageError) and problem.asks:
            # The id is one of the server's own.
            if problem.id is not None:
                self.answer(messages.failure(problem.id, problem), cause)
            self.disregard(problem)
            return
        number = values.integer(problem.id)
        waiter = self._waiting.pop(number, None) if number is not None else None
        if waiter and number is not None:
            self._standing.discard(number)
            waiter.failed(UpstreamError(f"{self.peer} {self.name!r} gave an unusable answer: {problem}"))
            if self.on_free:
                self.on_free()
        else:
            self.disregard(problem)

    def disregard(self, problem: HearthError) -> None:
        """Drop a message of the server, and log the reason."""
        self.warn_limited(f"not {self.protocol}{self._where}: {problem}")

    def warn_limited(self, problem: object) -> None:
        """Log a problem that no request waits for. Only the first few are logged: some servers never stop."""
        self._garbage += 1
        if self._garbage <= GARBAGE_REPORTS:
            log.warning("%s", problem, extra={"upstream": self.name})

    def _end(self, problem: UpstreamError, why: str) -> None:
        """End the conversation: fail all waiters, then tell the owner."""
        self.fail_all(problem)
        self._owner.closed(self, why)

    def fail_all(self, problem: UpstreamError) -> None:
        """Tell all waiters that no answer will come."""
        waiting, self._waiting = self._waiting, {}
        self._standing.clear()
        for waiter in waiting.values():
            try:
                waiter.failed(problem)
            except Exception:
                log.exception("internal error at the end of a conversation", extra={"upstream": self.name})


def cancellation(number: int, reason: RawBytes | None) -> bytes:
    """Return the params of the notification that cancels a request."""
    params: dict[str, RawBytes] = {"requestId": b"%d" % number}
    if reason is not None:
        params["reason"] = reason
    return json.join(params)


def refusal(message: json.Message, text: str, code: int = versions.METHOD_NOT_FOUND) -> bytes:
    """Return the error response to a server's request that no client takes."""
    return messages.error(message.id, code, text)
