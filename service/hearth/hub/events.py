"""Typed events of the hub: sessions, calls, servers, config. For `hearth events`, `/api/v1/events` and later frontends.

One bus per process, as there is one daemon in it. The rules:

1. Rare events are always emitted, and the newest `KEPT_EVENTS` of them stay in a ring for later subscribers.
2. Call events exist only while `EVENTS.is_followed`: the path of a call reads that one attribute and nothing else. Call
   events do not enter the ring, where a busy minute would push out everything that a person looks for.
3. Each subscriber has a bounded queue. A slow one loses its oldest events and gets one `Dropped` with their number in
   their place; the hub never waits for a subscriber.
4. No event carries arguments, results, URIs or anything else that a client or server passed through Hearth.

A new family (approvals, agents) is one more subclass of `HubEvent`. Does no I/O.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import msgspec

from hearth.wire import json, values

if TYPE_CHECKING:
    from hearth.hub.calls import ClientRequest, UpstreamAttempt

Item = TypeVar("Item")

# Sessions, server starts and reloads of about a working day; about 100 KB at most.
KEPT_EVENTS = 200
# Events that a subscriber may lag behind: a few seconds of the busiest daemon that was measured.
QUEUE_LIMIT = 1000
# A reason is a sentence for people; the last output of a server may be longer.
REASON_LIMIT = 500


class HubEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", rename="camel", omit_defaults=True):
    """Base of all events; `at` is seconds since 1970. Encoded as one JSON object whose `type` tells the class."""

    at: float = msgspec.field(default_factory=lambda: round(time.time(), 3))


class SessionOpened(HubEvent, frozen=True, kw_only=True, tag="session.opened"):
    """Event: a client has opened a session; its name is not known before its first message."""

    session: str
    wire: str


class SessionClosed(HubEvent, frozen=True, kw_only=True, tag="session.closed"):
    """Event: a session has ended."""

    session: str
    wire: str
    client: str | None = None


class OwnerChanged(HubEvent, frozen=True, kw_only=True, tag="owner.changed"):
    """Event: another session decides over shutdown and reload."""

    session: str


class CallStarted(HubEvent, frozen=True, kw_only=True, tag="call.started"):
    """Event: a request was sent to a server; `tool` is the name of a tool or prompt as the server knows it."""

    session: str
    server: str
    method: str
    tool: str | None = None


class CallFinished(HubEvent, frozen=True, kw_only=True, tag="call.finished"):
    """Event: a request was answered; `is_error` is also set for a result that its tool marked as an error."""

    session: str
    server: str
    method: str
    tool: str | None = None
    seconds: float
    is_error: bool


class ServerStarted(HubEvent, frozen=True, kw_only=True, tag="server.started"):
    """Event: an instance of a server is ready; `restarts` counts the failures of that instance so far."""

    server: str
    era: str
    restarts: int = 0


class ServerStopped(HubEvent, frozen=True, kw_only=True, tag="server.stopped"):
    """Event: the connection to an instance has ended; `reason` is set if it ended by a failure."""

    server: str
    reason: str | None = None


class ServerFailed(HubEvent, frozen=True, kw_only=True, tag="server.failed"):
    """Event: an instance could not be started."""

    server: str
    reason: str


class ServerRestarted(HubEvent, frozen=True, kw_only=True, tag="server.restarted"):
    """Event: a restart of a server was requested."""

    server: str


class ListsChanged(HubEvent, frozen=True, kw_only=True, tag="lists.changed"):
    """Event: a server announced other tools, prompts or resources."""

    server: str
    lists: list[str]


class LoginNeeded(HubEvent, frozen=True, kw_only=True, tag="login.required"):
    """Event: a server wants a person to log in."""

    server: str


class ConfigReloaded(HubEvent, frozen=True, kw_only=True, tag="config.reloaded"):
    """Event: the config was read again; with an `error` the former one stays in force."""

    path: str
    error: str | None = None


class ApprovalRequested(HubEvent, frozen=True, kw_only=True, tag="approval.requested"):
    """Event: a call waits for a decision of a lead or a person; `server` is empty for a client's own tool.

    `kind` is `approval`, or `permission` for a request of an agent without a policy. `agent` is the agent that asks,
    `lead` the lead agent that is asked.
    """

    id: str
    kind: str
    session: str
    role: str
    server: str
    tool: str
    level: str
    agent: str | None = None
    lead: str | None = None


class ApprovalDecided(HubEvent, frozen=True, kw_only=True, tag="approval.decided"):
    """Event: an approval ended; `verdict` is `approved`, `denied`, `expired` or `withdrawn`."""

    id: str
    verdict: str
    by: str | None = None


class PolicyReloaded(HubEvent, frozen=True, kw_only=True, tag="policy.reloaded"):
    """Event: the policy was read again; with an `error` the former one stays in force."""

    path: str
    error: str | None = None


class AgentCreated(HubEvent, frozen=True, kw_only=True, tag="agent.created"):
    """Event: an agent was created; `parent` is the agent that did so, if one did."""

    agent: str
    provider: str
    parent: str | None = None


class AgentStatusChanged(HubEvent, frozen=True, kw_only=True, tag="agent.status"):
    """Event: an agent has another status: `initializing`, `idle`, `running`, `error` or `closed`."""

    agent: str
    status: str


class AgentPermissionAsked(HubEvent, frozen=True, kw_only=True, tag="agent.permission"):
    """Event: an agent asks for a permission, which waits for a decision."""

    agent: str
    request: str


class AgentClosed(HubEvent, frozen=True, kw_only=True, tag="agent.closed"):
    """Event: an agent has ended for good."""

    agent: str
    reason: str | None = None


class Dropped(HubEvent, frozen=True, kw_only=True, tag="dropped"):
    """Event for one subscriber: it was too slow and has lost `count` events before the next one."""

    count: int


EVENT_TYPES: tuple[type[HubEvent], ...] = (
    SessionOpened, SessionClosed, OwnerChanged, CallStarted, CallFinished, ServerStarted, ServerStopped, ServerFailed,
    ServerRestarted, ListsChanged, LoginNeeded, ConfigReloaded, ApprovalRequested, ApprovalDecided, PolicyReloaded,
    AgentCreated, AgentStatusChanged, AgentPermissionAsked, AgentClosed, Dropped,
)  # fmt: skip

_encoder = msgspec.json.Encoder()


def encode(event: HubEvent) -> bytes:
    """Return an event as one JSON object, without a line end."""
    return _encoder.encode(event)


class Feed(Generic[Item]):
    """Queue of one reader. A context manager; `close` also wakes the reader, which then reads to the end."""

    def __init__(self, discard: Callable[[Any], None]) -> None:
        self._discard = discard
        self._news = asyncio.Event()
        self.is_closed = False

    def take(self) -> list[Item]:
        """Return what waits without waiting for more."""
        raise NotImplementedError

    async def wait(self, seconds: float | None = None) -> list[Item]:
        """Return what comes next; an empty list at the end, or after `seconds` without anything."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass
        return self.take()

    def close(self) -> None:
        """End the feed: nothing more is added. The reader may do so again after the daemon has."""
        if not self.is_closed:
            self.is_closed = True
            self._news.set()
            self._discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Subscription(Feed[HubEvent]):
    """Queue of one subscriber, which drops its oldest events for newer ones."""

    def __init__(self, bus: "EventBus", limit: int) -> None:
        super().__init__(bus.discard)
        self._limit = limit
        self._waiting: deque[HubEvent] = deque()
        self._dropped = 0

    def put(self, event: HubEvent) -> None:
        """Append an event; drop the oldest if the queue is full."""
        if len(self._waiting) >= self._limit:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append(event)
        self._news.set()

    def take(self) -> list[HubEvent]:
        """Return the waiting events without waiting for more."""
        dropped, self._dropped = self._dropped, 0
        found = [Dropped(count=dropped), *self._waiting] if dropped else list(self._waiting)
        self._waiting.clear()
        if not self.is_closed:
            self._news.clear()
        return found


class EventBus:
    """Distributor of events to subscribers, and the ring of those that were kept."""

    __slots__ = ("_kept", "_subscribers", "is_followed")

    def __init__(self) -> None:
        # Whether there are subscribers. A plain attribute: each call reads it.
        self.is_followed = False
        self._subscribers: list[Subscription] = []
        self._kept: deque[HubEvent] = deque(maxlen=KEPT_EVENTS)

    def emit(self, event: HubEvent) -> None:
        """Keep an event and hand it to every subscriber."""
        self._kept.append(event)
        self._publish(event)

    def _publish(self, event: HubEvent) -> None:
        for each in self._subscribers:
            each.put(event)

    def kept(self, count: int = KEPT_EVENTS) -> list[HubEvent]:
        """Return the newest kept events, the oldest first."""
        return list(self._kept)[-count:] if count > 0 else []

    def subscribe(self, limit: int = QUEUE_LIMIT) -> Subscription:
        """Return a new subscription, which gets every event from now on."""
        found = Subscription(self, limit)
        self._subscribers.append(found)
        self.is_followed = True
        return found

    def discard(self, subscription: Subscription) -> None:
        """Forget a subscription, known or not."""
        if subscription in self._subscribers:
            self._subscribers.remove(subscription)
        self.is_followed = bool(self._subscribers)

    def close(self) -> None:
        """End every subscription: the daemon shuts down."""
        for each in list(self._subscribers):
            each.close()

    # --- calls: only while `is_followed`

    def call_started(self, request: "ClientRequest", attempt: "UpstreamAttempt") -> None:
        """Publish that a call was sent."""
        self._publish(
            CallStarted(
                session=request.session.id,
                server=attempt.server.name,
                method=request.method,
                tool=_tool_of(attempt, request),
            )
        )

    def call_finished(self, request: "ClientRequest", attempt: "UpstreamAttempt | None", payload: bytes | None) -> None:
        """Publish the end of a call that was sent to a server; a cancelled call has no payload."""
        if attempt is None:
            return
        self._publish(
            CallFinished(
                session=request.session.id,
                server=attempt.server.name,
                method=request.method,
                tool=_tool_of(attempt, request),
                # Questions to the client move the start: it may be a little later than now.
                seconds=round(max(0.0, time.monotonic() - attempt.started), 6),
                is_error=payload is None or _is_error(payload),
            )
        )


def _tool_of(attempt: "UpstreamAttempt", request: "ClientRequest") -> str | None:
    """Return the tool or prompt that a call names. Other methods name a URI, which is the client's own business."""
    if request.method not in ("tools/call", "prompts/get"):
        return None
    return values.text(json.split(attempt.params).get("name"))


def _is_error(payload: bytes) -> bool:
    """Tell whether an answer is a JSON-RPC error, or the result of a tool that failed."""
    result = json.parse(payload).fields.get("result")
    return result is None or values.is_true(values.members(result).get("isError"))


EVENTS = EventBus()
