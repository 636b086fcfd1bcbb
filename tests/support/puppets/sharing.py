"""Clients that share servers whose every word a test says."""

from typing import Any

from support.conformance.clients import Client, LegacyClient, Message, ModernClient, client_of
from support.conformance.revisions import MODERN, NEWEST_LEGACY, is_modern
from support.puppets.server import Puppet, PuppetDaemon, PuppetServer, outcome

FORM = {"message": "Who are you?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
PAGE = {"mode": "url", "message": "Go there.", "url": "https://test.example/consent", "elicitationId": "e-1"}
PROMPT = {"messages": [{"role": "user", "content": {"type": "text", "text": "Speak."}}], "maxTokens": 1}
# Everything that a server can ask of a client.
QUESTIONS: dict[str, tuple[str, Message]] = {
    "form": ("elicitation/create", FORM),
    "url": ("elicitation/create", PAGE),
    "sampling": ("sampling/createMessage", PROMPT),
    "roots": ("roots/list", {}),
}


class House(PuppetDaemon):
    """A daemon, puppet servers behind it, and clients that work in folders of their own or in one."""

    def server(
        self, revision: str = NEWEST_LEGACY, name: str = "puppet", offers: Message | None = None, **keys: Any
    ) -> PuppetServer:
        """One more server in the config; its tool `act` is the test's."""
        server = PuppetServer(self.scratch.home, name, revision, **(offers or {}))
        self._servers[name] = server, keys
        return server

    def serve(self, *words: Any, **keys: Any) -> PuppetServer:
        """Start a daemon with one server."""
        server = self.server(*words, **keys)
        self.start()
        return server

    def folder(self, name: str) -> str:
        path = self.scratch.home / name
        path.mkdir(exist_ok=True)
        return str(path)

    def client(
        self, revision: str = NEWEST_LEGACY, name: str = "somebody", place: str | None = None, bare: bool = False
    ) -> Client:
        """One more client that has said its first words; it works in the folder of that name, or one of its own."""
        client = client_of(self.scratch.frames(cwd=self.folder(place or name)), revision, name, bare)
        self.own(client)
        return client

    def legacy(self, name: str, place: str | None = None, silent: bool = False) -> LegacyClient:
        """The same, of the newest revision that is asked by requests; `silent`: it leaves them unanswered."""
        client = self.client(NEWEST_LEGACY, name, place)
        assert isinstance(client, LegacyClient)
        client.silent = silent
        return client

    def modern(self, name: str, place: str | None = None) -> ModernClient:
        client = self.client(MODERN, name, place)
        assert isinstance(client, ModernClient)
        return client

    def pids(self, name: str = "puppet") -> list[int]:
        return self.scratch.upstream(name)["pids"]

    def mode(self, name: str = "puppet") -> str:
        return self.scratch.upstream(name)["isolation"]


def act(client: Client, server: str = "puppet", **more: Any) -> object:
    """Begin a call of the puppet's tool, with the client's name in it; the request's id."""
    return client.begin("tools/call", name=f"{server}__act", arguments={"who": client.name}, **more)


def finish(client: Client, id: object, puppet: Puppet, call: Message, text: str) -> None:
    """Have the server answer with words, which the client must get."""
    puppet.say(call, text)
    assert outcome(client, id).text == text


def called(server: PuppetServer, client: Client, id: object = None) -> tuple[Puppet, Message]:
    """The puppet that has the client's call, which is begun if it is not yet, and the call as it came there."""
    if id is None:
        act(client)
    puppet, call = server.next("tools/call")
    assert call["params"]["arguments"] == {"who": client.name}
    return puppet, call


def asked(client: Client, id: object) -> tuple[Message, object]:
    """The question that comes in the client's call, answered in the way of its era, and the call's id from then on."""
    if isinstance(client, LegacyClient):
        question = client.next_question()
        return {"method": question["method"], "params": question.get("params", {})}, id
    result = outcome(client, id).result
    assert result["resultType"] == "input_required", result
    ((key, question),) = result["inputRequests"].items()
    answer = client.reply(question["method"], question.get("params", {}))
    again = act(client, inputResponses={key: answer}, requestState=result["requestState"])
    return {"method": question["method"], "params": question.get("params", {})}, again


def heard_nothing(client: Client) -> bool:
    """Whether a client that waits for nothing has been told and asked nothing, once all that is on its way is there."""
    found = outcome(client, client.begin("server/discover" if is_modern(client.revision) else "ping"))
    return not (found.questions or found.progress or found.logs or client.notices)
