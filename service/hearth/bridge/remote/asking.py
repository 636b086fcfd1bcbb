"""One request of the client, from its POST to its answer, and everything that has to be tried on the way.

Whatever happens, each id that the client waits for is answered once: by the server, or here.
"""

from time import time

from hearth.bridge import client_io
from hearth.bridge.remote import messages, refusals, streams
from hearth.bridge.remote.headers import JSON, POSTING, STREAM
from hearth.bridge.remote.messages import INITIALIZE, LISTEN, Key, Message
from hearth.bridge.remote.refusals import Refusal
from hearth.bridge.remote.web import Broken, GivenUp
from hearth.bridge.remote.wires import Call
from hearth.errors import HearthError, Unreachable
from hearth.wire.frames import MESSAGE_LIMIT_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hearth.bridge.remote.carrying import Carrier
    from hearth.bridge.remote.crew import Gate
    from hearth.bridge.remote.web import Reply

# What may be asked twice. Of a tool nobody knows what the first time has done.
REPEATABLE = frozenset(
    {
        *("server/discover", "initialize", "ping", "tools/list", "prompts/list", "prompts/get", "completion/complete"),
        *("resources/list", "resources/templates/list", "resources/read", "subscriptions/listen"),
        *("resources/subscribe", "resources/unsubscribe", "logging/setLevel"),
    }
)
IN_DOUBT = ". It had been sent: it may or may not have run"
_AGAIN = "again"
# Of the body of a refusal, as much as an error needs.
_REFUSAL_LIMIT_BYTES = 1024 * 1024


class Inquiry:
    """A line of the client with requests in it, nearly always one, and who waits for which id."""

    def __init__(self, carrier: "Carrier", line: bytes, requests: list[Message], is_array: bool, gate: "Gate") -> None:
        self.call = Call()
        self.message = requests[0]
        self.method = "" if is_array else self.message.method or ""
        self.version = None if is_array else self.message.version
        # Who has not been answered yet.
        self.owed: dict[Key, str] = {found.key: found.id for found in requests if found.key and found.id is not None}
        # Of the session that it was asked in.
        self.generation = 0
        self._carrier = carrier
        self._line = line
        self._is_array = is_array
        self._gate = gate
        self._mended: set[str] = set()
        self._waited = 0.0
        # What a subscription that was opened again says first is known to the client.
        self._was_acknowledged = False

    @property
    def may_repeat(self) -> bool:
        """Whether the server may get it twice."""
        return self.method in REPEATABLE

    def run(self) -> None:
        """Ask until there is an answer, or a reason why there is none."""
        try:
            # What belongs to no session waits for none.
            if self.version is None:
                self._gate.wait()
            self._ask()
        except GivenUp:
            pass
        except Broken as exc:
            self.fail(f"{exc}{IN_DOUBT if exc.sent and not self.may_repeat else ''}")
        except TimeoutError:
            self.fail(f"{self._carrier.web.shown} did not answer in time")
        except HearthError as exc:
            self.fail(str(exc))
        except Exception as exc:
            client_io.remark(f"an error of the bridge itself: {type(exc).__name__}: {exc}")
            self.fail(f"the bridge failed ({type(exc).__name__}: {exc}); is Hearth's installation complete?")
        finally:
            self._carrier.done(self)

    def _ask(self) -> None:
        while self.owed and not self.call.given_up:
            try:
                verdict = self._post()
            except Broken as exc:
                # Once more, and no further: what it dies of every time is not to be sent for ever.
                if not (exc.sent and self.may_repeat and self._mend(_AGAIN)) and not self._listens_on():
                    raise
                continue
            if verdict == refusals.RENEW and self._mend(verdict):
                self._carrier.renew(self.generation)
            elif verdict == refusals.LEARN and self._mend(verdict):
                self._carrier.aside.learn_tools(self)
            elif verdict is None:
                return

    def _mend(self, what: str) -> bool:
        """Note that it was tried; False if it was before."""
        is_new = what not in self._mended
        self._mended.add(what)
        return is_new

    def _listens_on(self) -> bool:
        """Whether a subscription that broke is to be opened again: to its client nothing has ended."""
        if self.method != LISTEN or not self._was_acknowledged:
            return False
        self._waited = min(2 * self._waited or streams.FIRST_PAUSE_SECONDS, streams.LONGEST_PAUSE_SECONDS)
        if not self.call.pause(self._waited):
            raise GivenUp
        return True

    def _post(self) -> str | None:
        """Ask and hand over what comes. Returns what to do if that was a refusal that can be mended."""
        carrier = self._carrier
        headers = carrier.headers(self)
        reply = carrier.web.send("POST", {**POSTING, **headers}, self._line, self.call, self.may_repeat)
        try:
            if 200 <= reply.status < 300:
                self._receive(reply)
                return None
            body = reply.body(_REFUSAL_LIMIT_BYTES)
        finally:
            reply.close()
        found = reply.head
        refusal = Refusal(found.status, found.reason, refusals.wait(found.headers, time()), body, self.message.key)
        is_modern, can_renew = self.version is not None, carrier.session.can_begin_again
        verdict = refusals.judge(refusal, self.method, is_modern, can_renew, self._mended, self._waited)
        if verdict == refusals.LATER:
            self._wait(refusal.retry_after or 0)
        elif refusal.status >= 500 and self._listens_on():
            return refusals.LATER
        elif verdict in (refusals.ANSWER, refusals.FAIL):
            self._refuse(refusal, verdict)
            return None
        return verdict

    def _wait(self, seconds: float) -> None:
        # Zero would be asked for ever.
        seconds = max(seconds, 0.5)
        self._waited += seconds
        if not self.call.pause(seconds):
            raise GivenUp

    def _refuse(self, refusal: Refusal, verdict: str) -> None:
        sentence = self._carrier.refusal(refusal.status, refusal.reason)
        if refusals.RENEW in self._mended and refusal.is_expiry:
            shown = self._carrier.web.shown
            sentence = f"{shown} lost the session again that was begun anew (HTTP {refusal.status}); try again"
        if verdict == refusals.ANSWER and refusal.error is not None:
            self._settle_all(refusal.error)
        elif verdict == refusals.ANSWER:
            self.fail(sentence, refusals.METHOD_NOT_FOUND)
        else:
            self.fail(sentence)

    # --- what comes back

    def _receive(self, reply: "Reply") -> None:
        shown, kind = self._carrier.web.shown, reply.head.content_type
        if kind == STREAM:
            self._read_stream(reply)
        elif kind == JSON:
            try:
                self._hand_over(*messages.read(reply.body(MESSAGE_LIMIT_BYTES)), reply)
            except messages.Unreadable as exc:
                raise Unreachable(f"{shown} answered with something that is no message: {exc}") from exc
            if self.owed:
                raise Unreachable(f"{shown} answered with something that is no answer to what it was asked")
        else:
            raise Unreachable(
                f"{shown} answered HTTP {reply.status} with {kind or 'nothing'} instead of JSON or an event stream:"
                " check the address after --to"
            )

    def _read_stream(self, reply: "Reply") -> None:
        def take(found: list[Message], is_array: bool) -> None:
            self._hand_over(found, is_array, reply)

        def is_answered() -> bool:
            # Most probably it was the answer that was too large; nobody is to wait for what may never come.
            return not self.owed or events.too_large is not None

        events = streams.Events(take, is_answered)
        broken = None
        try:
            events.read(reply)
        except Broken as exc:
            broken = exc
        if not is_answered() and events.last_id and self.version is None:
            reply.close()
            streams.resume(self._carrier, events, self.call, is_answered)
        if self.owed and events.too_large:
            raise Unreachable(f"{self._carrier.web.shown}: {events.too_large}")
        if self.owed:
            raise broken or Broken(f"{self._carrier.web.shown} ended the stream before it answered", sent=True)

    def _hand_over(self, found: list[Message], is_array: bool, reply: "Reply") -> None:
        """Pass on what is for the client, in its order."""
        lines = [message.raw for message in found if self._is_for_client(message, reply)]
        if lines and is_array and self._is_array:
            lines = [b"[" + b",".join(lines) + b"]"]
        self._carrier.outlet.deliver(lines)

    def _is_for_client(self, message: Message, reply: "Reply") -> bool:
        if self.call.given_up:
            return False
        if message.is_response:
            return self._is_answer(message, reply)
        if message.method == messages.ACKNOWLEDGED and self.method == LISTEN:
            return self._acknowledge(message)
        if message.is_request:
            self._carrier.session.asked(message)
        return message.method is not None

    def _is_answer(self, message: Message, reply: "Reply") -> bool:
        key = message.key
        if key is None and "error" in message.fields and len(self.owed) == 1:
            # Servers that did not get as far as the id answer without one.
            self._settle_all(messages.written(message.fields["error"]))
            return False
        if key is None or not self._carrier.settle(self, key):
            client_io.remark("the server sent an answer that nobody waits for")
            return False
        if self.method == INITIALIZE and message.result is not None:
            self._carrier.begin(reply.head.headers.get("mcp-session-id"), message)
        elif self.method == "tools/list":
            self._carrier.learn(message)
        return True

    def _acknowledge(self, message: Message) -> bool:
        """The first time the client is told; later, only what it may have missed."""
        if not self._was_acknowledged:
            self._was_acknowledged = True
            return True
        self._waited = 0.0
        self._carrier.outlet.deliver(missed(message, self.message.id or ""))
        return False

    # --- answers of the bridge's own

    def fail(self, sentence: str, code: int = refusals.INTERNAL_ERROR) -> None:
        """Answer who still waits with an error."""
        if self.owed:
            client_io.remark(sentence)
            self._settle_all(f'{{"code":{code},"message":{messages.quoted(sentence)}}}')

    def _settle_all(self, error: str) -> None:
        lines = []
        for key, id in list(self.owed.items()):
            if self._carrier.settle(self, key):
                lines.append(f'{{"jsonrpc":"2.0","id":{messages.quoted(id)},"error":{error}}}'.encode())
        if lines and self._is_array:
            lines = [b"[" + b",".join(lines) + b"]"]
        self._carrier.outlet.deliver(lines)


_MISSED = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}


def missed(acknowledgement: Message, id: str) -> list[bytes]:
    """What may have changed while a subscription was not open, as its notices would have told. Pure."""
    honoured = acknowledgement.params.get("notifications")
    if not isinstance(honoured, dict):
        return []
    notices = [(method, "") for key, method in _MISSED.items() if honoured.get(key) is True]
    uris = honoured.get("resourceSubscriptions")
    notices += [
        ("notifications/resources/updated", f',"uri":{messages.quoted(uri)}')
        for uri in (uris if isinstance(uris, list) else ())
        if messages.is_text(uri)
    ]
    meta = f'"_meta":{{"{messages.SUBSCRIPTION_KEY}":{messages.quoted(id)}}}'
    return [f'{{"jsonrpc":"2.0","method":"{method}","params":{{{meta}{more}}}}}'.encode() for method, more in notices]
