"""Everything that reaches into uvicorn; the rest of HTTP uses ASGI and this module.

uvicorn's public interface is a server that binds sockets of its own. The daemon's socket carries several protocols, and
its connections are accepted, and their first bytes read, before one is known to speak HTTP. So only uvicorn's protocol
class is used, on a transport that exists. Besides, uvicorn sets no bound on the size or time of a request, answers
requests ahead of their turn, cannot refuse one in the middle, and cannot read the body behind a refused upgrade.
"""

import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from hearth.daemon.http.responses import VARY, Send
from hearth.daemon.http.transport import HELD_LIMIT_BYTES

if TYPE_CHECKING:
    import asyncio

# How long a connection waits for its next request; clients open another one transparently.
KEEP_ALIVE_SECONDS = 75


class UvicornSettings(NamedTuple):
    """Objects of uvicorn that all connections share."""

    config: Config
    state: ServerState


def load_settings(app: Any) -> UvicornSettings:
    """Return uvicorn's settings for an ASGI app: no server, no log and no headers of its own."""
    found = Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    found.load()
    # uvicorn logs a line for all data that is not HTTP, which any process that finds the port can send.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    state = ServerState()
    state.default_headers = VARY
    return UvicornSettings(found, state)


class Inflow(FlowControl):
    """Flow control that pauses reading while too much data is held back."""

    _is_full = False

    def hold(self, size: int) -> None:
        """Set the size of the data that is held back."""
        self._is_full = size > HELD_LIMIT_BYTES
        if self._is_full:
            self.pause_reading()

    def resume_reading(self) -> None:
        """Resume, unless too much data is held back."""
        if not self._is_full:
            super().resume_reading()


class UvicornProtocol(HttpToolsProtocol):
    """uvicorn's protocol class, with names for the parts of its state that a connection asks for or changes.

    `cycle` is uvicorn's object for the present request and its answer; None before the first request.
    """

    def interpose(self, inflow: Inflow, transport: "asyncio.Transport") -> None:
        """Have uvicorn use this flow control, and write to this transport."""
        self.flow = inflow
        self.transport = transport

    @property
    def has_request(self) -> bool:
        """Whether the headers of a first request have come."""
        return self.cycle is not None

    @property
    def is_unanswered(self) -> bool:
        """Whether a request waits for its answer, or for the rest of it."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_answering(self) -> bool:
        """Whether an answer has begun and has not ended."""
        return self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete

    def abandon_request(self) -> None:
        """Release the handler of the present request: it need not answer any more."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def dismiss(self) -> None:
        """Close the connection after the present answer."""
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def stop_keep_alive_timer(self) -> None:
        """Stop the timer that closes an idle connection."""
        self._unset_keepalive_if_required()

    def without_upgrade(self) -> bytes:
        """Return the head without `Upgrade` for a new parser: a server may ignore an upgrade (RFC 9110, 7.8)."""
        version = self.parser.get_http_version().encode()
        head = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        head += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        # The same setting as in uvicorn.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return b"\r\n".join([*head, b"", b""])

    def ended_by_close(self, send: Send) -> Send:
        """Return a `send` without uvicorn's chunked encoding, for clients that do not know it (RFC 9112, 6.1)."""
        is_counted = True
        cycle = self.cycle

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal is_counted
            if message["type"] == "http.response.start":
                is_counted = any(name == b"content-length" for name, _ in message["headers"])
                if not is_counted:
                    cycle.chunked_encoding = cycle.keep_alive = False
            elif not is_counted:
                # uvicorn compares this with the size of the body.
                cycle.expected_content_length = len(message["body"])
            await send(message)

        return sending


def status_line(status: int) -> bytes:
    """Return the first line of a response, as uvicorn writes it."""
    return STATUS_LINE[status]
