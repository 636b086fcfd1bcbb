"""A server of a legacy revision: handshake, requests both ways, one log level. Messages in, messages out; no I/O."""

from typing import Any

from support.conformance import vocabulary
from support.conformance.revisions import LOG_LEVELS
from support.conformance.upstreams import behaviour, offer
from support.conformance.upstreams.behaviour import Ask, Broken, Completed, Log, Progress, Refused, Run, Step, Touched

Message = dict[str, Any]


class Open:
    """A call that runs, and the id of the question that it waits for."""

    def __init__(self, id: object, run: Run, token: object) -> None:
        self.id = id
        self.run = run
        self.token = token
        self.question: str | None = None


class LegacyServer:
    """One conversation. `complaints` says what should never have come."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.complaints: list[str] = []
        self._state = behaviour.State(revision)
        self._client: Message | None = None
        # A server may log before it was told a level.
        self._level = LOG_LEVELS[0]
        self._subscribed: set[str] = set()
        self._open: list[Open] = []
        self._asked = 0
        self._sent: list[Message] = []

    def receive(self, message: Message) -> list[Message]:
        """Take one message; returns what it leads to."""
        self._sent = []
        trouble = vocabulary.to_server(self.revision, message)
        # Finding out the era is everybody's right.
        if message.get("method") != "server/discover":
            self.complaints += trouble
        if "method" not in message:
            self._answered(message)
        elif "id" not in message:
            self._noticed(message["method"], message.get("params", {}))
        elif trouble:
            self._refuse(message["id"], -32601 if trouble == [f"method {message['method']}"] else -32600, str(trouble))
        else:
            self._request(message["id"], message["method"], message.get("params", {}))
        return self._sent

    # --- sending

    def _send(self, **fields: object) -> None:
        self._sent.append({"jsonrpc": "2.0", **fields})

    def _notify(self, method: str, **params: object) -> None:
        self._send(method=method, params=params)

    def _refuse(self, id: object, code: int, text: str, data: object = None) -> None:
        self._send(id=id, error={"code": code, "message": text, **({} if data is None else {"data": data})})

    # --- receiving

    def _noticed(self, method: str, params: Message) -> None:
        if method == "notifications/cancelled":
            for call in [call for call in self._open if call.id == params["requestId"]]:
                self._open.remove(call)
                if call.question:
                    self._notify("notifications/cancelled", requestId=call.question)
                call.run.close()

    def _request(self, id: object, method: str, params: Message) -> None:
        if self._client is None and method not in ("initialize", "ping"):
            self.complaints.append(f"{method} before the handshake")
            self._refuse(id, -32600, "not initialized")
        elif method == "tools/call":
            self._call(id, params)
        else:
            found = self._result(method, params)
            if isinstance(found, str):
                self._refuse(id, -32602, found)
            elif found is None:
                self._refuse(id, vocabulary.RESOURCE_NOT_FOUND, "Resource not found", {"uri": params["uri"]})
            else:
                self._send(id=id, result=found)

    def _result(self, method: str, params: Message) -> Message | str | None:
        """The result, or what is bad about the params, or None for a resource that there is not."""
        match method:
            case "initialize":
                self._client = params["capabilities"]
                known = {
                    "capabilities": offer.capabilities(self.revision),
                    "serverInfo": offer.server_info(self.revision),
                }
                return {"protocolVersion": self.revision, **known, "instructions": f"Speaks {self.revision}."}
            case "tools/list":
                cursor = params.get("cursor", "0")
                return offer.page(self.revision, cursor) or f"bad cursor {cursor!r}"
            case "resources/list":
                return {"resources": offer.resources(self.revision)}
            case "resources/templates/list":
                return {"resourceTemplates": offer.templates(self.revision)}
            case "resources/read":
                text = self._state.text_of(params["uri"])
                return None if text is None else {"contents": [{"uri": params["uri"], "text": text}]}
            case "resources/subscribe":
                self._subscribed.add(params["uri"])
            case "resources/unsubscribe":
                self._subscribed.discard(params["uri"])
            case "prompts/list":
                return {"prompts": offer.prompts(self.revision)}
            case "prompts/get":
                given = offer.prompt(self.revision, params["name"], params.get("arguments", {}))
                return given or "no such prompt, or no name"
            case "completion/complete":
                return offer.completion(self.revision, params["ref"], params["argument"]) or "no such reference"
            case "logging/setLevel":
                if params["level"] not in LOG_LEVELS:
                    return f"no level {params['level']}"
                self._level = params["level"]
        return {}

    # --- tools

    def _call(self, id: object, params: Message) -> None:
        meta = dict(params.get("_meta", {}))
        token = meta.pop("progressToken", None)
        run = behaviour.start(params["name"], behaviour.Call(self._state, params.get("arguments", {}), meta))
        if run is None:
            self._refuse(id, -32602, f"Unknown tool: {params['name']}")
            return
        self._open.append(call := Open(id, run, token))
        self._advance(call, lambda: next(run))

    def _answered(self, message: Message) -> None:
        """The client's answer to a question."""
        call = next((call for call in self._open if call.question and call.question == message.get("id")), None)
        if call is None:
            self.complaints.append(f"an answer to no question: {message}")
            return
        call.question = None
        if "error" in message:
            said = Refused(str(message["error"]["message"]))
            self._advance(call, lambda: call.run.throw(said))
        else:
            self._advance(call, lambda: call.run.send(message["result"]))

    def _advance(self, call: Open, move: Any) -> None:
        """Run on until the tool ends, or waits."""
        try:
            while self._performed(call, move()):
                move = call.run.__next__
        except StopIteration as end:
            self._finish(call, result=end.value)
        except Refused as refusal:
            self._finish(call, result=behaviour.words(f"the client was asked: {refusal}", isError=True))
        except Broken as error:
            code, text, data = error.args
            self._finish(call, error={"code": code, "message": text, "data": data})

    def _finish(self, call: Open, **outcome: object) -> None:
        self._open.remove(call)
        self._send(id=call.id, **outcome)

    def _performed(self, call: Open, step: Step) -> bool:
        """Do what a step asks for; whether the run goes on at once."""
        match step:
            case Progress(progress, total):
                if call.token is not None:
                    self._notify("notifications/progress", progressToken=call.token, progress=progress, total=total)
            case Log(level, data):
                if LOG_LEVELS.index(level) >= LOG_LEVELS.index(self._level):
                    self._notify("notifications/message", level=level, data=data, logger=self.revision)
            case Touched(uri):
                if uri in self._subscribed:
                    self._notify("notifications/resources/updated", uri=uri)
            case Completed(elicitation_id):
                self._notify(vocabulary.COMPLETED, elicitationId=elicitation_id)
            case Ask():
                self._ask(call, step)
                return False
            case _:
                return False
        return True

    def _ask(self, call: Open, step: Ask) -> None:
        declared = (self._client or {}).get(step.capability)
        if declared is None or (step.mode and step.mode not in declared):
            wanted = f"{step.capability}.{step.mode}" if step.mode else step.capability
            raise Refused(f"it has not declared the capability {wanted}")
        self._asked += 1
        call.question = f"ask-{self._asked}"
        self._send(id=call.question, method=step.method, params=step.params)
