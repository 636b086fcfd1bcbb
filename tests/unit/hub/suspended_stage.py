"""A call that can be parked, between a real session and a real connection."""

from typing import Any

from hearth.hub.calls import Call
from hearth.hub.input_required import SuspendedCalls
from hearth.hub.sessions import Session
from hearth.hub.suspended_call import SuspendedCall
from hearth.mcp import versions
from hearth.wire import json
from unit.hub.outlets import Kept
from unit.hub.stage import Desk, client, declaring, instance, offering, opened, sent, server

ALL = b'{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}'
ACCEPT = {"action": "accept", "content": {"sure": True}}
ASKED = {"name": "s__t", "arguments": {"a": 1}}


class Table(Desk):
    """Takes calls that are to be made afresh."""

    def __init__(self) -> None:
        super().__init__()
        self.again: list[Call] = []

    def call_again(self, call: Call) -> None:
        self.again.append(call)


class Stage:
    """Calls of modern clients on one legacy server, parked when it asks."""

    def __init__(self, patience: float = 60.0, limit: int = 3) -> None:
        self.attached: list[Call] = []
        self.parking = SuspendedCalls(lambda: patience, lambda: limit, self.attached.append)
        self.server = server()
        self.instance, self.connection = instance(self.server, offering(tools=["t"]))
        self.member, self.sink = client(versions.MODERN, declared=ALL)
        self.desk = Table()
        self.settled: list[str] = []
        self._count = 0

    def call(
        self,
        member: Session | None = None,
        declared: bytes = ALL,
        token: bytes | None = None,
        method: str = "tools/call",
        asked: dict[str, object] | None = None,
    ) -> Call:
        """A call that the server has."""
        self._count += 1
        return sent(
            member or self.member,
            self.server,
            self.instance,
            b"%d" % self._count,
            desk=self.desk,
            method=method,
            asked=json.dumps(asked or ASKED),
            meta=declaring(declared, token),
        )

    def ask(self, call: Call | SuspendedCall, id: str = "q", method: str = "elicitation/create") -> SuspendedCall:
        """The server asks in the midst of it."""
        parked = self.parking.take(call) if isinstance(call, Call) else call
        params = {"message": id, "requestedSchema": {}} if method == "elicitation/create" else {}
        question = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        parked.question(json.parse(json.dumps(question)), lambda: self.settled.append(id))
        return parked

    def result(self, sink: Kept | None = None) -> dict[str, Any]:
        """The client's last answer."""
        return (sink or self.sink).messages("answer")[-1]["result"]

    def retry(
        self,
        required: dict[str, Any],
        member: Session | None = None,
        declared: bytes = ALL,
        token: bytes | None = None,
        params: dict[str, object] | None = None,
        method: str = "tools/call",
        **responses: object,
    ) -> Call:
        """The client calls again, with what it was given."""
        self._count += 1
        fields: dict[str, object] = {**(params or ASKED), "requestState": required["requestState"]}
        fields |= {"inputResponses": responses} if responses else {}
        call = opened(
            member or self.member,
            b"%d" % self._count,
            versions.MODERN,
            self.desk,
            method=method,
            params=json.dumps(fields),
            meta=declaring(declared, token),
        )
        assert self.parking.retry(call, method, call.request.params)
        return call


def keys(required: dict[str, Any]) -> list[str]:
    return list(required["inputRequests"])
