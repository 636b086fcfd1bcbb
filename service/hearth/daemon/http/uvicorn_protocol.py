"""Everything that reaches into uvicorn, and both sides of its connection; the rest of HTTP uses ASGI and this module.

uvicorn's public interface is a server that binds sockets of its own. The daemon's socket carries several protocols, and
its connections are accepted, and their first bytes read, before one is known to speak HTTP. So only uvicorn's protocol
class is used, on a transport that exists. Besides, uvicorn sets no bound on the size or time of a request, answers
requests ahead of their turn, cannot refuse one in the middle, and cannot read the body behind a refused upgrade.

The parser gets the next request when the last one is answered (`Pieces`): it cannot be stopped in the middle of its
input, and parsed requests take a hundred times the memory of the input. uvicorn writes to `Outgoing`.
"""

import asyncio
import logging
import re
from collections.abc import Callable, MutableMapping
from typing import Any, NamedTuple

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from hearth.daemon.http.http_messages import VARY, Send

# How long a connection waits for its next request; clients open another one transparently.
KEEP_ALIVE_SECONDS = 75
# Limit of the data held back behind an unanswered request; reading pauses above it. This is enough for hundreds of
# requests, and MCP clients send none ahead. Only a connection that is read shows that its client has disconnected.
HELD_LIMIT_BYTES = 64 * 1024


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

    def interpose(self, inflow: Inflow, transport: asyncio.Transport) -> None:
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


# The end of headers, and of a chunked body.
_END = b"\r\n\r\n"
# Ignored before a request.
_EMPTY_LINES = re.compile(rb"[\r\n]+")


class Pieces:
    """Splitter that finds the ends of requests. `body_left` is the missing part of a body of declared length."""

    def __init__(self) -> None:
        self.body_left = 0
        # The last bytes of an incomplete piece: the end marker may be split between reads.
        self._tail = b""

    def end(self, data: bytes, start: int) -> int:
        """Return the end of the piece that begins at `start`. The end of a request is always the end of a piece.

        The reverse is not true: a request may consist of several pieces.
        """
        if self.body_left:
            size = min(self.body_left, len(data) - start)
            self.body_left -= size
            return start + size
        if self._tail:
            seam = (self._tail + data[start : start + 3]).find(_END)
            if seam >= 0:
                end = start + seam + len(_END) - len(self._tail)
                self._tail = b""
                return end
        elif empty := _EMPTY_LINES.match(data, start):
            return empty.end()
        found = data.find(_END, start)
        if found >= 0:
            self._tail = b""
            return found + len(_END)
        self._tail = (self._tail + data[max(start, len(data) - 3) :])[-3:]
        return len(data)


# Time for a client that gets an answer while it sends: closing at once would destroy data that it has not read yet
# (RFC 9112, 9.6). A client that reads only after it has sent everything needs this time, mostly on this machine.
LINGER_SECONDS = 2.0
# Beyond the largest message: a client that is a little over the limit must still receive the error.
LINGER_BYTES = 16 * 1024 * 1024


class Outgoing(asyncio.Transport):
    """Transport that uvicorn writes to. Related writes are held back and sent together.

    uvicorn writes the head of a response and its body one after the other; each would cost a system call here, and a
    wake-up of the client. `may_hear` returns how many bytes of a client that is still sending may be discarded at the
    end; 0 for one that is not sending.
    """

    def __init__(self, transport: asyncio.Transport, may_hear: Callable[[], int] = lambda: 0) -> None:
        super().__init__()
        self._transport = transport
        self._may_hear = may_hear
        self._held: list[bytes] | None = None
        # Set while the last data is written and further data of the client is discarded; and how much of it may come.
        self._lingering: asyncio.TimerHandle | None = None
        self._bytes_left = 0

    def hold(self) -> None:
        """Hold back all writes until `release`."""
        self._held = []

    def release(self) -> None:
        """Write the data that was held back, in one write."""
        held, self._held = self._held, None
        if held:
            self._transport.write(b"".join(held))

    def write(self, data: Any) -> None:
        if self._lingering:
            return
        if self._held is None:
            self._transport.write(data)
        else:
            self._held.append(data)

    def close(self) -> None:
        """Close after the last write; a client that is still sending gets time to finish (LINGER_SECONDS)."""
        if self._lingering:
            return
        self.release()
        self._bytes_left = self._may_hear()
        if self._bytes_left and not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
            self._lingering = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
        else:
            self._transport.close()

    @property
    def is_lingering(self) -> bool:
        """Whether further incoming data is discarded."""
        return self._lingering is not None

    def pass_over(self, size: int) -> None:
        """Count discarded data of a lingering connection, and close it if there is too much."""
        self._bytes_left -= size
        if self._bytes_left < 0:
            self.finish()

    def finish(self) -> None:
        """Close without lingering."""
        if self._lingering:
            self._lingering.cancel()
        self.release()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self.is_lingering or self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()
