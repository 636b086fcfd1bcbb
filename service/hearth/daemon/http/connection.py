"""HTTP connection, with limits, on a transport that was accepted for any protocol.

A request that is never completed, or whose headers do not end, must not hold resources: each of its parts has a size
limit and a timeout.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import httptools

from hearth.daemon.client_connection import COUNTERS, ClientConnection
from hearth.daemon.http import http_messages
from hearth.daemon.http.uvicorn_protocol import (
    LINGER_BYTES,
    Inflow,
    Outgoing,
    Pieces,
    UvicornProtocol,
    UvicornSettings,
    status_line,
)

if TYPE_CHECKING:
    from hearth.daemon.http.app import HttpApp
    from hearth.host.peers import Peer
    from hearth.hub.sessions import Session

log = logging.getLogger(__name__)

# Names and values together, as in most servers; MCP requests need far less.
HEADERS_LIMIT_BYTES = 64 * 1024
HEADERS_LIMIT = 200
URL_LIMIT_BYTES = 8 * 1024
# Time from the connection to the end of the first headers, for unauthenticated clients. Clients connect when they have
# something to ask; this allows for a slow network, and any user of the machine may hold a connection for as long.
STRANGER_SECONDS = 5.0
# Characters of a parser error, which may contain the whole URL.
WHAT_LIMIT = 200


class HttpConnection(UvicornProtocol, ClientConnection):
    """Connection that speaks HTTP. Its requests name their sessions, so it has none of its own."""

    is_shared = True

    def __init__(self, app: "HttpApp", settings: UvicornSettings, peer: "Peer", needs_token: bool = False) -> None:
        super().__init__(settings.config, settings.state, {"connection": self}, asyncio.get_running_loop())
        # `app` is an attribute of uvicorn's own.
        self.http_app = app
        self.peer = peer
        # Over TCP the kernel does not identify the peer: the connection is unauthenticated until it shows the token.
        self.needs_token = needs_token
        self.is_stranger = needs_token
        # The token of the daemon's own endpoint, where that is on TCP; other ports use the one in the file.
        self.token = ""
        # The process at the other end of a TCP connection, and the session that it was last noted for: see `callers`.
        self.lookup: asyncio.Future[int | None] | None = None
        self.noted: Session | None = None
        # Called when the client disconnects while a request is being answered.
        self.on_lost: list[Any] = []
        self._deadline: asyncio.TimerHandle | None = None
        # Runs while the client does not read.
        self._unread: asyncio.TimerHandle | None = None
        # A request has begun and is not complete; its headers are.
        self._is_partial = False
        self._is_headed = False
        # The request asks for an upgrade, and the parser assumes that the other protocol follows at once.
        self._asks_upgrade = False
        # The parser gets one request at a time; data behind it is held until the answer is sent.
        self._pieces = Pieces()
        self._held = b""
        self._headers_bytes = 0
        # Whether the last data led to a parser callback, and how many bytes have come since the last one.
        self._has_told = False
        self._untold_bytes = 0
        self._refused = False
        self._is_made = False
        self._is_dropped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._is_made = True
        self._inflow, self._outgoing = Inflow(self.transport), Outgoing(self.transport, self._may_hear)
        self.interpose(self._inflow, self._outgoing)
        if self._is_dropped:
            self.transport.abort()
        elif self.needs_token:
            # No data has come yet, and may never come.
            self._set_deadline()

    @property
    def own_address(self) -> str | None:
        """The local address of a TCP connection; None on the daemon's socket."""
        return self.server[0] if self.needs_token and self.server else None

    @property
    def claim(self) -> int:
        """The priority of an unauthenticated connection when one has to be dropped; the lowest is dropped first.

        0 after its answer, 1 before the end of its first headers, otherwise 2.
        """
        if self._is_made and self.transport.is_closing():
            return 0
        return 1 if not self.has_request and not self._is_headed else 2

    def drop(self) -> None:
        """Abort the connection now, or as soon as it is made."""
        self._is_dropped = True
        if self._is_made:
            self.transport.abort()

    @property
    def _is_awaited(self) -> bool:
        """Whether a complete request waits for its answer."""
        return not self._is_partial and self.is_unanswered

    def _may_hear(self) -> int:
        """Return how many bytes the client may still send after the last answer; 0 if it is not sending.

        A client is sending if its request is incomplete, if data is held back, or after a refusal, when the end of the
        request is unknown.
        """
        is_sending = self._is_partial or self._held or self._refused
        return self.http_app.services.config.message_limit + LINGER_BYTES if is_sending else 0

    # --- incoming data

    def data_received(self, data: bytes) -> None:
        if self._outgoing.is_lingering:
            self._outgoing.pass_over(len(data))
        elif not self._refused and self.parser is not None:
            self._take(data)

    def _take(self, data: bytes) -> None:
        self.stop_keep_alive_timer()
        self._read(data)
        # Most requests arrive complete and need no timer. Data that is no request, such as an empty line, has stopped
        # uvicorn's keep-alive timer.
        if (self._is_partial or not self.is_unanswered) and self._deadline is None and not self._refused:
            self._set_deadline()

    def _read(self, data: bytes) -> None:
        start = 0
        while start < len(data) and not self._refused:
            if self._is_awaited:
                self._held += data[start:]
                self._inflow.hold(len(self._held))
                break
            end = self._pieces.end(data, start)
            piece = data[start:end]
            if self._is_partial:
                self._receive_more(piece)
            else:
                self._feed(piece)
            start = end

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Free the data even if it will not be read: the connection may stay for a while.
        held, self._held = self._held, b""
        if held and not self._refused and not self.transport.is_closing():
            self._inflow.hold(0)
            self._take(held)
            self._inflow.resume_reading()

    # --- callbacks of uvicorn's parser

    def _receive_more(self, data: bytes) -> None:
        """Feed further data of a request, and bound the data that leads to no callback.

        The parser buffers a header until it is complete without a callback; it has none for ignored data, either.
        """
        before = self._headers_bytes, self.url
        self._has_told = False
        self._feed(data)
        if self._has_told or before != (self._headers_bytes, self.url):
            self._untold_bytes = 0
            return
        self._untold_bytes += len(data)
        if self._untold_bytes > HEADERS_LIMIT_BYTES:
            self._refuse_headers()

    def _feed(self, data: bytes) -> None:
        """Feed the parser. Unlike uvicorn, read the body of a request with `Upgrade: h2c`: Java's client sends that."""
        try:
            while data:
                data = self._feed_parser(data)
        except httptools.HttpParserError as exc:
            # The error of a callback is the context of the parser's error.
            what = str(exc.__context__ or exc)[:WHAT_LIMIT]
            self.refuse(400, f"this is not HTTP/1.1 as RFC 9112 has it: {what}")

    def _feed_parser(self, data: bytes) -> bytes:
        """Feed the parser and return the data to feed next, if any. Raises HttpParserError."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            if self._asks_upgrade:
                self._asks_upgrade = False
                return self.without_upgrade() + data[exc.args[0] :]
            self.refuse(400, "CONNECT is for proxies, and this is none")
        return b""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._headers_bytes = self._untold_bytes = 0
        self._is_partial = self._has_told = True
        self._is_headed = False
        if not self.is_stranger:
            self._end_deadline()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > URL_LIMIT_BYTES:
            self.refuse(414, f"the address is longer than {URL_LIMIT_BYTES} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers_bytes += len(name) + len(value)
        if self._headers_bytes > HEADERS_LIMIT_BYTES or len(self.headers) >= HEADERS_LIMIT:
            self._refuse_headers()
        # Trailers are not headers, whatever their names (RFC 9110, 6.5.1): the checks are over.
        elif not self._refused and not self._is_headed:
            super().on_header(name, value)

    def _refuse_headers(self) -> None:
        self.refuse(431, f"there are more than {HEADERS_LIMIT} headers, or {HEADERS_LIMIT_BYTES} bytes of them")

    def on_headers_complete(self) -> None:
        self._is_headed = True
        if self.is_stranger:
            # The body has the same timeout as that of any client.
            self._end_deadline()
        names = dict(self.headers)
        self._pieces.body_left = int(names.get(b"content-length", 0))
        self._asks_upgrade = b"upgrade" in names and self.parser.should_upgrade()
        if not self._refused and not self._asks_upgrade:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_told = True
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._asks_upgrade:
            # The request is parsed again without the upgrade.
            return
        self._is_partial = False
        self._end_deadline()
        if not self._refused:
            super().on_message_complete()

    def _set_deadline(self) -> None:
        seconds = self.http_app.services.config.http_request_timeout
        if self.is_stranger and not self._is_headed:
            seconds = min(seconds or STRANGER_SECONDS, STRANGER_SECONDS)
        if seconds:
            self._deadline = self.loop.call_later(seconds, self._late, seconds)

    def _end_deadline(self) -> None:
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None

    def _late(self, seconds: float) -> None:
        limit = self.http_app.services.config.http_request_timeout
        name = " (http_request_timeout)" if seconds == limit else ", and has shown no token"
        self.refuse(408, f"the request did not come to its end within {seconds:g} s{name}")

    @contextmanager
    def one_write(self) -> Iterator[None]:
        """Send everything that is written inside the context in one write."""
        self._outgoing.hold()
        try:
            yield
        finally:
            self._outgoing.release()

    def refuse(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        """Answer a request with an error and close the connection.

        `headers` are those of the request, if it is not the one that is being read.
        """
        if self._refused:
            return
        self._refused = True
        self._end_deadline()
        begun = self.is_answering
        # The request is answered already, while its body still arrives.
        answered = self.has_request and not self.is_unanswered and self._is_partial and self._is_headed
        self.abandon_request()
        if not self.transport.is_closing() and not begun and not answered:
            body = http_messages.reason(reason)
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n" % len(body)
            more = [*self._shared_with(headers), *http_messages.VARY]
            more += http_messages.RETRY_SOON if status == 503 else []
            lines = b"".join([b"%b: %b\r\n" % header for header in more])
            self.transport.write(status_line(status) + head + lines + b"\r\n" + body)
        if begun:
            self._outgoing.finish()
        else:
            self.transport.close()

    def _shared_with(self, headers: Mapping[str, str] | None) -> http_messages.Headers:
        """Return the CORS headers for an allowed page, as far as the headers of its request have arrived."""
        if headers is None:
            headers = http_messages.headers_of(self.headers) if self._is_partial else {}
        config, origin = self.http_app.services.config, headers.get("origin")
        if origin is None or http_messages.refused_address(
            headers, config.http_hosts, config.http_origins, self.own_address
        ):
            return []
        return http_messages.shared_with(origin)

    # --- clients that do not read

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_unread()

    def _await_reader(self) -> None:
        # The data that waits for the client is bounded, but would be held for as long as it stays connected.
        seconds = self.http_app.services.config.http_request_timeout
        if seconds:
            size = self.transport.get_write_buffer_size()
            self._unread = self.loop.call_later(seconds, self._look_at_reader, size, seconds)

    def _look_at_reader(self, size: int, seconds: float) -> None:
        if self.transport.get_write_buffer_size() < size:
            self._await_reader()
        else:
            self.abort(f"has read nothing for {seconds:g} s (http_request_timeout)")

    def _end_unread(self) -> None:
        if self._unread:
            self._unread.cancel()
            self._unread = None

    # --- shutdown

    def eof_received(self) -> None:
        # A client could close its writing side and still wait for the answer, but no HTTP client does so.
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()
        self._end_unread()
        self._outgoing.finish()
        # The connection object may live until the next garbage collection.
        self._held = b""
        super().connection_lost(exc)
        # uvicorn leaves its keep-alive timer running when the connection breaks, and the timer would hold this object.
        self.stop_keep_alive_timer()
        waiting, self.on_lost = self.on_lost, []
        for lost in waiting:
            lost()
        self.http_app.lost(self)

    def drain(self, reconnect: bool, reason: str) -> None:
        """Take no further request. A request that is being answered is finished, an incomplete one is refused."""
        self.http_app.drain(reason)
        if self._is_partial:
            self.refuse(503, "the daemon is shutting down; ask again")
        elif self._is_made:
            self.shutdown()

    def close(self) -> None:
        """Close after the client has taken everything that is queued."""
        if not self.is_unanswered or self._refused:
            self._outgoing.finish()
        else:
            self.dismiss()

    def cut(self) -> None:
        """Abort the connection, whatever it waits for."""
        self.transport.abort()

    def adapt(self, config: object) -> None:
        """Do nothing: over HTTP the limits are per session, and the app applies them."""

    def abort(self, why: str) -> None:
        """Drop a client that does not read."""
        who = f"the HTTP client with pid {self.peer.pid}" if self.peer.pid else "an HTTP client over TCP"
        log.warning("%s %s; its connection is dropped", who, why)
        COUNTERS.readers_dropped += 1
        self.transport.abort()
