"""Pump: the two threads of a bridge. The main one carries the client's lines up, the other the daemon's frames down.

    client ─stdin─▶ _carry_up ──ledger.add──▶ uplink ─▶ socket
    client ◀─stdout─ _carry_down ◀──ledger.receive── socket

Neither ever waits for the other: a client that does not read its answers can still cancel, and a daemon that does
not read still gets its answers taken. The thread that carries down owns the connection: it opens, replaces and
closes it. Reading standard input and reading the socket are plain blocking calls; no timer runs beside them.
"""

import os
from _signal import SIG_DFL, SIGINT, default_int_handler, getsignal, signal  # type: ignore[import-not-found]
from _thread import allocate_lock, start_new_thread
from time import monotonic, sleep

from hearth.bridge import client_io, connector, jsonlite
from hearth.bridge.client_io import Client, LineSplitter
from hearth.bridge.ledger import HEARTBEAT_SECONDS, Ledger
from hearth.bridge.writer import Uplink
from hearth.errors import HearthError, WireError
from hearth.wire.frames import MESSAGE_LIMIT_BYTES, FrameDecoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hearth.bridge.connector import Stream
    from hearth.bridge.finder import Finder
    from hearth.bridge.options import Options
    from hearth.faults import Seams

# How long requests wait for a daemon before they are answered with an error. launchd delays a start by 10 s after a
# quick exit; a client's own limit is 30 s or more. HEARTH_BRIDGE_PATIENCE shortens it for tests.
PATIENCE_SECONDS = 20.0
# How long the answers that are owed are waited for when the client has closed its side.
# HEARTH_BRIDGE_EOF_GRACE shortens it for tests.
EOF_GRACE_SECONDS = 60.0
# The format's own limit for what the daemon sends: its message_limit may have been raised.
_FRAME_LIMIT_BYTES = 1 << 28
# At the very end, for telling the client what it will not get.
_LAST_WORDS_SECONDS = 1.0
# Bytes that a client may pile up while no daemon is there: one message of the largest size.
_PARKED_LIMIT_BYTES = MESSAGE_LIMIT_BYTES
_PARKED_LOOK_SECONDS = 0.05
# Loading competes with the client's first requests for the interpreter, so it lets them pass.
_PRELOAD_DELAY_SECONDS = 0.1
# After an error of the bridge itself, so that one that comes back does not use up the machine.
_CLUMSY_PAUSE_SECONDS = 1.0


class Waiting:
    """The end of a bridge, and what it waits for before that."""

    def __init__(self, ledger: Ledger, client: Client) -> None:
        self._ledger = ledger
        self._client = client
        self._news = allocate_lock()  # released when there is something new for who waits
        # The client's input ended.
        self.ended = False

    def wake(self) -> None:
        """Tell that a line waits for a daemon, or that the client's input ended."""
        try:
            self._news.release()
        except RuntimeError:
            # Told already.
            pass

    def rest(self) -> None:
        """Wait until a line wants a daemon. Leaves when none can come any more."""
        while not self._ledger.table:
            self.leave_if_done()
            self._news.acquire()

    def pause(self, seconds: float) -> None:
        """Wait. Leaves when nothing is owed to a client whose input ended."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            self.leave_if_done()
            self._news.acquire(True, left)
        self.leave_if_done()

    def leave_if_done(self) -> None:
        """End the process if the client's input ended and it has got everything."""
        # The table first: an answer leaves it before it is written, and `delivering` is set before that.
        if self.ended and not self._ledger.table and self._client.idle():
            os._exit(0)


class Bridge:
    """One client's way to the daemon, for the client's life."""

    def __init__(self, options: "Options") -> None:
        self.places = options.places
        # The server of `--to`, if the daemon is asked for that one.
        self.target = options.target
        self.starts = options.starts
        # Of the daemon that is connected to, where it wants one.
        self.token = ""
        self._token_file = options.token_file
        self._role_token = ""
        self.patience = float(options.environ.get("HEARTH_BRIDGE_PATIENCE") or PATIENCE_SECONDS)
        self._grace = float(options.environ.get("HEARTH_BRIDGE_EOF_GRACE") or EOF_GRACE_SECONDS)
        self._greeting = options.greeting()
        self.ledger = Ledger()
        self._client = Client(_armed_seams(options), _preload)
        self._uplink = Uplink(self.ledger)
        self.waiting = Waiting(self.ledger, self._client)
        self._connected_at = monotonic()

    def run(self) -> None:
        """Carry, until the client leaves. Does not return."""
        if getsignal(SIGINT) is default_int_handler:
            # Ctrl-C ends the bridge as SIGTERM does, at once: the interpreter's handler would wait for the main thread.
            signal(SIGINT, SIG_DFL)
        client_io.make_whole()
        try:
            sock: Stream | None = connector.open_stream(self.places.socket)
        except OSError:
            # The other thread finds out what is wrong; the client may talk meanwhile.
            sock = None if self.starts else self._find_running()
        if sock is not None and not self._introduce(sock):
            sock = None
        start_new_thread(self._carry_down, (sock,))
        self._carry_up()

    def _find_running(self) -> "Stream | None":
        """Return a connection to a daemon that runs already; end with exit code 1 when there is none."""
        from hearth.bridge.finder import find_running

        try:
            found = find_running(self.places)
        except HearthError as exc:
            client_io.log_stderr(str(exc))
            os._exit(1)
        self.token = found.token
        return found.sock

    def _introduce(self, sock: "Stream") -> bool:
        """Greet the daemon; return False if the role token cannot be read, which the other thread tells the client."""
        try:
            self.read_role_token()
        except HearthError:
            sock.close()
            return False
        self._greet(sock)
        return True

    # --- up

    def _carry_up(self) -> None:
        splitter = LineSplitter(MESSAGE_LIMIT_BYTES)
        ended = False
        while not ended:
            data = client_io.read_input()
            ended = not data
            try:
                self._submit(splitter.receive_eof() if ended else splitter.receive_data(data))
                if splitter.oversize:
                    self._refuse_oversize(splitter)
            except Exception as exc:
                _report_error(exc)
        self._end()

    def _submit(self, lines: list[bytes]) -> None:
        if not lines or self._uplink.submit(lines):
            return
        self.waiting.wake()
        while self._uplink.parked_bytes > _PARKED_LIMIT_BYTES:
            sleep(_PARKED_LOOK_SECONDS)

    def _refuse_oversize(self, splitter: LineSplitter) -> None:
        while splitter.oversize:
            from hearth.bridge import replies

            to_client, to_daemon = replies.too_large(*splitter.oversize.pop(0), MESSAGE_LIMIT_BYTES)
            if to_daemon:
                self._submit([to_daemon])
            if to_client:
                self._client.deliver_aside(to_client, then=self.waiting.leave_if_done)

    def _end(self) -> None:
        """See to it, after the end of the client's input, that what is owed is delivered, within bounds."""
        self.waiting.ended = True
        self._uplink.end()
        self.waiting.leave_if_done()
        start_new_thread(self._expire, ())
        self.waiting.wake()
        # The other thread ends the process, or the time that was just set; when this one returned, both would end.
        while True:
            sleep(self._grace + _LAST_WORDS_SECONDS)

    def _expire(self) -> None:
        sleep(self._grace)
        # In a thread: perhaps nobody reads.
        start_new_thread(self._say_last_words, ())
        sleep(_LAST_WORDS_SECONDS)
        os._exit(0)

    def _say_last_words(self) -> None:
        self.fail_pending(f"the client's input ended, and no answer came within {self._grace:g} s")
        os._exit(0)

    # --- down

    def _carry_down(self, sock: "Stream | None") -> None:
        finder: Finder | None = None
        while True:
            try:
                if sock is not None:
                    self._serve(sock)
                sock = None
                finder = finder or self._make_finder()
                found = finder.reach()
                self._greet(found)
                sock = found
            except Exception as exc:
                sock = None
                self._fail_after_error(exc)

    def _fail_after_error(self, exc: Exception) -> None:
        """Answer all that wait after an error of the bridge itself, such as a part of it that is gone, and go on."""
        try:
            self.fail_pending(f"the bridge failed ({type(exc).__name__}: {exc}); is Hearth's installation complete?")
        except Exception as worse:
            client_io.log_stderr(f"nor can it say so: {type(worse).__name__}: {worse}")
        _report_error(exc)

    def _make_finder(self) -> "Finder":
        from hearth.bridge.finder import Finder

        return Finder(self)

    def _greet(self, sock: "Stream") -> None:
        self._connected_at = monotonic()
        connector.limit_wait(sock, min(HEARTBEAT_SECONDS, self.patience / 2))
        greeting = {**self._greeting, "token": self.token, "roleToken": self._role_token}
        settings = self.target.settings if self.target else None
        self._uplink.open(sock, jsonlite.hello(greeting, os.getpid(), self.ledger.session, settings))

    def _serve(self, sock: "Stream") -> None:
        """Carry frames down until the connection ends."""
        decoder = FrameDecoder(_FRAME_LIMIT_BYTES)
        data = b""
        try:
            while True:
                try:
                    data = sock.recv(client_io.CHUNK_BYTES)
                except BlockingIOError:
                    self._pass_quiet_time(sock)
                    continue
                if not data:
                    break
                self._pass_down(sock, decoder.receive_data(data))
                if monotonic() - self._uplink.spoke_at > self.ledger.heartbeat_seconds:
                    self._uplink.beat(sock)
        except OSError:
            # A reset is the end too: it died with something unread.
            pass
        except WireError as exc:
            self._note_protocol_error(data, exc)
        finally:
            self._part(sock)

    def _pass_down(self, sock: "Stream", frames: list[tuple[bytes, bytes]]) -> None:
        self._client.delivering = True
        lines: list[bytes] = []
        try:
            try:
                self.ledger.receive(frames, lines)
                if self.ledger.changed:
                    self._take_notice(sock)
            finally:
                # Also what came before a frame that makes no sense: nobody will answer it a second time.
                self._client.deliver(lines)
                if self.ledger.garbled:
                    self._tell_garbled()
        finally:
            self._client.delivering = False
        self.waiting.leave_if_done()

    def _tell_garbled(self) -> None:
        """Write the lines that were not JSON to standard error: most are a stray print of the client."""
        from hearth.bridge.replies import described

        while self.ledger.garbled:
            client_io.log_stderr(described(self.ledger.garbled.pop(0)))

    def _take_notice(self, sock: "Stream") -> None:
        """Act on what the daemon said to the bridge itself."""
        self.ledger.changed = False
        connector.limit_wait(sock, self.ledger.heartbeat_seconds)
        while self.ledger.wanted:
            # In a thread: a keyring may wait for a person.
            start_new_thread(self._resolve_headers, (sock, self.ledger.wanted.pop()))
        if self.ledger.goodbye is not None or self.ledger.refusal is not None:
            self._uplink.block()

    def _resolve_headers(self, sock: "Stream", number: int) -> None:
        if self.target:
            self._uplink.tell(sock, jsonlite.headers(number, self.target.resolved()))

    def _note_protocol_error(self, data: bytes, problem: WireError) -> None:
        """Note why bytes came that are no frame."""
        from hearth.bridge import replies

        if not self.ledger.welcomed:
            self.ledger.refusal = replies.refusal_in(data)
        if self.ledger.refusal is None:
            client_io.log_stderr(f"the daemon does not keep to the protocol, connecting anew: {problem}")

    def _pass_quiet_time(self, sock: "Stream") -> None:
        """Nothing came for as long as `recv` waits."""
        now = monotonic()
        if now - self._uplink.spoke_at >= self.ledger.heartbeat_seconds / 2:
            self._uplink.beat(sock)
        if not self.ledger.welcomed and now - self._connected_at >= self.patience:
            self._connected_at = now
            self.fail_pending(
                f"Hearth's daemon took the connection at {self.places.socket} and then said nothing for"
                f" {self.patience:g} s. `hearth doctor` looks for the cause, `hearth restart` starts it anew."
            )

    def _part(self, sock: "Stream") -> None:
        """Close the connection of a daemon that is gone; what it owes is asked of the next one."""
        self._client.delivering = True
        try:
            questions, hopeless = self._uplink.close(sock)
            if questions or hopeless:
                from hearth.bridge import replies

                self._client.deliver([replies.withdrawal(question) for question in questions])
                sentence = "Hearth's daemon died every time it had this request; `hearth logs` may say why."
                self._refuse([(line, True) for line in hopeless], sentence)
        finally:
            self._client.delivering = False
        self.waiting.leave_if_done()

    # --- for whoever looks for a daemon

    def read_role_token(self) -> None:
        """Read the role token again, which may have been renewed. Raises FileAccessError."""
        if self._token_file:
            from hearth.bridge import role_token

            self._role_token = role_token.read(self._token_file)

    def connected_for(self) -> float:
        """Return how long ago the last connection began."""
        return monotonic() - self._connected_at

    def fail_pending(self, sentence: str) -> None:
        """Answer every line that waits with an error. Leaves when that was all that a client who left was owed."""
        client_io.log_stderr(sentence)
        self._client.delivering = True
        self._refuse(self.ledger.give_up(), sentence)
        self._client.delivering = False
        self._uplink.parked_bytes = 0
        self.waiting.leave_if_done()

    def _refuse(self, lines: list[tuple[bytes, bool]], sentence: str) -> None:
        from hearth.bridge import replies

        answers = (replies.failure(line, sentence, in_doubt) for line, in_doubt in lines)
        self._client.deliver([answer for answer in answers if answer])


def _report_error(exc: Exception) -> None:
    """Report an error of the bridge itself, which must not die of one: its client would lose every tool."""
    client_io.log_stderr(f"an error of the bridge itself, going on: {type(exc).__name__}: {exc}")
    sleep(_CLUMSY_PAUSE_SECONDS)


def _armed_seams(options: "Options") -> "Seams | None":
    if not options.environ.get("HEARTH_FAULTS"):
        return None
    from hearth.faults import SEAMS

    return SEAMS


def _preload() -> None:
    """Load what a daemon's death will need: by then an upgrade may have taken the files away."""
    sleep(_PRELOAD_DELAY_SECONDS)
    try:
        import select  # noqa: F401

        from hearth.bridge import activation, finder, replies  # noqa: F401

        activation.preload()
    except Exception as exc:
        client_io.log_stderr(f"a part of the bridge cannot be loaded, so it will not survive the daemon: {exc}")
