"""One HTTP connection: uvicorn's protocol on a transport that was accepted for any language, and limits of its own.

A request that does not come to its end, or has no end of headers, must not hold anything: each part of it has a limit,
and a time.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from hearth.daemon.counters import COUNTERS
from hearth.daemon.http import request_checks, responses
from hearth.daemon.http.incoming import Inflow, Pieces
from hearth.daemon.http.outgoing import LINGER_BYTES, Outgoing
from hearth.hub.sessions import Session

if TYPE_CHECKING:
    from hearth.daemon.http.app import HttpApp
    from hearth.host.posix.peers import Peer

log = logging.getLogger(__name__)

# Names and values together, as most servers have it; nothing that MCP sends comes near.
HEADERS_LIMIT_BYTES = 64 * 1024
HEADERS_LIMIT = 200
URL_LIMIT_BYTES = 8 * 1024
# From the connection to the end of the first headers, for who has shown no token. Clients connect when they have
# something to ask; this is for a slow network in between, and any user of the machine may hold a place for as long.
STRANGER_SECONDS = 5.0
# Of what the parser says is wrong, which may have the whole address in it.
WHAT_LIMIT = 200


class HttpConnection(HttpToolsProtocol):
    """A connection that speaks HTTP. Sessions are told apart by its requests, so it has none."""

    session: Session | None = None
    last_seen: float | None = None
    heartbeat_interval = 0.0
    is_shared = True

    def __init__(
        self, front: "HttpApp", config: Config, state: ServerState, peer: "Peer", needs_token: bool = False
    ) -> None:
        super().__init__(config, state, {"connection": self}, asyncio.get_running_loop())
        self.front = front
        self.peer = peer
        # Over TCP the kernel does not tell who it is: nobody, until it has shown the token.
        self.needs_token = needs_token
        self.is_stranger = needs_token
        # The token of the daemon's own endpoint, where that is on TCP; at other ports it is the one in the file.
        self.token = ""
        # Told when the client has gone, while a request is being answered.
        self.on_lost: list[Any] = []
        self._deadline: asyncio.TimerHandle | None = None
        # Runs while the client leaves unread what it was sent.
        self._unread: asyncio.TimerHandle | None = None
        # A request has begun and not come to its end; its head has.
        self._is_partial = False
        self._is_headed = False
        # Its head asks for another protocol, which the parser takes to follow at once.
        self._asks_upgrade = False
        # The parser is given one request at a time; what has come behind it waits for its answer.
        self._pieces = Pieces()
        self._held = b""
        self._headers_bytes = 0
        # The parser has told something of what came last, and how much has come since it did.
        self._has_told = False
        self._untold_bytes = 0
        self._refused = False
        self._is_made = False
        self._is_dropped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._is_made = True
        self.flow = self._inflow = Inflow(self.transport)
        self.transport = self._outgoing = Outgoing(self.transport, self._may_hear)
        if self._is_dropped:
            self.transport.abort()
        elif self.needs_token:
            # Nothing has come yet, and nothing may ever.
            self._set_deadline()

    @property
    def own_address(self) -> str | None:
        """The address of this machine that it has arrived at; a socket has none."""
        return self.server[0] if self.needs_token and self.server else None

    @property
    def claim(self) -> int:
        """What a stranger is owed: nothing more after its answer, little before the end of its first headers."""
        if self._is_made and self.transport.is_closing():
            return 0
        return 1 if self.cycle is None and not self._is_headed else 2

    def drop(self) -> None:
        """End it at once, or as soon as it is there."""
        self._is_dropped = True
        if self._is_made:
            self.transport.abort()

    @property
    def _is_awaited(self) -> bool:
        """Whether a request has come to its end, and has no answer."""
        return not self._is_partial and self.cycle is not None and not self.cycle.response_complete

    def _may_hear(self) -> int:
        """What it has not said yet: it is being read, or waits to be, or nobody knows where it ends."""
        is_sending = self._is_partial or self._held or self._refused
        return self.front.services.config.message_limit + LINGER_BYTES if is_sending else 0

    # --- what comes

    def data_received(self, data: bytes) -> None:
        if self._outgoing.is_lingering:
            self._outgoing.pass_over(len(data))
        elif not self._refused and self.parser is not None:
            self._take(data)

    def _take(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._read(data)
        # Most requests come whole, and need no clock. What is none, such as an empty line, has stopped uvicorn's.
        is_idle = self.cycle is None or self.cycle.response_complete
        if (self._is_partial or is_idle) and self._deadline is None and not self._refused:
            self._set_deadline()

    def _read(self, data: bytes) -> None:
        start = 0
        while start < len(data) and not self._refused:
            if self._is_awaited:
                self._hold(data[start:])
                break
            end = self._pieces.end(data, start)
            piece = data[start:end]
            if self._is_partial:
                self._receive_more(piece)
            else:
                self._feed(piece)
            start = end

    def _hold(self, data: bytes) -> None:
        self._held += data
        self._inflow.hold(len(self._held))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Also if nobody will read it: the connection may be there for a while.
        held, self._held = self._held, b""
        if held and not self._refused and not self.transport.is_closing():
            self._inflow.hold(0)
            self._take(held)
            self._inflow.resume_reading()

    # --- what uvicorn's parser tells

    def _receive_more(self, data: bytes) -> None:
        """The parser keeps a header until it is whole, and tells nothing meanwhile; nor of what it passes over."""
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
        """Unlike uvicorn's, it reads the body of who would rather speak HTTP/2, which is what Java's client says."""
        try:
            while data:
                data = self._feed_parser(data)
        except httptools.HttpParserError as exc:
            # What a callback has to say is behind it.
            what = str(exc.__context__ or exc)[:WHAT_LIMIT]
            self.refuse(400, f"this is not HTTP/1.1 as RFC 9112 has it: {what}")

    def _feed_parser(self, data: bytes) -> bytes:
        """What is to be read instead. Raises HttpParserError."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            if self._asks_upgrade:
                return self._without_upgrade() + data[exc.args[0] :]
            self.refuse(400, "CONNECT is for proxies, and this is none")
        return b""

    def _without_upgrade(self) -> bytes:
        """The head, to be read again by another parser: a server may pass over an upgrade (RFC 9110, 7.8)."""
        version = self.parser.get_http_version().encode()
        head = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        head += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        # As uvicorn has it.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._asks_upgrade = False
        return b"\r\n".join([*head, b"", b""])

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
        # What follows a body is no header, whatever it is called (RFC 9110, 6.5.1): the checks are over.
        elif not self._refused and not self._is_headed:
            super().on_header(name, value)

    def _refuse_headers(self) -> None:
        self.refuse(431, f"there are more than {HEADERS_LIMIT} headers, or {HEADERS_LIMIT_BYTES} bytes of them")

    def on_headers_complete(self) -> None:
        self._is_headed = True
        if self.is_stranger:
            # The body has the time that everybody's has.
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
            # It is read again.
            return
        self._is_partial = False
        self._end_deadline()
        if not self._refused:
            super().on_message_complete()

    def _set_deadline(self) -> None:
        seconds = self.front.services.config.http_request_timeout
        if self.is_stranger and not self._is_headed:
            seconds = min(seconds or STRANGER_SECONDS, STRANGER_SECONDS)
        if seconds:
            self._deadline = self.loop.call_later(seconds, self._late, seconds)

    def _end_deadline(self) -> None:
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None

    def _late(self, seconds: float) -> None:
        limit = self.front.services.config.http_request_timeout
        name = " (http_request_timeout)" if seconds == limit else ", and has shown no token"
        self.refuse(408, f"the request did not come to its end within {seconds:g} s{name}")

    @contextmanager
    def one_write(self) -> Iterator[None]:
        """What is sent inside goes out together."""
        self._outgoing.hold()
        try:
            yield
        finally:
            self._outgoing.release()

    def dismiss(self) -> None:
        """This answer is the last."""
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def refuse(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        """Say what is wrong with a request that has not been answered, and end the connection.

        `headers` are its own, if it is not the one that is being read.
        """
        if self._refused:
            return
        self._refused = True
        self._end_deadline()
        cycle = self.cycle
        begun = cycle is not None and cycle.response_started and not cycle.response_complete
        # Its body goes on although nobody wants it.
        answered = cycle is not None and cycle.response_complete and self._is_partial and self._is_headed
        if cycle is not None:
            # Whoever answers it need not.
            cycle.disconnected = True
            cycle.message_event.set()
        if not self.transport.is_closing() and not begun and not answered:
            body = responses.reason(reason)
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n" % len(body)
            more = [*self._shared_with(headers), *responses.VARY, *(responses.RETRY_SOON if status == 503 else ())]
            lines = b"".join([b"%b: %b\r\n" % header for header in more])
            self.transport.write(STATUS_LINE[status] + head + lines + b"\r\n" + body)
        if begun:
            self._outgoing.finish()
        else:
            self.transport.close()

    def _shared_with(self, headers: Mapping[str, str] | None) -> responses.Headers:
        """What lets a page read the answer, if it is one that is let in, as far as its headers have come."""
        if headers is None:
            headers = request_checks.headers_of(self.headers) if self._is_partial else {}
        config, origin = self.front.services.config, headers.get("origin")
        if origin is None or request_checks.refused_address(
            headers, config.http_hosts, config.http_origins, self.own_address
        ):
            return []
        return request_checks.shared_with(origin)

    # --- a client that does not read

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_unread()

    def _await_reader(self) -> None:
        # Whatever waits for it is bounded, but would be held for as long as it stays connected.
        seconds = self.front.services.config.http_request_timeout
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

    # --- the end

    def eof_received(self) -> None:
        # A client that has said everything may still wait for its answer, but none does so over HTTP.
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()
        self._end_unread()
        self._outgoing.finish()
        # What is left of the connection may stay until the next collection.
        self._held = b""
        super().connection_lost(exc)
        # uvicorn leaves its clock running where the connection broke, and that would hold all of this for as long.
        self._unset_keepalive_if_required()
        waiting, self.on_lost = self.on_lost, []
        for lost in waiting:
            lost()
        self.front.lost(self)

    def drain(self, reconnect: bool, reason: str) -> None:
        """Take no further request; one that is being answered is, one that has not come to its end is told."""
        self.front.drain(reason)
        if self._is_partial:
            self.refuse(503, "the daemon is going out; ask again")
        elif self._is_made:
            self.shutdown()

    def close(self) -> None:
        """Close after everything queued has been taken."""
        if self.cycle is None or self.cycle.response_complete or self._refused:
            self._outgoing.finish()
        else:
            self.dismiss()

    def cut(self) -> None:
        """End it at once, whatever it waits for."""
        self.transport.abort()

    def adapt(self, config: object) -> None:
        """What is limited over HTTP are sessions, and they are looked after by what all connections share."""

    def abort(self, why: str) -> None:
        """Drop a client that does not read."""
        who = f"the HTTP client with pid {self.peer.pid}" if self.peer.pid else "an HTTP client over TCP"
        log.warning("%s %s; its connection is dropped", who, why)
        COUNTERS.readers_dropped += 1
        self.transport.abort()
