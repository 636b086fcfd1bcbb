"""JSON-RPC with one MCP server: ids out, answers in, and whatever else the server says to its owner.

Knows nothing of tools or sessions. Whoever asks gives a `Waiter`; it is told exactly once. How the bytes travel is the
subclasses' business: `stdio` and `http`.
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

# Garbage is a server's own business; after so many messages it is no longer news.
GARBAGE_REPORTS = 5
_ID_DIGITS = 19
CANCELLED = "notifications/cancelled"
# Default limit of a call without an answer: a client that was silent for so long has given it up.
ABANDONED_SECONDS = 1800.0
# A modern server must say nothing more about a cancelled request (2026-07-28, cancellation); this long to notice.
NOTICED_SECONDS = 60.0
# Above this number the oldest abandoned request is forgotten.
ABANDONED_LIMIT = 10_000


class Waiter(Protocol):
    """Waits for the answer to one request."""

    def answered(self, message: json.Message) -> None:
        """The server answered, with a result or an error."""

    def failed(self, problem: HearthError) -> None:
        """There will be no answer."""

    def progressed(self, params: json.Fields) -> None:
        """The server reported progress on the request."""


class Owner(Protocol):
    """Whoever has a connection: told what nobody waited for.

    `cause` is the request of ours on whose stream it came; None where the transport does not tell.
    """

    def noticed(self, connection: "Connection", message: json.Message, cause: int | None) -> None:
        """A notification, progress excepted."""

    def asked(self, connection: "Connection", message: json.Message, cause: int | None) -> None:
        """A request of the server, ping excepted; `connection.answer` answers it."""

    def lost(self, connection: "Connection") -> None:
        """Nothing can be said or heard any more; `closed` follows."""

    def closed(self, connection: "Connection", why: str) -> None:
        """The conversation is over; everybody who waited has been told. `why` is a sentence about the server."""


class InstanceListener(Protocol):
    """Receiver of events that no request waits for; one for all instances."""

    def catalog_changed(self, instance: "Instance", noticed: Collection[ListKind] = ()) -> None:
        """Take its catalog, new or changed; `noticed` are the lists that the server itself called changed."""

    def noticed(self, instance: "Instance", connection: "Connection", message: json.Message, cause: int | None) -> None:
        """Take a notification that is not about lists or progress."""

    def asked(self, instance: "Instance", connection: "Connection", message: json.Message, cause: int | None) -> None:
        """Take a request of the server to a client."""

    def started(self, instance: "Instance") -> None:
        """Take note that the instance is ready."""

    def failed(self, instance: "Instance", problem: BaseException) -> None:
        """Take note that the instance could not be started; with LoginRequired it waits for a person."""

    def ended(self, instance: "Instance", connection: "Connection") -> None:
        """Note that this connection is closed."""

    def owes(self, connection: "Connection") -> bool:
        """Return whether the server waits for an answer to a request of its own."""


class _Abandoned(NamedTuple):
    whose: object
    until: float
    # An answer to this request or a later one shows that the server knows, and is silent; None where it may not be.
    noticed_by: int | None


class AbandonedRequests:
    """Requests of one connection that were given up, while the server may still be busy with them.

    A notification without a cause may belong to one of these as well as to one that is still waited for: a server
    should stop when the request is cancelled, and may go on all the same. An answer, late and for nobody, ends the
    doubt. A modern server says nothing more about a request once the cancellation has arrived: there, the answer to
    anything that was sent afterwards is enough. Empty at nearly all times, and false then.
    """

    def __init__(self) -> None:
        self._requests: dict[int, _Abandoned] = {}

    def __bool__(self) -> bool:
        return bool(self._requests)

    def add(
        self, number: int, whose: object, seconds: float = ABANDONED_SECONDS, noticed_by: int | None = None
    ) -> None:
        """Add a request; the server may be busy with it for so long, or until it answers one after `noticed_by`."""
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
    """One conversation. Raises UpstreamError where nothing can be sent."""

    # The process, and the last lines of its stderr, where there is one.
    pid = 0
    last_words: tuple[str, ...] = ()
    # The first line on its stdout that was not MCP, cut and masked, and how many there were.
    stray = ""
    stray_lines = 0
    # What hides the secrets that the server was given.
    mask = NOTHING
    # Whether arguments may travel as headers, too.
    sends_headers = False
    # Whether the server refuses everything until a person has logged in.
    needs_login = False
    # Whether it works although no call waits for it: an in-process one may (`pack_api`).
    busy = False
    # How much of each of its lists is kept.
    list_limits = ListLimits()
    # Where its garbage comes from, in words.
    _where = ""

    def __init__(self, name: str, owner: Owner) -> None:
        self.name = name
        self._owner = owner
        self._waiting: dict[int, Waiter] = {}
        self._standing: set[int] = set()
        self._next_id = 1
        self.abandoned = AbandonedRequests()
        self._garbage = 0
        # Since somebody last looked: whether anything came, and whether a request was given up without an answer.
        self.heard = False
        self.gave_up = False
        # Told whenever a request is no longer in flight, if anybody waits for that.
        self.on_free: Callable[[], None] | None = None

    # --- what a transport has to do

    async def open(self) -> None:
        """Begin. Raises UpstreamError."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End it, bounded; returns when nothing is left of it."""
        raise NotImplementedError

    def greeted(self, era: str, version: str) -> None:
        """The handshake is done: what the server speaks."""

    def learn_headers(self, indexes: "Mapping[str, Index]") -> None:
        """Which arguments of which tools go into headers, too; for transports that have any."""

    def notify(self, method: str, params: RawBytes | None = None) -> None:
        """Tell; nothing comes back, and a server that is gone is told nothing."""
        raise NotImplementedError

    def answer(self, payload: bytes, cause: int | None = None) -> None:
        """Answer a request of the server's. Never raises: who is gone needs no answer."""
        raise NotImplementedError

    async def why_lost(self) -> UpstreamError:
        """Why nothing can be sent any more."""
        raise NotImplementedError

    def _send(self, number: int, method: bytes, params: RawBytes) -> None:
        raise NotImplementedError

    def _withdraw(self, number: int, reason: RawBytes | None) -> None:
        self.notify(CANCELLED, cancellation(number, reason))

    # --- asking

    @property
    def in_flight(self) -> int:
        """How many requests wait for an answer that is to come soon."""
        return len(self._waiting) - len(self._standing)

    def waiters(self) -> Iterator[Waiter]:
        """Everybody who waits for an answer that is to come soon, the longest waiting first."""
        return (waiter for number, waiter in list(self._waiting.items()) if number not in self._standing)

    def waiter(self, number: int) -> Waiter | None:
        """Who waits for the answer to that request."""
        return self._waiting.get(number)

    def replace(self, number: int, waiter: Waiter) -> None:
        """Somebody else waits for that answer from now on."""
        if number in self._waiting:
            self._waiting[number] = waiter

    def reserve(self) -> int:
        """The id that the next request will have; its progress token too."""
        return self._next_id

    def request(self, method: bytes, params: RawBytes, waiter: Waiter) -> int:
        """Ask; `method` is raw JSON. Returns the id. Raises UpstreamError when the server does not take it."""
        number = self._next_id
        self._send(number, method, params)
        self._next_id = number + 1
        self._waiting[number] = waiter
        return number

    def request_stream(self, method: bytes, params: RawBytes, waiter: Waiter) -> int:
        """Ask for something that is answered only when it ends, such as a subscription."""
        number = self.request(method, params, waiter)
        self._standing.add(number)
        return number

    def forget(self, number: int) -> None:
        """Nobody is interested in that answer any longer; the server is not told."""
        is_call = number not in self._standing
        self._standing.discard(number)
        if self._waiting.pop(number, None) is not None:
            self.gave_up = self.gave_up or is_call
            if self.on_free:
                self.on_free()

    def cancel(
        self,
        number: int,
        reason: RawBytes | None = None,
        whose: object = None,
        will_stop: bool = False,
    ) -> None:
        """Nobody waits any longer, and the server is told so.

        `whose` it was is remembered for as long as the server may be busy with it; if it `will_stop`, until it knows.
        """
        is_call = number not in self._standing
        self._standing.discard(number)
        if self._waiting.pop(number, None) is not None:
            self.gave_up = self.gave_up or is_call
            if whose is not None:
                if will_stop:
                    self.abandoned.add(number, whose, NOTICED_SECONDS, self._next_id)
                else:
                    self.abandoned.add(number, whose)
            self._withdraw(number, reason)
            if self.on_free:
                self.on_free()

    # --- what came in, for the subclasses

    def _take_all(self, items: Iterable[Item], cause: int | None = None) -> None:
        """Messages of the server. What goes wrong over one costs neither those behind it nor the conversation."""
        for item in items:
            try:
                self._take(item, cause)
            except Exception:
                log.exception("internal error over a message", extra={"upstream": self.name})

    def _take(self, item: Item, cause: int | None = None) -> None:
        """One message of the server."""
        if not isinstance(item, json.Message):
            self._take_unusable(item, cause)
        elif item.method is None:
            id = item.id
            # Hearth's own ids are short decimal numbers; anything else was never asked.
            number = int(id) if id and id.isdigit() and len(id) < _ID_DIGITS else 0
            waiter = self._waiting.pop(number, None)
            if self.abandoned:
                self.abandoned.answered(number)
            if waiter is None:
                # A second answer, one to a cancelled request, or one to nothing that was ever asked.
                log.debug("an answer that nobody waits for", extra={"upstream": self.name})
                return
            self._standing.discard(number)
            try:
                waiter.answered(item)
            except Exception:
                # Whoever waits is told something, whatever is wrong here.
                waiter.failed(UpstreamError(f"the answer of server {self.name!r} could not be handled"))
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
            # Its ids are the server's own.
            if problem.id is not None:
                self.answer(messages.failure(problem.id, problem), cause)
            self.disregard(problem)
            return
        number = values.integer(problem.id)
        waiter = self._waiting.pop(number, None) if number is not None else None
        if waiter and number is not None:
            self._standing.discard(number)
            waiter.failed(UpstreamError(f"server {self.name!r} gave an unusable answer: {problem}"))
            if self.on_free:
                self.on_free()
        else:
            self.disregard(problem)

    def disregard(self, problem: HearthError) -> None:
        """What the server said goes nowhere."""
        self.warn_limited(f"not MCP{self._where}: {problem}")

    def warn_limited(self, problem: object) -> None:
        """Something is wrong that nobody waits for. The log has the first few: some servers never stop."""
        self._garbage += 1
        if self._garbage <= GARBAGE_REPORTS:
            log.warning("%s", problem, extra={"upstream": self.name})

    def _end(self, problem: UpstreamError, why: str) -> None:
        """Nobody will be answered any more: everybody who waits is told, then the owner."""
        self.fail_all(problem)
        self._owner.closed(self, why)

    def fail_all(self, problem: UpstreamError) -> None:
        """Everybody who waits is told that no answer will come."""
        waiting, self._waiting = self._waiting, {}
        self._standing.clear()
        for waiter in waiting.values():
            try:
                waiter.failed(problem)
            except Exception:
                log.exception("internal error at the end of a conversation", extra={"upstream": self.name})


def cancellation(number: int, reason: RawBytes | None) -> bytes:
    """The params of the notification that nobody waits for that answer any longer."""
    params: dict[str, RawBytes] = {"requestId": b"%d" % number}
    if reason is not None:
        params["reason"] = reason
    return json.join(params)


def refusal(message: json.Message, text: str, code: int = versions.METHOD_NOT_FOUND) -> bytes:
    """The error that answers a server's question which nobody takes."""
    return messages.error(message.id, code, text)
