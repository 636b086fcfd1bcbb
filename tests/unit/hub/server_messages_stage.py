"""A relay between servers that speak of their own accord and the sessions that may be meant."""

from pathlib import Path
from typing import Any

from hearth.hub.calls import Call
from hearth.hub.client_requests import ClientRequests
from hearth.hub.input_required import SuspendedCalls
from hearth.hub.server_messages import ServerMessages, UrlVisits
from hearth.hub.sessions import Session
from hearth.mcp import versions
from hearth.upstreams.traits import TraitStore
from hearth.wire import json
from unit.conversations import until
from unit.hub.outlets import Kept
from unit.hub.stage import client, declaring, instance, offering, sent, server

ALL = b'{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}'
FORM = {"message": "Really?", "requestedSchema": {"type": "object"}}
ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"


class Stage:
    """One instance of a legacy server, and the relay between it and clients."""

    def __init__(self, folder: Path, mode: str = "shared", limit: int = 9, **spec: object) -> None:
        self.questions = ClientRequests("d")
        self.parking = SuspendedCalls(lambda: 60.0, lambda: limit, lambda call: None)
        self.server = server(learned=TraitStore(str(folder / "learned.json")), **spec)
        self.instance, self.connection = instance(self.server, offering(), mode)
        self.relay = ServerMessages(
            self.questions, self.parking, UrlVisits(), lambda instance: self.server, lambda: 60.0
        )
        self._count = 0

    def client(
        self, era: str = versions.LEGACY, declared: bytes = ALL, version: str = "2025-11-25"
    ) -> tuple[Session, Kept]:
        """A client that uses the instance."""
        member, sink = client(era, version, declared)
        self.server.hold(self.instance, member, member.id)
        return member, sink

    def call(self, member: Session, method: str = "tools/call", level: str | None = None) -> Call:
        self._count += 1
        meta = declaring(bytes(member.caller.capabilities), level=level)
        return sent(member, self.server, self.instance, b"%d" % self._count, method=method, meta=meta)

    def asked(self, *question: Any, **more: Any) -> tuple[Session, Kept]:
        """A client with a call, in the midst of which the server asks."""
        member, sink = self.client()
        self.call(member)
        self.ask(*question, **more)
        return member, sink

    def ask(self, method: str = ELICIT, id: object = "q", params: object = FORM, cause: int | None = None) -> None:
        message = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        self.relay.asked(self.instance, self.connection, json.parse(message), cause)

    def tell(self, method: str, params: object = None, cause: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})
        self.relay.noticed(self.instance, self.connection, json.parse(json.dumps(message)), cause)

    async def question(self, sink: Kept) -> dict[str, Any]:
        await until(lambda: sink.heard("ask"), "the client is asked")
        return sink.messages("ask")[-1]

    def reply(self, member: Session, question: dict[str, Any], **answer: object) -> None:
        message = json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer})
        self.questions.receive_answer(member, json.parse(message))

    async def answer(self) -> dict[str, Any]:
        """What the server gets."""
        await until(lambda: self.connection.answers, "the server has its answer")
        (found,) = self.connection.answers
        return found
