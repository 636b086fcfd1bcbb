"""Wire of MCP lines: one JSON-RPC message per line, both ways. `socat - UNIX-CONNECT:…` is a working client."""

import asyncio
from typing import TYPE_CHECKING

from hearth.daemon.client_limits import LimitedConnection
from hearth.errors import MessageError, UpstreamError
from hearth.hub.sessions import Proven
from hearth.mcp import versions
from hearth.wire import json
from hearth.wire.lines import Item, LineDecoder
from hearth.write_batch import WRITE_BATCH

if TYPE_CHECKING:
    from hearth.daemon.daemon import Daemon

# Interval of the check whether a client whose input has ended has gone altogether; its calls are withdrawn then.
READER_CHECK_SECONDS = 1.0
# How long a client may take to read the error for calls that were not answered in time.
LAST_WORDS_SECONDS = 2.0


class LineConnection(LimitedConnection):
    """Connection that speaks lines, and the client sink of its session. Tags have no meaning here."""

    def __init__(
        self,
        services: "Daemon",
        transport: asyncio.Transport,
        pid: int | None,
        name: str = "lines",
        origin: Proven | None = None,
    ) -> None:
        super().__init__(services, transport, f"the client with pid {pid}")
        self._decoder = LineDecoder(services.config.message_limit, flatten=False)
        self._ended = False
        self._draining = False
        self._end_by = 0.0
        self._check: asyncio.TimerHandle | None = None
        self.session = services.hub.open_session(self, name, proven=origin or (None, None))
        self.session.identify(pid)

    def data_received(self, data: bytes) -> None:
        WRITE_BATCH.begin()
        try:
            self._receive(self._decoder.receive_data(data))
        finally:
            WRITE_BATCH.end()

    def _receive(self, items: list[Item | json.Batch]) -> None:
        assert self.session is not None
        self._pass_on(self.session, 0, map(_without_requests, items) if self._draining else items)

    def eof_received(self) -> bool:
        """Close once every pending answer is sent, or the time for that (eof_timeout) is over.

        The client sends nothing more, but may still read.
        """
        self._receive(self._decoder.receive_eof())
        self._ended = True
        self._end_by = self._services.now() + self._services.config.eof_timeout
        self._close_when_done()
        self._look_for_reader()
        return True

    def _look_for_reader(self) -> None:
        assert self.session is not None
        if self.session.open and self._end_by <= self._services.now() and not self._outbox.reader_left():
            self._end_by = self._services.now() + LAST_WORDS_SECONDS
            self._answer_in_vain()
        left = self._end_by - self._services.now()
        if left <= 0 or (self.session.open and self._outbox.reader_left()):
            # Not `close`, which waits for a reader: the client has not read for too long, or has gone.
            self._outbox.abort()
        else:
            pause = min(left, READER_CHECK_SECONDS)
            self._check = asyncio.get_running_loop().call_later(pause, self._look_for_reader)

    def _answer_in_vain(self) -> None:
        assert self.session is not None
        problem = UpstreamError(
            f"the input ended, and the server has not answered for {self._services.config.eof_timeout:g} s after it"
            " (eof_timeout); it may or may not have run"
        )
        for call in list(self.session.open.values()):
            call.give_up(b'"nobody waits for it any longer"')
            call.failed(problem)

    def _close_when_done(self) -> None:
        if self._ended and self.session and not self.session.open:
            self.close()

    # --- the session's client sink

    def answer(self, tag: int, payload: bytes, keep: str | None = None, drop: str | None = None) -> None:
        self._outbox.write(payload + b"\n")
        self._close_when_done()

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        self._close_when_done()

    def notify(self, payload: bytes, topic: str | None = None, about: int | None = None) -> None:
        self._outbox.write_notice(payload + b"\n", topic)

    def tell(self, payload: bytes, about: int | None = None) -> None:
        self._outbox.write(payload + b"\n")

    def ask(self, question: str, payload: bytes, about: int | None = None) -> None:
        self._outbox.write(payload + b"\n")

    def attend(self, tag: int, keep: str) -> None:
        self.finish(tag, keep)

    # --- shutdown

    def drain(self, reconnect: bool, reason: str) -> None:
        """Take no further request, and complete the subscriptions: no bridge replays them into the next daemon."""
        self._draining = True
        if self.session:
            for listen in self.session.listens.values():
                listen.complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._check:
            self._check.cancel()
        super().connection_lost(exc)


def _without_requests(item: Item | json.Batch) -> Item | json.Batch:
    """Return the item with its requests replaced by errors."""
    if isinstance(item, json.Batch):
        return json.Batch([_refused(member) if isinstance(member, json.Message) else member for member in item.items])
    return _refused(item) if isinstance(item, json.Message) else item


def _refused(message: json.Message) -> json.Message | MessageError:
    if message.kind is not json.Kind.REQUEST:
        return message
    return MessageError("Hearth is shutting down; call again", versions.INTERNAL_ERROR, message.id)
