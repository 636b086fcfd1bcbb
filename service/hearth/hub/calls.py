"""What a client waits for: a call that went upstream, or a subscription that stays open."""

import hashlib

from hearth.errors import HearthError, UpstreamError
from hearth.faults import SEAMS
from hearth.hub.sessions import Session
from hearth.mcp import answers, eras, translate
from hearth.upstreams.connection import Connection
from hearth.wire import json
from hearth.wire.values import RawBytes

# The key goes into a frame's header, which has little room; ids are a client's choice.
KEY_LIMIT_BYTES = 200


class Call:
    """One request of one client, from its arrival to its one answer. It is the upstream connection's waiter."""

    __slots__ = (
        "_connection", "_number", "_upstream_era",
        "era", "id", "key", "progress_token", "replayed", "resent", "session", "tag",
    )  # fmt: skip

    def __init__(
        self, session: Session, tag: int, id: bytes, key: object, resent: bool = False, replayed: bool = False
    ) -> None:
        self.session = session
        self.tag = tag
        self.id = id
        self.key = key
        self.era = eras.LEGACY
        # Another daemon may have run it.
        self.resent = resent
        # Another daemon has answered it, and the client has that answer.
        self.replayed = replayed
        self.progress_token: RawBytes | None = None
        self._connection: Connection | None = None

    @property
    def is_open(self) -> bool:
        """Whether somebody still waits: not answered, not cancelled, not gone."""
        return self.session.open.get(self.key) is self

    def send(self, connection: Connection, era: str, method: bytes, params: RawBytes) -> None:
        """Hand the request to an upstream. Raises UpstreamError, and the call is still open then."""
        self._upstream_era = era
        self._number = connection.request(method, params, self)
        self._connection = connection

    def answered(self, message: json.Message) -> None:
        """The upstream answered."""
        if SEAMS:
            SEAMS.hit("before-answer")
        result: RawBytes | None = message.fields.get("result")
        if result is None:
            error = translate.error_object(message.fields["error"], self.era, self._upstream_era)
            self.close(answers.raw_error(self.id, error))
            return
        if self.era != self._upstream_era:
            try:
                result = translate.call_result(result, self.era, self._upstream_era)
            except HearthError as problem:
                self.failed(problem)
                return
        self.close(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (self.id, result))

    def failed(self, problem: HearthError) -> None:
        """No answer will come from the upstream; the client gets the reason."""
        self.close(answers.failure(self.id, problem))

    def progressed(self, params: json.Fields) -> None:
        """Progress goes to the one session whose call it is, under the token that its client chose."""
        if self.progress_token is None or not self.is_open:
            return
        payload = answers.notification(
            "notifications/progress", json.join({**params, "progressToken": self.progress_token})
        )
        self.session.outlet.notify(payload)

    def close(self, payload: bytes, keep: str | None = None) -> None:
        """Give the one answer; anything later is dropped."""
        session = self.session
        if session.open.get(self.key) is self:
            del session.open[self.key]
            session.outlet.answer(self.tag, payload, keep)

    def cancel(self, reason: RawBytes | None = None) -> None:
        """The client withdrew it: there is no answer, and the upstream is told."""
        if self.session.open.get(self.key) is not self:
            return
        del self.session.open[self.key]
        if self._connection:
            self._connection.cancel(self._number, reason)
        self.session.outlet.finish(self.tag)


class Listen:
    """An open `subscriptions/listen` of a modern client. Its line is kept by the bridge, so it survives the daemon."""

    __slots__ = ("id", "session", "tools")

    def __init__(self, session: Session, id: bytes, tools: bool) -> None:
        self.session = session
        self.id = id
        self.tools = tools

    @property
    def keep(self) -> str:
        """The name under which the bridge keeps the line."""
        name = self.id if len(self.id) <= KEY_LIMIT_BYTES else hashlib.blake2s(self.id).hexdigest().encode()
        return f"listen:{name.decode('utf-8', 'replace')}"

    def _meta(self) -> bytes:
        return json.join({eras.SUBSCRIPTION_ID_KEY: self.id})

    def acknowledge(self) -> None:
        """The first message of the subscription: what is honoured."""
        honoured = b'{"toolsListChanged":true}' if self.tools else b"{}"
        params = json.join({"notifications": honoured, "_meta": self._meta()})
        self.session.outlet.tell(answers.notification("notifications/subscriptions/acknowledged", params))

    def tools_changed(self) -> None:
        """The notice that the client asked for."""
        if self.tools:
            payload = answers.notification("notifications/tools/list_changed", json.join({"_meta": self._meta()}))
            self.session.outlet.notify(payload, topic=f"tools/{self.id!r}")

    def complete(self) -> None:
        """The subscription ends because the daemon does."""
        body = json.join({"resultType": b'"complete"', "_meta": self._meta()})
        self.session.outlet.tell(answers.result(self.id, body))


def unrepeatable(name: str) -> UpstreamError:
    """The answer to a call that had been sent to a daemon which died, when its tool is not safe to run twice."""
    return UpstreamError(
        f"the daemon was lost while tool {name!r} was being called; it may or may not have run, and it was not "
        "called again because it is neither annotated as read-only nor as idempotent"
    )
