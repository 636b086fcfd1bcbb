"""Streams of server-sent events: the one that answers a request, and the one for what a server says by itself.

A stream of the legacy era that breaks is taken up again where it was, by GET with the id of the last event
(2025-11-25, basic/transports, "Resumability and Redelivery"). Each thread reads only when what it read before has been
taken by the client: a client that does not read stops the streams, not the memory.
"""

import os
from time import monotonic

from hearth.bridge import client_io
from hearth.bridge.remote import messages
from hearth.bridge.remote.headers import LAST_EVENT, LISTENING, STREAM
from hearth.bridge.remote.web import Broken, GivenUp
from hearth.bridge.remote.wires import Call
from hearth.errors import HearthError, TooLarge, Unreachable
from hearth.wire.frames import MESSAGE_LIMIT_BYTES
from hearth.wire.sse import SseDecoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hearth.bridge.remote.carrying import Carrier
    from hearth.bridge.remote.web import Reply

    Take = Callable[[list[messages.Message], bool], None]

# After its answer a stream ends by itself; closing it earlier would cost the connection.
LINGER_SECONDS = 1.0
# Between two attempts where the server names no pause: doubled each time, up to the longest.
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 30.0
# What a server may ask for at most; one that names an hour would be silent for as long.
LONGEST_RETRY_SECONDS = 60.0
# Attempts in a row to take up the stream of a request, before it is given up.
RESUME_ATTEMPTS = 5
# A stream that lasted so long was one, even if nothing came.
STABLE_SECONDS = 5.0
# The server has not noticed yet that the former stream has ended, or has too much to do.
_TRY_LATER = frozenset({409, 429})


def pause(failures: int, retry: int | None) -> float:
    """How long to wait before the next connection. What the server says counts; at zero it would never end."""
    longest = min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 16), LONGEST_PAUSE_SECONDS)
    # All clients of a server that restarts would come back at the same moment.
    own = longest * (1 - os.urandom(1)[0] / 510)
    if retry is None:
        return own
    asked = min(max(retry / 1000, 0.01), LONGEST_RETRY_SECONDS)
    # It may be gone for the night since it said so.
    return asked if failures <= RESUME_ATTEMPTS else max(asked, own)


class Events:
    """Reads events over any number of connections. `take` gets the messages of each, in order."""

    def __init__(self, take: "Take", is_answered: "Callable[[], bool]") -> None:
        self._take = take
        self._is_answered = is_answered
        self._decoder = SseDecoder(MESSAGE_LIMIT_BYTES)
        # What a stream that answers a request brought too large to be passed on.
        self.too_large: TooLarge | None = None

    @property
    def last_id(self) -> bytes:
        """The id of the last event that was whole."""
        return self._decoder.last_id

    @property
    def retry(self) -> int | None:
        """The pause that the server asked for, in milliseconds."""
        return self._decoder.retry

    def read(self, reply: "Reply") -> bool:
        """Hand over what comes until the stream ends; whether anything came. Raises Broken."""
        retry = self._decoder.retry
        self._decoder = SseDecoder(MESSAGE_LIMIT_BYTES, self._decoder.last_id)
        self._decoder.retry = retry
        any_came = False
        try:
            for piece in reply.pieces():
                any_came = True
                for event in self._decoder.receive_data(piece):
                    if isinstance(event, TooLarge):
                        self.too_large = event
                        client_io.remark(str(event))
                    elif event.name == "message":
                        self._hand_over(event.data)
                if self._is_answered():
                    reply.patience = LINGER_SECONDS
        except TimeoutError:
            pass
        return any_came

    def _hand_over(self, data: bytes) -> None:
        try:
            found, is_array = messages.read(data)
        except messages.Unreadable as exc:
            client_io.remark(f"the server sent an event that is no message: {exc}")
            return
        self._take(found, is_array)


def resume(carrier: "Carrier", events: Events, call: Call, is_answered: "Callable[[], bool]") -> None:
    """Take up the stream of a request where it broke, until it has brought the answer. Raises Unreachable, GivenUp."""
    generation, failures = carrier.session.generation, 0
    while not is_answered():
        if failures > RESUME_ATTEMPTS:
            raise Unreachable(f"{carrier.web.shown} ended the stream and does not go on with it")
        if not call.pause(pause(failures, events.retry)):
            raise GivenUp
        if carrier.session.generation != generation:
            raise Unreachable(f"{carrier.web.shown} forgot the session before it answered")
        try:
            reply = get(carrier, events.last_id, call)
        except Broken:
            failures += 1
            continue
        try:
            if reply.status == 200 and reply.head.content_type == STREAM:
                failures = 0 if events.read(reply) else failures + 1
            elif reply.status >= 500 or reply.status in _TRY_LATER:
                failures += 1
            else:
                raise Unreachable(f"{carrier.web.shown} does not go on with a stream that broke (HTTP {reply.status})")
        except Broken:
            failures += 1
        finally:
            reply.close()


class Listener:
    """The stream for what a legacy server says by itself, where it offers one. `run` is a thread's work."""

    def __init__(self, carrier: "Carrier") -> None:
        self._carrier = carrier
        self._generation = carrier.session.generation
        self.call = Call()

    def run(self) -> None:
        """Listen until the session, or the bridge, ends."""
        try:
            self._listen()
        except GivenUp:
            pass
        except HearthError as exc:
            client_io.remark(f"the server's own messages are not heard: {exc}")
        except Exception as exc:
            client_io.remark(f"an error of the bridge itself: {type(exc).__name__}: {exc}")

    def _listen(self) -> None:
        failures = 0
        events = Events(self._carrier.take_freely, lambda: False)
        while self._carrier.session.generation == self._generation:
            is_alive = self._listen_once(events)
            if is_alive is None:
                return
            failures = 0 if is_alive else failures + 1
            if not self.call.pause(pause(failures, events.retry)):
                return

    def _listen_once(self, events: Events) -> bool | None:
        """One connection, to its end. Returns whether it was of any use, or None if there is nothing to be had."""
        begun = monotonic()
        try:
            reply = get(self._carrier, events.last_id, self.call)
        except Broken:
            return False
        try:
            if reply.status == 200 and reply.head.content_type == STREAM:
                return events.read(reply) or monotonic() - begun > STABLE_SECONDS
            # The next request renews a session that is gone; this is not worth one.
            return False if reply.status >= 500 or reply.status in _TRY_LATER else None
        except Broken:
            return monotonic() - begun > STABLE_SECONDS
        finally:
            reply.close()


def get(carrier: "Carrier", last_id: bytes, call: Call) -> "Reply":
    """Open a stream by GET, from after the event with that id if there is one. Raises Broken, Unreachable, GivenUp."""
    headers = {**LISTENING, **carrier.session.headers()}
    if last_id:
        # The standard wants it in UTF-8, and HTTP carries bytes.
        headers[LAST_EVENT] = last_id.decode("latin-1")
    return carrier.web.send("GET", headers, b"", call, may_repeat=True)
