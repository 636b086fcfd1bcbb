"""A server of 2026-07-28: no handshake, an envelope on every request, questions as results. No I/O.

A call that asks is run anew with every retry: the answers so far travel in `requestState`.
"""

import base64
import json
from typing import Any

from support.conformance import revisions, vocabulary
from support.conformance.upstreams import behaviour, offer
from support.conformance.upstreams.behaviour import Ask, Broken, Log, Progress, Run, Step, Touched, Wait

Message = dict[str, Any]

CACHED: Message = {"ttlMs": 1000, "cacheScope": "private"}


class Unanswerable(Exception):
    """The request gets an error; `args` are code, message and data."""


class ModernServer:
    """One stream of messages. `complaints` says what should never have come."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.complaints: list[str] = []
        self._state = behaviour.State(revision)
        self._waiting: dict[object, Run] = {}
        # The URIs of each listen stream.
        self._listening: dict[object, list[str]] = {}
        self._sent: list[Message] = []

    def receive(self, message: Message) -> list[Message]:
        """Take one message; returns what it leads to."""
        self._sent = []
        trouble = vocabulary.to_server(self.revision, message)
        # Finding out the era is everybody's right.
        if message.get("method") != "initialize":
            self.complaints += trouble
        if "id" in message and "method" in message:
            try:
                self._check(message, trouble)
                self._request(message["id"], message["method"], message["params"])
            except Unanswerable as problem:
                code, text, data = problem.args
                error = {"code": code, "message": text, **({} if data is None else {"data": data})}
                self._sent.append({"jsonrpc": "2.0", "id": message["id"], "error": error})
        elif message.get("method") == "notifications/cancelled":
            self._cancel(message["params"]["requestId"])
        return self._sent

    def _check(self, message: Message, trouble: list[str]) -> None:
        method, meta = message["method"], message.get("params", {}).get("_meta", {})
        version = message["params"]["protocolVersion"] if method == "initialize" else meta.get(revisions.VERSION_KEY)
        if version not in (None, self.revision):
            data = {"supported": [self.revision], "requested": version}
            raise Unanswerable(-32022, f"protocol version {version} is not supported", data)
        if method not in vocabulary.MODERN_REQUESTS:
            raise Unanswerable(-32601, f"no method {method}", None)
        if trouble:
            raise Unanswerable(-32602, str(trouble), None)

    def _complete(self, id: object, result: Message) -> None:
        meta = {revisions.SERVER_INFO_KEY: offer.server_info(self.revision), **result.pop("_meta", {})}
        self._sent.append({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", **result, "_meta": meta}})

    def _notify(self, method: str, **params: object) -> None:
        self._sent.append({"jsonrpc": "2.0", "method": method, "params": params})

    def _cancel(self, id: object) -> None:
        self._listening.pop(id, None)
        if id in self._waiting:
            self._waiting.pop(id).close()

    # --- requests

    def _request(self, id: object, method: str, params: Message) -> None:
        if method == "tools/call":
            self._call(id, params)
        elif method == "subscriptions/listen":
            self._listen(id, params["notifications"])
        else:
            cached = CACHED if method in vocabulary.CACHEABLE else {}
            self._complete(id, {**self._result(method, params), **cached})

    def _result(self, method: str, params: Message) -> Message:
        match method:
            case "server/discover":
                known = {"capabilities": offer.capabilities(self.revision), "instructions": f"Speaks {self.revision}."}
                return {"supportedVersions": [self.revision], **known}
            case "tools/list":
                found = offer.page(self.revision, params.get("cursor", "0"))
            case "resources/list":
                return {"resources": offer.resources(self.revision)}
            case "resources/templates/list":
                return {"resourceTemplates": offer.templates(self.revision)}
            case "prompts/list":
                return {"prompts": offer.prompts(self.revision)}
            case "resources/read":
                return self._read(params["uri"])
            case "prompts/get":
                found = offer.prompt(self.revision, params["name"], params.get("arguments", {}))
            case _:
                found = offer.completion(self.revision, params["ref"], params["argument"])
        if found is None:
            raise Unanswerable(-32602, f"{method} of nothing that there is", None)
        return found

    def _read(self, uri: str) -> Message:
        text = self._state.text_of(uri)
        if text is None:
            raise Unanswerable(-32602, "Resource not found", {"uri": uri})
        return {"contents": [{"uri": uri, "text": text}]}

    def _listen(self, id: object, wanted: Message) -> None:
        self._listening[id] = wanted.get("resourceSubscriptions", [])
        self._notify(vocabulary.ACKNOWLEDGED, notifications=wanted, _meta={revisions.SUBSCRIPTION_KEY: id})

    # --- tools

    def _call(self, id: object, params: Message) -> None:
        meta = {key: value for key, value in params["_meta"].items() if key not in vocabulary.MODERN_META}
        meta.pop("progressToken", None)
        run = behaviour.start(params["name"], behaviour.Call(self._state, params.get("arguments", {}), meta))
        if run is None:
            raise Unanswerable(-32602, f"Unknown tool: {params['name']}", None)
        try:
            self._run(id, run, params)
        except StopIteration as end:
            self._complete(id, end.value)
        except Broken as error:
            raise Unanswerable(*error.args) from error

    def _run(self, id: object, run: Run, params: Message) -> None:
        """Run until the tool ends (StopIteration), asks or waits."""
        answers = _answers(params)
        step = next(run)
        while True:
            if isinstance(step, Ask) and answers:
                step = run.send(answers.pop(0))
                continue
            if isinstance(step, Ask):
                self._ask(id, step, params)
                return
            if isinstance(step, Wait):
                self._waiting[id] = run
                return
            self._tell(step, params["_meta"])
            step = next(run)

    def _ask(self, id: object, step: Ask, params: Message) -> None:
        declared = params["_meta"][revisions.CAPABILITIES_KEY].get(step.capability)
        if declared is None or (step.mode and step.mode not in declared):
            wanted = {step.mode: {}} if step.mode else {}
            text = f"the client has not declared the capability {step.capability}"
            raise Unanswerable(-32021, text, {"requiredCapabilities": {step.capability: wanted}})
        answers = _answers(params)
        state = base64.b64encode(json.dumps({"tool": params["name"], "answers": answers}).encode()).decode()
        request = {"method": step.method, **({"params": step.params} if step.params else {})}
        asking = {"inputRequests": {f"question {len(answers)}": request}, "requestState": state}
        meta = {revisions.SERVER_INFO_KEY: offer.server_info(self.revision)}
        result = {"resultType": "input_required", **asking, "_meta": meta}
        self._sent.append({"jsonrpc": "2.0", "id": id, "result": result})

    def _tell(self, step: Step, meta: Message) -> None:
        match step:
            case Progress(progress, total):
                if "progressToken" in meta:
                    token = meta["progressToken"]
                    self._notify("notifications/progress", progressToken=token, progress=progress, total=total)
            case Log(level, data):
                wanted = meta.get(revisions.LOG_LEVEL_KEY)
                if wanted is not None and revisions.LOG_LEVELS.index(level) >= revisions.LOG_LEVELS.index(wanted):
                    self._notify("notifications/message", level=level, data=data, logger=self.revision)
            case Touched(uri):
                for id, uris in self._listening.items():
                    if uri in uris:
                        self._notify("notifications/resources/updated", uri=uri, _meta={revisions.SUBSCRIPTION_KEY: id})


def _answers(params: Message) -> list[Message]:
    """What the client has answered in this call so far; a question without its answer is asked again."""
    if "requestState" not in params:
        return []
    state = json.loads(base64.b64decode(params["requestState"]))
    if state["tool"] != params["name"]:
        raise Unanswerable(-32602, "this requestState belongs to another tool", None)
    answers: list[Message] = state["answers"]
    given = params.get("inputResponses", {}).get(f"question {len(answers)}")
    return answers if given is None else [*answers, given]
