"""The server that the official conformance suite expects to meet, on stdio, in both eras.

Its tools, resources and prompts have the names that the suite looks for. The first request decides about the era: with
`initialize` it asks its client by requests of its own, otherwise by results that require input.
"""

import json
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator

from fixture_calls import META, Call, Failed, Message, NeedsInput, seal
from fixture_offers import PROMPTS, RESOURCES, TEMPLATE, prompt, read
from fixture_tools import TOOLS, describe

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
CACHED = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)
# A server that a broken run loses ends by itself.
LIFETIME_SECONDS = 1800


class Line:
    """Stdin and stdout, one message per line."""

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()
        self._lines = self._read()

    def _read(self) -> Iterator[Message]:
        rest = b""
        while chunk := os.read(0, 1 << 16):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (json.loads(line) for line in whole)

    def send(self, message: Message) -> None:
        view = memoryview(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        while view:
            view = view[os.write(1, view) :]

    def __iter__(self) -> Iterator[Message]:
        while True:
            if self._waiting:
                yield self._waiting.popleft()
            elif (message := next(self._lines, None)) is not None:
                yield message
            else:
                return

    def ask(self, id: str, question: Message) -> Message:
        """A request to the client, and its response; what else comes meanwhile waits."""
        self.send({"id": id, **question})
        for message in self._lines:
            if message.get("id") == id and "method" not in message:
                return message
            self._waiting.append(message)
        sys.exit()


class Server:
    """One conversation."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._count = 0
        self._listening: dict[object, Message] = {}
        self._subscribed: set[str] = set()
        self.is_modern = False
        self.capabilities: Message = {}
        # A client that never set one expects everything.
        self.level: str | None = "debug"

    def notify(self, method: str, params: Message | None = None) -> None:
        self._line.send({"method": method, **({} if params is None else {"params": params})})

    def ask(self, question: Message) -> Message:
        """What a legacy client answers. Raises Failed with its error."""
        self._count += 1
        answer = self._line.ask(f"question-{self._count}", question)
        if "error" in answer:
            raise Failed(-32603, f"the client refused: {answer['error'].get('message')}", None)
        return answer["result"]

    def changed(self, kind: str) -> None:
        method = f"notifications/{kind}/list_changed"
        if not self.is_modern:
            self.notify(method)
        for id, wanted in self._listening.items():
            if wanted.get(f"{kind}ListChanged"):
                self.notify(method, {"_meta": {f"{META}subscriptionId": id}})

    def serve(self) -> None:
        for message in self._line:
            if "method" in message and "id" in message:
                self._request(message)
            elif message.get("method") == "notifications/cancelled":
                self._listening.pop(message["params"].get("requestId"), None)

    def _request(self, message: Message) -> None:
        id, method = message["id"], message["method"]
        meta = (message.get("params") or {}).get("_meta") or {}
        self.is_modern = f"{META}protocolVersion" in meta
        try:
            if self.is_modern and meta[f"{META}protocolVersion"] != MODERN:
                data = {"supported": [MODERN], "requested": meta[f"{META}protocolVersion"]}
                raise Failed(-32022, "this version is not supported", data)
            if method == "subscriptions/listen" and self.is_modern:
                self._listening[id] = message["params"]["notifications"]
                params = {"notifications": self._listening[id], "_meta": {f"{META}subscriptionId": id}}
                self.notify("notifications/subscriptions/acknowledged", params)
                return
            result = self._result(method, Call(self, message))
            if self.is_modern:
                result = self._modern(method, result)
            self._line.send({"id": id, "result": result})
        except NeedsInput as need:
            asked, state = need.args
            result = {"resultType": "input_required", **({"inputRequests": asked} if asked else {})}
            if state is not None or not asked:
                result["requestState"] = seal(state or {"round": 1})
            self._line.send({"id": id, "result": result})
        except Failed as problem:
            code, words, data = problem.args
            error = {"code": code, "message": words, **({} if data is None else {"data": data})}
            self._line.send({"id": id, "error": error})

    def _modern(self, method: str, result: Message) -> Message:
        cached = {"ttlMs": 1000, "cacheScope": "private"} if method in CACHED else {}
        return {"resultType": "complete", **cached, **result}

    def _result(self, method: str, call: Call) -> Message:
        params = call.params
        match method:
            case "server/discover" if self.is_modern:
                info = {f"{META}serverInfo": {"name": "fixture", "version": "1"}}
                return {"supportedVersions": [MODERN], "capabilities": self._offered(), "_meta": info}
            case "initialize" if not self.is_modern:
                self.capabilities = params.get("capabilities") or {}
                asked = params.get("protocolVersion")
                version = asked if asked in LEGACY else LEGACY[0]
                info = {"name": "fixture", "version": "1"}
                return {"protocolVersion": version, "capabilities": self._offered(), "serverInfo": info}
            case "tools/list":
                return {"tools": [describe(name) for name in TOOLS]}
            case "tools/call" if params.get("name") in TOOLS:
                return TOOLS[params["name"]](call)
            case "tools/call":
                raise Failed(-32602, f"Unknown tool: {params.get('name')}", None)
            case "resources/list":
                names = {"name": "resource", "description": "A resource for testing"}
                return {
                    "resources": [
                        {"uri": uri, "mimeType": each["mimeType"], **names} for uri, each in RESOURCES.items()
                    ]
                }
            case "resources/templates/list":
                return {
                    "resourceTemplates": [{"uriTemplate": TEMPLATE, "name": "template", "mimeType": "application/json"}]
                }
            case "resources/read":
                return read(params.get("uri", ""))
            case "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" | "ping" if not self.is_modern:
                self.level = params.get("level", self.level)
                return {}
            case "prompts/list":
                arguments = {
                    name: [{"name": each, "required": True} for each in given] for name, given in PROMPTS.items()
                }
                return {
                    "prompts": [{"name": name, "description": name, "arguments": arguments[name]} for name in PROMPTS]
                }
            case "prompts/get":
                return prompt(call)
            case "completion/complete":
                return {"completion": {"values": ["paris", "park"], "total": 2, "hasMore": False}}
            case _:
                raise Failed(-32601, f"there is no method {method}", None)

    def _offered(self) -> Message:
        lists: Message = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}}
        return {**lists, "resources": {"subscribe": True, "listChanged": True}, "completions": {}, "logging": {}}


if __name__ == "__main__":
    signal.alarm(LIFETIME_SECONDS)
    Server(Line()).serve()
