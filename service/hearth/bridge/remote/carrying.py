"""What the client says: which way each message takes, in which order, and the end.

    client ─stdin─▶ carry ─▶ requests: a thread each (`asking`) ─▶ POST ─▶ answers, as they come ─▶ stdout
                          ├▶ notifications: one after the other, in a lane
                          ├▶ cancellations, answers to questions: past all others
                          └▶ initialize, initialized: what comes after them waits

The thread that reads the client never waits for the server, nor for the client to read.
"""

import os
from _thread import allocate_lock, start_new_thread
from time import monotonic, sleep

from hearth.bridge import client_io, replies
from hearth.bridge.client_io import LineSplitter
from hearth.bridge.remote import messages, refusals
from hearth.bridge.remote.aside import Aside
from hearth.bridge.remote.asking import Inquiry
from hearth.bridge.remote.crew import Crew, Gate, Lane
from hearth.bridge.remote.errands import Identity
from hearth.bridge.remote.headers import POSTING, Repeated
from hearth.bridge.remote.messages import CANCELLED, INITIALIZE, INITIALIZED, LISTEN, Key, Message, key_of
from hearth.bridge.remote.outlet import Outlet
from hearth.bridge.remote.session import Session
from hearth.bridge.remote.streams import Listener
from hearth.bridge.remote.web import GivenUp, Web
from hearth.bridge.remote.wires import Call
from hearth.errors import HearthError
from hearth.paths import state_dir
from hearth.wire.frames import MESSAGE_LIMIT_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from hearth.bridge.options import Options
    from hearth.bridge.remote.proxies import Proxy
    from hearth.bridge.remote.target import Target

# How long a server that takes no connection is given to come back before requests are answered with an error: a restart
# takes seconds, and clients give up their first question after ten. HEARTH_BRIDGE_PATIENCE changes it for tests.
PATIENCE_SECONDS = 5.0
# How long the answers that are owed are waited for when the client has closed its side. HEARTH_BRIDGE_EOF_GRACE changes
# it for tests.
EOF_GRACE_SECONDS = 60.0
# At the very end, for telling the client what it will not get, and for giving the session back.
LAST_WORDS_SECONDS = 1.0
GOODBYE_SECONDS = 2.0
# For a notification or an answer to be taken.
TELL_SECONDS = 30.0
# What a client may pile up while the server has too much to do: one message of the largest size.
_WAITING_LIMIT_BYTES = MESSAGE_LIMIT_BYTES
_WAITING_LOOK_SECONDS = 0.05
_IN_USE = "this id is in use by a request that has not been answered"
_BESIDE_ONE_IN_USE = "another request of this batch has an id that is in use; none of them was asked"


class Carrier:
    """One client's way to one server, for the client's life."""

    def __init__(self, options: "Options", target: "Target") -> None:
        environ = options.environ
        self._grace = float(environ.get("HEARTH_BRIDGE_EOF_GRACE") or EOF_GRACE_SECONDS)
        patience = float(environ.get("HEARTH_BRIDGE_PATIENCE") or PATIENCE_SECONDS)
        self._target = target
        self.web = Web(target, Identity(target, options.headers), patience, _proxy(target, environ))
        self.session = Session()
        self.outlet = Outlet(self._leave)
        self.repeated = Repeated()
        self._crew = Crew()
        self._lane = Lane(self._crew)
        # What the bridge itself has to tell the client.
        self._asides = Lane(self._crew)
        self._lock = allocate_lock()
        self._inquiries: dict[Key, Inquiry] = {}
        # What has to be taken before a message of a session may be sent; closed anew by each that others wait for.
        self._gate = Gate(is_open=True)
        self.aside = Aside(self)
        self._listener: Listener | None = None
        self._ended = False
        self._leaving = allocate_lock()

    def run(self) -> None:
        """Carry, until the client leaves. Does not return."""
        splitter = LineSplitter(MESSAGE_LIMIT_BYTES)
        ended = False
        while not ended:
            data = client_io.read_input()
            ended = not data
            for line in splitter.receive_eof() if ended else splitter.receive_data(data):
                self._crew.do(lambda line=line: self.carry(line))  # type: ignore[misc]
            while splitter.oversize:
                self._refuse_oversize(*splitter.oversize.pop(0))
            while self._waiting_bytes > _WAITING_LIMIT_BYTES:
                sleep(_WAITING_LOOK_SECONDS)
        self._end()

    @property
    def _waiting_bytes(self) -> int:
        return self._crew.waiting_bytes + self._lane.waiting_bytes + self._asides.waiting_bytes

    # --- up

    def carry(self, line: bytes) -> None:
        """Send a line of the client on its way."""
        try:
            found, is_array = messages.read(line)
        except messages.Unreadable as exc:
            self._say(replies.error(exc.written_id, exc.rpc_code, f"{exc}; one message per line is expected"))
            return
        requests = [message for message in found if message.is_request]
        if requests:
            self._ask(found[0].raw if not is_array else line, requests, is_array)
        elif is_array:
            self._tell_later(line, None)
        else:
            self._tell(found[0])

    def _say(self, line: bytes) -> None:
        """Tell the client something of our own, without waiting for it to read."""
        self._asides.put(lambda: self.outlet.deliver([line]), len(line))

    def _refuse_oversize(self, head: bytes, tail: bytes) -> None:
        """An error in its place: to the server if it was the answer to a question, or else to the client."""
        to_client, to_server = replies.too_large(head, tail, MESSAGE_LIMIT_BYTES)
        [answer], _ = messages.read(to_client or to_server or b"")
        if self.session.may_answer(answer):
            self._crew.start_now(lambda: self.post(answer.raw))
        else:
            self._say(answer.raw)

    def _ask(self, line: bytes, requests: list[Message], is_array: bool) -> None:
        gate = self._gate
        inquiry = Inquiry(self, line, requests, is_array, gate)
        with self._lock:
            twice = {key for key in inquiry.owed if key in self._inquiries}
            if not twice:
                self._inquiries.update(dict.fromkeys(inquiry.owed, inquiry))
        if twice:
            self._refuse_twice(inquiry, twice, is_array)
            return
        if inquiry.version is None:
            for message in requests:
                self.session.note(message)
        if inquiry.method == INITIALIZE:
            self._gate = opened = Gate()
            self._crew.start_now(lambda: self._open(inquiry, opened))
        elif inquiry.method == LISTEN:
            self._start_listening(inquiry)
        else:
            self._crew.start(inquiry.run, len(line))

    def _refuse_twice(self, inquiry: Inquiry, twice: set[Key], is_array: bool) -> None:
        """Two requests of one id could not be told apart by their answers. What came with them is not asked either."""
        answers = []
        for key, id in inquiry.owed.items():
            sentence = _IN_USE if key in twice else _BESIDE_ONE_IN_USE
            error = f'{{"code":{messages.INVALID_REQUEST},"message":"{sentence}"}}'
            answers.append(f'{{"jsonrpc":"2.0","id":{messages.quoted(id)},"error":{error}}}')
        self._say((f"[{','.join(answers)}]" if is_array else answers[0]).encode())

    def _start_listening(self, inquiry: Inquiry) -> None:
        try:
            self._crew.start_apart(inquiry.run)
        except RuntimeError as exc:
            # Here it would keep everything else from being read, for ever.
            inquiry.fail(f"the bridge cannot listen: {exc}. Try again when fewer requests are waiting")
            self.done(inquiry)

    def _open(self, inquiry: Inquiry, gate: Gate) -> None:
        try:
            inquiry.run()
        finally:
            gate.open()

    def _tell(self, message: Message) -> None:
        if message.method == CANCELLED:
            self._withdraw(message)
        elif message.method == INITIALIZED:
            self.session.note(message)
            before, self._gate = self._gate, Gate()
            after = self._gate
            self._crew.start_now(lambda: self._introduce(message.raw, before, after))
        elif message.method is not None:
            self._tell_later(message.raw, message if message.version else None)
        elif message.is_response:
            if self.session.may_answer(message):
                self._crew.start_now(lambda: self.post(message.raw))
        else:
            self._say(replies.error(None, replies.INVALID_REQUEST, "this is neither a request nor a notification"))

    def _tell_later(self, line: bytes, modern: Message | None) -> None:
        gate = self._gate

        def work() -> None:
            gate.wait()
            self.post(line, modern)

        self._lane.put(work, len(line))

    def _introduce(self, line: bytes, before: Gate, after: Gate) -> None:
        before.wait()
        try:
            if self.session.generation:
                self.post(line)
        finally:
            after.open()
        self._listen()

    def _withdraw(self, message: Message) -> None:
        """The client wants no answer: over HTTP a stream is closed, or a legacy server is told."""
        id = message.params.get("requestId")
        key = key_of(id) if isinstance(id, str) else None
        with self._lock:
            inquiry = self._inquiries.get(key) if key else None
        # `initialize` is never cancelled.
        if inquiry is None or key is None or inquiry.method == INITIALIZE or not self.settle(inquiry, key):
            return
        if inquiry.version is None:
            self._crew.start_now(lambda: self._cancel(inquiry, message.raw))
        else:
            inquiry.call.give_up()

    def _cancel(self, inquiry: Inquiry, line: bytes) -> None:
        """Tell a legacy server, to which a connection that ends means nothing; but never of what it did not get."""
        if not inquiry.owed and not inquiry.call.wait_until_sent(0):
            inquiry.call.give_up()
        # What is being written at this moment is not told of, and not finished.
        if inquiry.call.wait_until_sent(TELL_SECONDS if inquiry.owed else 0):
            self.post(line)
        if not inquiry.owed:
            # Some servers then answer with an error, others never: nobody reads it.
            inquiry.call.give_up()

    def post(self, line: bytes, modern: Message | None = None) -> None:
        """Send what has no answer. A failure is nobody's to handle: whoever waits for its effect has a time limit."""
        call = Call()
        headers = self.repeated.of(modern, modern.version or "") if modern else self.session.headers()
        try:
            # What comes twice says the same.
            reply = self.web.send("POST", {**POSTING, **headers}, line, call, may_repeat=True, seconds=TELL_SECONDS)
        except (HearthError, TimeoutError, GivenUp) as exc:
            client_io.remark(f"a notification or an answer was not taken: {exc}")
            return
        # A session that is gone is the next request's to renew.
        if not 200 <= reply.status < 300 and reply.status != 404:
            client_io.remark(refusals.sentence(self.web.shown, reply.status, reply.head.reason))
        reply.close()

    # --- for whoever asks

    def headers(self, inquiry: Inquiry) -> dict[str, str]:
        """The headers of a request, as things are now; waits for a session that is being replaced."""
        if inquiry.version is not None:
            return self.repeated.of(inquiry.message, inquiry.version)
        if inquiry.method == INITIALIZE:
            # A new session is asked for without the old one's id.
            return {}
        found, inquiry.generation = self.aside.session_headers()
        return found

    def settle(self, inquiry: Inquiry, key: Key) -> bool:
        """Whether that id still waits for its answer; from now on it does not."""
        with self._lock:
            if inquiry.owed.pop(key, None) is None:
                return False
            if self._inquiries.get(key) is inquiry:
                del self._inquiries[key]
            return True

    def done(self, inquiry: Inquiry) -> None:
        """Nothing is read for it any more."""
        with self._lock:
            for key in [key for key, known in self._inquiries.items() if known is inquiry]:
                del self._inquiries[key]

    def take_freely(self, found: list[Message], is_array: bool) -> None:
        """Messages of the server that no request is the reason of."""
        lines = []
        for message in found:
            if message.is_request:
                self.session.asked(message)
            if message.method is not None:
                lines.append(message.raw)
        self.outlet.deliver(lines)

    def refusal(self, status: int, reason: str) -> str:
        """The sentence for an HTTP status that says no."""
        said = refusals.sentence(self.web.shown, status, reason)
        if status not in (401, 403) or self._target.socket is not None:
            return said
        if self._target.is_loopback:
            return (
                f"{said}. If this is Hearth's own port: `unix:` with its socket needs no token, and"
                f" --header 'Authorization: Bearer ${{file:{os.path.join(state_dir(), 'http', 'token')}}}' is its token"
            )
        return (
            f"{said}. Give it --header 'Authorization: Bearer ${{keyring:NAME}}', or log in: `hearth add NAME --url"
            " URL`, then `hearth auth login NAME`"
        )

    # --- tools

    def learn(self, answer: Message) -> None:
        """Note which arguments of the listed tools go into headers, too."""
        for problem in self.repeated.learn(answer):
            client_io.remark(problem)

    # --- sessions

    def begin(self, id: str | None, answer: Message) -> None:
        """The client's `initialize` was taken. A session that it had before is given back."""
        former, had_one = self.session.headers(), self.session.id
        self.session.begin(id, answer)
        if had_one and had_one != self.session.id:
            self._crew.start_now(lambda: self._delete(former, Gate()))

    def renew(self, generation: int) -> None:
        """Begin a new session, unless somebody has since that generation. Raises Unreachable, TimeoutError."""
        if self.aside.renew(generation):
            self._listen()
            self.outlet.deliver(self.session.notices())

    def _listen(self) -> None:
        """Hear what the server says by itself in the session that there is now."""
        if self._ended or not self.session.generation:
            return
        listener = Listener(self)
        with self._lock:
            former, self._listener = self._listener, listener
        if former:
            former.call.give_up()
        self._crew.start_apart(listener.run)

    # --- the end

    def _end(self) -> None:
        """The client's input ended: see to it that what is owed is delivered, within bounds."""
        self._ended = True
        if self._listener:
            self._listener.call.give_up()
        with self._lock:
            listens = [inquiry for inquiry in self._inquiries.values() if inquiry.method == LISTEN]
        for inquiry in listens:
            inquiry.call.give_up()
        until = monotonic() + self._grace
        while not self._crew.is_idle() and (left := until - monotonic()) > 0:
            self._crew.rest(left)
        if not self._crew.is_idle():
            # In a thread: perhaps nobody reads.
            start_new_thread(self._say_last_words, ())
            sleep(LAST_WORDS_SECONDS)
        self._leave()

    def _say_last_words(self) -> None:
        with self._lock:
            left = set(self._inquiries.values())
        for inquiry in left:
            if inquiry.method != LISTEN:
                inquiry.fail(f"the client's input ended, and no answer came within {self._grace:g} s")
        self._leave()

    def _leave(self) -> None:
        """End the process; whoever comes first does."""
        self._leaving.acquire()
        self.say_goodbye()
        os._exit(0)

    def say_goodbye(self) -> None:
        """Give the session back, within bounds."""
        if self.session.id:
            done = Gate()
            start_new_thread(self._delete, (self.session.headers(), done))
            done.wait(GOODBYE_SECONDS)

    def _delete(self, session: dict[str, str], done: Gate) -> None:
        try:
            # 405 means that sessions end by themselves there.
            self.web.send("DELETE", session, b"", Call(), True, GOODBYE_SECONDS).close()
        except Exception:  # who does not listen needs no farewell
            pass
        done.open()


def _proxy(target: "Target", environ: "Mapping[str, str]") -> "Proxy | None":
    if not any(name[-6:].lower() == "_proxy" for name in environ):
        return None
    from hearth.bridge.remote import proxies

    return proxies.find(target, environ)
