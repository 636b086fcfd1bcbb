"""Opening of a conversation with an MCP server: the handshake, which detects its era, and reading of its lists.

`server/discover` and `initialize` are written back to back:

| answer                                          | means                                     |
| ----------------------------------------------- | ----------------------------------------- |
| discover: a result, -32020, -32021 or -32022    | modern                                    |
| initialize: -32022                              | modern: discover tells the rest           |
| initialize: a result                            | legacy                                    |
| discover: any other error                       | not modern: initialize decides            |
| initialize: any other error                     | not legacy: discover decides              |
| both refused                                    | no MCP server                             |

The first success decides; no timeout is needed to tell silence from an answer. Of a server that speaks both eras, the
opening that is written first decides; some lock the process to the era of their first request. A server that exits when
it is asked for something unknown is started again and only initialized.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from hearth import __version__
from hearth.errors import HearthError, InstallationChanged, LoginRequired, MessageError, UpstreamError
from hearth.mcp import pinning, versions
from hearth.mcp.catalog import KINDS, SLICE_ENTRIES, TOOLS, Item, ListKind, ListReader, ServerCatalog
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.connection import Connection, Owner
from hearth.wire import json, values
from hearth.wire.values import RawBytes

if TYPE_CHECKING:
    from hearth.upstreams.change_notices import ListRefresher
    from hearth.upstreams.instance import Instance

log = logging.getLogger(__name__)

DISCOVER = "server/discover"
INITIALIZE = "initialize"
# A server with endless pages is cut off here; 100 pages of 50 tools are more than any client takes.
PAGES_LIMIT = 100
# Seconds for a server that has refused `initialize` as a modern server does to answer the other opening.
DISCOVER_SECONDS = 5.0

_CLIENT_INFO = {"name": "hearth", "version": __version__}
# `_meta` of Hearth's own requests to a modern server.
_ENVELOPE = json.dumps(
    {
        versions.PROTOCOL_VERSION_KEY: versions.NEWEST_MODERN,
        versions.CLIENT_CAPABILITIES_KEY: {},
        versions.CLIENT_INFO_KEY: _CLIENT_INFO,
    }
)


class Probe:
    """Probe that collects the answers to the two openings until the era is known."""

    def __init__(self, wanted: str = versions.MODERN, only: bool = False) -> None:
        first, second = (DISCOVER, INITIALIZE) if wanted == versions.MODERN else (INITIALIZE, DISCOVER)
        self.openings = (first,) if only else (first, second)
        self.era: str | None = None
        # Result that decided: of discover or of initialize. Empty if a modern error decided.
        self.result: json.Fields = {}
        self._refusals: dict[str, str] = {}

    def receive_answer(self, opening: str, message: json.Message) -> None:
        """Take one answer. Raises UpstreamError if no opening is left that could succeed."""
        if self.era:
            if opening == DISCOVER and self.era == versions.MODERN and message.result is not None:
                self.result = json.split(message.result)
            return
        if message.result is not None:
            self.era = versions.MODERN if opening == DISCOVER else versions.LEGACY
            self.result = json.split(message.result)
            return
        code, text = values.error(message)
        if code == versions.UNSUPPORTED_VERSION or (opening == DISCOVER and code in versions.MODERN_ONLY_ERRORS):
            self.era = versions.MODERN
            return
        self._refusals[opening] = text
        if len(self._refusals) == len(self.openings):
            said = "; ".join(f"{name}: {text}" for name, text in self._refusals.items())
            raise UpstreamError(f"it refused every way to open a conversation ({said})")


def opening_params(opening: str, capabilities: bytes) -> bytes:
    """Return the params of one of the two openings. `capabilities` are those of a legacy server's clients."""
    if opening == DISCOVER:
        return own_params(versions.MODERN)
    return json.join(
        {
            "protocolVersion": json.dumps(versions.NEWEST_LEGACY),
            "capabilities": capabilities,
            "clientInfo": json.dumps(_CLIENT_INFO),
        }
    )


class Opening(NamedTuple):
    """Way to open a conversation.

    `era` is asked for first; `only`: it is the only one; `in_turn`: the other is asked for only after a refusal.
    """

    era: str
    only: bool = False
    in_turn: bool = False


# For a server that exited during the handshake: old servers exit at a request that they do not know.
CAREFUL = Opening(versions.LEGACY, in_turn=True)


class Reply:
    """Waiter that resolves a future."""

    def __init__(self) -> None:
        self.future: asyncio.Future[json.Message] = asyncio.get_running_loop().create_future()
        # A failure may come when no task awaits the future any more.
        self.future.add_done_callback(lambda late: late.cancelled() or late.exception())

    def answered(self, message: json.Message) -> None:
        if not self.future.done():
            self.future.set_result(message)

    def failed(self, problem: HearthError) -> None:
        if not self.future.done():
            self.future.set_exception(problem)

    def progressed(self, params: json.Fields) -> None:
        pass


async def greet(connection: Connection, opening: Opening, capabilities: bytes) -> ServerCatalog:
    """Detect the era and complete the handshake. Raises UpstreamError; unbounded."""
    attempt = Probe(opening.era, opening.only)
    waiting: dict[asyncio.Future[json.Message], tuple[str, int]] = {}
    left = list(attempt.openings)
    try:
        while attempt.era is None:
            while left and not (opening.in_turn and waiting):
                await _send_opening(connection, left.pop(0), capabilities, waiting)
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            # In the order of sending: the answer to the first opening tells more than the refusal of the other.
            for future in [asked for asked in waiting if asked in done]:
                attempt.receive_answer(waiting.pop(future)[0], future.result())
        if attempt.era == versions.MODERN and not attempt.result:
            # The server refused `initialize` first, and has not described its capabilities yet.
            if DISCOVER in left:
                await _send_opening(connection, DISCOVER, capabilities, waiting)
            if waiting:
                (late,) = waiting
                if (await asyncio.wait([late], timeout=DISCOVER_SECONDS))[0]:
                    attempt.receive_answer(waiting.pop(late)[0], late.result())
    finally:
        for future, (_, number) in waiting.items():
            # The answer to the losing opening comes later, or never, and is ignored.
            connection.forget(number)
            future.cancel()
    found = _greeting(attempt)
    connection.greeted(found.era, found.version)
    if found.era == versions.LEGACY:
        connection.notify("notifications/initialized")
    return found


async def _send_opening(
    connection: Connection, name: str, capabilities: bytes, waiting: dict[asyncio.Future[json.Message], tuple[str, int]]
) -> None:
    reply = Reply()
    try:
        number = connection.request(json.dumps(name), opening_params(name, capabilities), reply)
    except UpstreamError as exc:
        raise await connection.why_lost() from exc
    waiting[reply.future] = (name, number)


def _greeting(attempt: Probe) -> ServerCatalog:
    assert attempt.era is not None
    result = attempt.result
    version = values.text(result.get("protocolVersion")) if attempt.era == versions.LEGACY else versions.NEWEST_MODERN
    capabilities = values.members(result.get("capabilities"))
    return ServerCatalog(
        attempt.era, version or versions.NEWEST_LEGACY, capabilities, values.text(result.get("instructions"))
    )


def own_params(era: str, **members: RawBytes | None) -> bytes:
    """Return the params of a request of Hearth's own."""
    params = {key: value for key, value in members.items() if value is not None}
    if era == versions.MODERN:
        params["_meta"] = _ENVELOPE
    return json.join(params)


async def ask(connection: Connection, era: str, method: str, **members: RawBytes | None) -> RawBytes:
    """Send a request of Hearth's own; return the raw result. Raises UpstreamError."""
    reply = Reply()
    number = connection.request(json.dumps(method), own_params(era, **members), reply)
    try:
        message = await reply.future
    finally:
        # Otherwise a cancelled request would count as a call in flight for as long as the server lives.
        connection.forget(number)
    if message.result is None:
        code, text = values.error(message)
        raise UpstreamError(f"server {connection.name!r} refused {method}: {text} ({code})")
    return message.result


async def read_lists(connection: Connection, found: ServerCatalog, kinds: Iterable[ListKind] = KINDS) -> None:
    """Fetch lists concurrently. Raises UpstreamError if the tools cannot be read."""
    wanted = [kind for kind in kinds if found.has(kind.capability)]
    lists = await asyncio.gather(*(read_list(connection, found.era, kind) for kind in wanted), return_exceptions=True)
    for kind, items in zip(wanted, lists, strict=True):
        if isinstance(items, list):
            found.take(kind, items)
        elif (kind is TOOLS and found.capabilities) or not isinstance(items, UpstreamError):
            raise items
        else:
            # Many servers declare resources and have no templates; their other lists are not withheld for that.
            log.info("a list was refused: %s", items, extra={"upstream": connection.name})


async def read_list(connection: Connection, era: str, kind: ListKind) -> list[Item]:
    """Read the pages of one list, within the limits. Raises UpstreamError."""
    reader = ListReader(kind, connection.name, connection.list_limits)
    seen: set[bytes | None] = {None}
    try:
        for _ in range(PAGES_LIMIT):
            for _ in reader.receive_page(await ask(connection, era, kind.method, cursor=reader.cursor)):
                # A large page takes long: other servers and clients get their turn between its slices.
                await asyncio.sleep(0)
            if reader.reached or reader.cursor in seen:
                break
            seen.add(reader.cursor)
        else:
            reader.reached = f"{PAGES_LIMIT} pages"
    except MessageError as exc:
        raise UpstreamError(f"server {connection.name!r} gave a list of {kind.member} that is none: {exc}") from exc
    if reader.reached:
        connection.warn_limited(
            f"list cut: server {connection.name!r} has more {kind.member} than {reader.reached};"
            f" the first {len(reader.items)} are offered and the rest is dropped"
        )
    await _prepare(reader.items)
    return reader.items


async def _prepare(items: list[Item]) -> None:
    """Compute the canonical forms of a long list of tools in slices; a short list is computed when compared."""
    if len(items) > SLICE_ENTRIES and items[0].kind is TOOLS:
        for number, item in enumerate(items):
            pinning.canonical_of(item)
            if number % SLICE_ENTRIES == 0:
                await asyncio.sleep(0)


def tell_headers(connection: Connection, found: ServerCatalog) -> None:
    """Tell an HTTP connection which arguments travel as headers, too; remove tools with invalid annotations."""
    if not connection.sends_headers or found.era != versions.MODERN:
        return
    from hearth.mcp import http_headers

    indexes: dict[str, http_headers.Index] = {}
    for name, item in list(found.lists[TOOLS].items()):
        try:
            indexes[name] = http_headers.index(item.definition.get("inputSchema", b"{}"))
        except http_headers.InvalidAnnotation as exc:
            log.warning("its tool %r is left out: %s", name, exc, extra={"upstream": connection.name})
            del found.lists[TOOLS][name]
    connection.learn_headers(indexes)


class ConversationOpener:
    """Opener of one instance's conversations: connects, shakes hands and reads the lists, era by era if need be.

    `connect` makes a connection that is not open yet. `recall` returns the former catalog for such clients.
    """

    def __init__(
        self,
        instance: "Instance",
        connect: Callable[[Owner, ClientContext], Awaitable[Connection]],
        recall: Callable[[bytes, str], ServerCatalog | None],
        refresher: "ListRefresher",
    ) -> None:
        self._instance = instance
        self._connect = connect
        self._recall = recall
        self._refresher = refresher
        # The connection that ended before it was ready, and the detected era.
        self._lost_early: Connection | None = None
        self._greeted_in: str | None = None

    def lost(self, connection: Connection) -> None:
        """Note that nothing can be sent to the starting server, or received from it, any more."""
        self._lost_early = connection

    async def open(self, opening: Opening, is_known: bool, seconds: float) -> ServerCatalog:
        """Open a conversation within so many seconds; return the catalog. `is_known`: the server speaks that era.

        Raises UpstreamError, and any unexpected exception; nothing is left of the connection then.
        """
        name = self._instance.name
        try:
            async with asyncio.timeout(seconds):
                return await self._open(opening, is_known)
        except (Exception, asyncio.CancelledError) as exc:
            # Whatever the cause: another process may be started as soon as the failure is reported.
            await self._instance.discard()
            if isinstance(exc, TimeoutError):
                raise UpstreamError(
                    f"server {name!r} did not answer within {seconds:g} s (key start_timeout)"
                ) from None
            if isinstance(exc, ImportError):
                raise InstallationChanged(exc) from exc
            if isinstance(exc, HearthError) and not isinstance(exc, LoginRequired):
                raise UpstreamError(f"server {name!r} could not be started: {exc}") from exc
            # LoginRequired reaches the user unchanged, as does any unexpected exception.
            raise

    async def _open(self, opening: Opening, is_known: bool) -> ServerCatalog:
        try:
            return await self._converse(opening)
        except UpstreamError as exc:
            if opening.only or not self._has_exited or isinstance(exc, LoginRequired):
                raise
            # An old server may exit at an unknown request: ask for one era at a time.
            era = self._greeted_in or (opening.era if is_known else None)
            await self._instance.discard()
            return await self._converse(Opening(era, only=True) if era else CAREFUL)

    async def _converse(self, opening: Opening) -> ServerCatalog:
        self._lost_early = self._greeted_in = None
        instance = self._instance
        connection = await self._connect(instance, instance.client_context)
        instance.use(connection)
        try:
            await connection.open()
        except UpstreamError:
            instance.use(None)
            raise
        found = await greet(connection, opening, instance.capabilities)
        self._greeted_in = found.era
        instance.greeted(opening.era, found.era)
        before = self._recall(instance.capabilities, found.era)
        if before:
            # The former catalog is good enough to begin with: the lists are read while calls run.
            found.adopt(before)
            self._refresher.refresh(KINDS)
        else:
            await read_lists(connection, found)
        if self._has_exited:
            # The server may have exited between its last answer and this line: nothing else would report it.
            raise await connection.why_lost()
        tell_headers(connection, found)
        if found.era == versions.MODERN:
            self._refresher.listen(connection, found)
        return found

    @property
    def _has_exited(self) -> bool:
        """True if the starting server is gone, or can no longer be reached."""
        return self._instance.connection is None or self._instance.connection is self._lost_early
