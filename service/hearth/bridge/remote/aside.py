"""What the bridge asks the server for itself, past the client: a new session, the tools whose headers it does not know.

Answers to that are swallowed; whatever else comes with them is the client's.
"""

from _thread import allocate_lock

from hearth.bridge.remote import messages
from hearth.bridge.remote.crew import Gate
from hearth.bridge.remote.headers import JSON, POSTING, STREAM
from hearth.bridge.remote.messages import Message
from hearth.bridge.remote.streams import Events
from hearth.bridge.remote.wires import Call
from hearth.errors import Unreachable
from hearth.wire.frames import MESSAGE_LIMIT_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hearth.bridge.remote.asking import Inquiry
    from hearth.bridge.remote.carrying import Carrier
    from hearth.bridge.remote.web import Reply

# For each answer.
ANSWER_SECONDS = 30.0
# A tool whose schema is not on the first pages is called without headers of its own.
_PAGES_LIMIT = 20


class Aside:
    """The bridge's own questions."""

    def __init__(self, carrier: "Carrier") -> None:
        self._carrier = carrier
        self._renewing = allocate_lock()
        # Closed while a lost session is replaced.
        self._ready = Gate(is_open=True)

    # --- sessions

    def session_headers(self) -> tuple[dict[str, str], int]:
        """What goes with a request of the session that there is, and its generation; waits for one to be replaced."""
        while True:
            ready = self._ready
            ready.wait()
            found = self._carrier.session.headers(), self._carrier.session.generation
            # Of a session that was begun since, nobody has said yet that it is initialized.
            if ready is self._ready:
                return found

    def renew(self, generation: int) -> bool:
        """Begin a new session; False if somebody has since that generation. Raises Unreachable, TimeoutError."""
        with self._renewing:
            if self._carrier.session.generation != generation:
                return False
            self._ready = Gate()
            try:
                self._begin_again()
            finally:
                self._ready.open()
        return True

    def _begin_again(self) -> None:
        carrier, session, call = self._carrier, self._carrier.session, Call()
        assert session.opening is not None, "judged to be renewable"
        reply = carrier.web.send("POST", POSTING, session.opening.raw, call, True, ANSWER_SECONDS)
        try:
            answer = self._answer_in(reply, session.opening)
        finally:
            reply.close()
        if answer is None or answer.result is None:
            raise Unreachable(f"{carrier.web.shown} lost its session and gave no new one (HTTP {reply.status})")
        session.begin(reply.head.headers.get("mcp-session-id"), answer)
        if session.introduction is not None:
            carrier.post(session.introduction)
        for message in session.told():
            self._ask(message, session.headers(), call)

    # --- tools

    def learn_tools(self, inquiry: "Inquiry") -> None:
        """A modern server misses a header: list its tools. Raises Unreachable, GivenUp, TimeoutError."""
        version, cursor = inquiry.version or "", ""
        for number in range(_PAGES_LIMIT):
            meta = f'{{"{messages.VERSION_KEY}":{messages.quoted(version)},"{messages.CAPABILITIES_KEY}":{{}}}}'
            line = f'{{"jsonrpc":"2.0","id":"hearth-tools-{number}","method":"tools/list"'
            [question], _ = messages.read(f'{line},"params":{{"_meta":{meta}{cursor}}}}}'.encode())
            answer = self._ask(question, self._carrier.repeated.of(question, version), inquiry.call)
            result = answer.result if answer else None
            if answer is None or result is None:
                return
            self._carrier.learn(answer)
            if not messages.is_text(result.get("nextCursor")):
                return
            cursor = f',"cursor":{messages.quoted(result["nextCursor"])}'

    # --- asking

    def _ask(self, question: Message, headers: dict[str, str], call: Call) -> Message | None:
        """The answer; None when there is none. Raises Unreachable, GivenUp, TimeoutError."""
        reply = self._carrier.web.send("POST", {**POSTING, **headers}, question.raw, call, True, ANSWER_SECONDS)
        try:
            return self._answer_in(reply, question)
        finally:
            reply.close()

    def _answer_in(self, reply: "Reply", question: Message) -> Message | None:
        answers: list[Message] = []

        def take(found: list[Message], is_array: bool) -> None:
            answers.extend(message for message in found if message.is_response and message.key == question.key)
            self._carrier.take_freely([message for message in found if message.method is not None], is_array)

        reply.patience = ANSWER_SECONDS
        if reply.status == 200 and reply.head.content_type == STREAM:
            Events(take, lambda: bool(answers)).read(reply)
        elif reply.status == 200 and reply.head.content_type == JSON:
            try:
                take(*messages.read(reply.body(MESSAGE_LIMIT_BYTES)))
            except messages.Unreadable:
                return None
        return answers[0] if answers else None
