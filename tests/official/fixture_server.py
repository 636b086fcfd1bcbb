"""The server that the official conformance suite expects to meet, on stdio, in both eras.

Its tools, resources and prompts have the names that the suite looks for. The first request decides about the era: with
`initialize` it asks its client by requests of its own, otherwise by results that require input.
"""

import base64
import hmac
import json
import os
import re
import signal
import struct
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

Message = dict[str, Any]

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
META = "io.modelcontextprotocol/"
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
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
KEY = os.urandom(32)


def _png() -> str:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
    ).decode()


def _wav() -> str:
    """Eight samples of silence."""
    data = bytes([128] * 8)
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    return base64.b64encode(
        b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVE" + form + struct.pack("<4sI", b"data", len(data)) + data
    ).decode()


IMAGE = {"type": "image", "data": _png(), "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": _wav(), "mimeType": "audio/wav"}


class Failed(Exception):
    """The request gets an error; `args` are code, message and data."""


class NeedsInput(Exception):
    """A modern client is to be asked first; `args` are the questions and the state."""


def text(words: str) -> Message:
    return {"type": "text", "text": words}


def said(*content: Message, **more: object) -> Message:
    return {"content": list(content), **more}


def form(message: str, **properties: Message) -> Message:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sampling(prompt: str, tokens: int) -> Message:
    messages = [{"role": "user", "content": text(prompt)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": tokens}}


ROOTS: Message = {"method": "roots/list", "params": {}}
STRING: Message = {"type": "string"}


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


class Call:
    """One request as a tool or a prompt sees it."""

    def __init__(self, server: "Server", message: Message) -> None:
        self.params: Message = message.get("params") or {}
        self.arguments: Message = self.params.get("arguments") or {}
        self.meta: Message = self.params.get("_meta") or {}
        self.given: Message = self.params.get("inputResponses") or {}
        self._server = server

    @property
    def can(self) -> Message:
        """What the client can be asked."""
        found: Message = self.meta.get(f"{META}clientCapabilities", {})
        return found if self._server.is_modern else self._server.capabilities

    @property
    def state(self) -> Message | None:
        """What was sealed with the last questions; None for the first round. Raises Failed."""
        sealed = self.params.get("requestState")
        return None if sealed is None else unseal(sealed)

    def changed(self, kind: str) -> None:
        """A list is not what it was."""
        self._server.changed(kind)

    def progress(self, *steps: int) -> None:
        token = self.meta.get("progressToken")
        for step in steps if token is not None else ():
            params = {"progressToken": token, "progress": step, "total": 100, "message": f"step {step} of 100"}
            self._server.notify("notifications/progress", params)

    def log(self, data: str) -> None:
        wanted = self.meta.get(f"{META}logLevel") if self._server.is_modern else self._server.level
        if wanted is not None and LOG_LEVELS.index("info") >= LOG_LEVELS.index(wanted):
            self._server.notify("notifications/message", {"level": "info", "logger": "fixture", "data": data})

    def ask(self, key: str, question: Message) -> Message:
        """The client's answer to one question. Raises NeedsInput where it has to come back with it."""
        return self.ask_all({key: question})[key]

    def ask_all(self, asked: dict[str, Message], state: Message | None = None) -> dict[str, Message]:
        if not self._server.is_modern:
            return {key: self._server.ask(question) for key, question in asked.items()}
        if not all(isinstance(self.given.get(key), dict) for key in asked):
            raise NeedsInput(asked, state)
        return {key: self.given[key] for key in asked}


def seal(state: Message) -> str:
    """A state that nobody else can have made."""
    body = base64.urlsafe_b64encode(json.dumps(state).encode()).decode()
    return f"{body}.{hmac.digest(KEY, body.encode(), 'sha256').hex()}"


def unseal(sealed: str) -> Message:
    """Raises Failed for one that was tampered with."""
    body, _, mark = sealed.rpartition(".")
    if not hmac.compare_digest(mark, hmac.digest(KEY, body.encode(), "sha256").hex()):
        raise Failed(-32602, "requestState has been tampered with", None)
    found: Message = json.loads(base64.urlsafe_b64decode(body))
    return found


def field(answer: Message, name: str) -> str:
    """What a person wrote into a form. Raises Failed for an answer that is none."""
    content = answer.get("content")
    if answer.get("action") != "accept" or not isinstance(content, dict) or not isinstance(content.get(name), str):
        raise NeedsInput({}, None)
    value: str = content[name]
    return value


# --- tools

Tool = Callable[[Call], Message]
TOOLS: dict[str, Tool] = {}


def tool(function: Tool) -> Tool:
    TOOLS[function.__name__] = function
    return function


@tool
def test_simple_text(call: Call) -> Message:
    return said(text("This is a simple text response for testing."))


@tool
def test_image_content(call: Call) -> Message:
    return said(IMAGE)


@tool
def test_audio_content(call: Call) -> Message:
    return said(AUDIO)


@tool
def test_embedded_resource(call: Call) -> Message:
    return said({"type": "resource", "resource": plain("test://embedded-resource", "This is an embedded resource.")})


@tool
def test_multiple_content_types(call: Call) -> Message:
    resource = {"uri": "test://mixed-content-resource", "mimeType": "application/json", "text": '{"test":"data"}'}
    return said(text("Multiple content types test:"), IMAGE, {"type": "resource", "resource": resource})


@tool
def test_tool_with_logging(call: Call) -> Message:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        call.log(words)
    return said(text("Tool with logging executed successfully"))


@tool
def test_tool_with_progress(call: Call) -> Message:
    call.progress(0, 50, 100)
    return said(text(str(call.meta.get("progressToken"))))


@tool
def test_error_handling(call: Call) -> Message:
    return said(text("This tool intentionally returns an error for testing"), isError=True)


@tool
def test_reconnection(call: Call) -> Message:
    call.progress(50)
    return said(text("Reconnection test completed successfully."))


@tool
def test_sampling(call: Call) -> Message:
    answer = call.ask("sample", sampling(call.arguments.get("prompt", ""), 100))
    return said(text(f"LLM response: {answer.get('content', {}).get('text')}"))


def _elicited(call: Call, message: str, **properties: Message) -> Message:
    question = form(message, **properties)
    question["params"]["requestedSchema"]["required"] = []
    answer = call.ask("form", question)
    content = json.dumps(answer.get("content") or {})
    return said(text(f"Elicitation completed: action={answer.get('action')}, content={content}"))


@tool
def test_elicitation(call: Call) -> Message:
    answer = call.ask("form", form(call.arguments.get("message", ""), response=STRING))
    content = json.dumps(answer.get("content") or {})
    return said(text(f"User response: action={answer.get('action')}, content={content}"))


@tool
def test_elicitation_sep1034_defaults(call: Call) -> Message:
    return _elicited(
        call,
        "Please review the fields and their defaults",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )


@tool
def test_elicitation_sep1330_enums(call: Call) -> Message:
    titled = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
    options = ["option1", "option2", "option3"]
    many: Message = {"type": "array", "minItems": 1, "maxItems": 3}
    return _elicited(
        call,
        "Please select",
        untitledSingle={"type": "string", "enum": options},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": options, "enumNames": ["One", "Two", "Three"]},
        untitledMulti={**many, "items": {"type": "string", "enum": options}},
        titledMulti={**many, "items": {"anyOf": titled}},
    )


@tool
def json_schema_2020_12_tool(call: Call) -> Message:
    return said(text(f"called with {json.dumps(call.arguments)}"))


@tool
def test_missing_capability(call: Call) -> Message:
    if "sampling" not in call.can:
        raise Failed(-32021, "this tool needs sampling", {"requiredCapabilities": {"sampling": {}}})
    return said(text("Success"))


@tool
def test_input_required_result_elicitation(call: Call) -> Message:
    return said(text(f"Hello, {field(call.ask('user_name', form('What is your name?', name=STRING)), 'name')}!"))


@tool
def test_input_required_result_sampling(call: Call) -> Message:
    answer = call.ask("sample_request", sampling("What is the capital of France?", 100))
    return said(text(f"Sampling result: {answer.get('content', {}).get('text')}"))


@tool
def test_input_required_result_list_roots(call: Call) -> Message:
    return said(text(f"Found {len(call.ask('roots_request', ROOTS).get('roots', []))} root(s)"))


@tool
def test_input_required_result_request_state(call: Call) -> Message:
    asked = {"confirm": form("Please confirm", ok={"type": "boolean"})}
    state = call.state
    if state is None or "confirm" not in call.given:
        raise NeedsInput(asked, {"kind": "request-state"})
    return said(text("state-ok: requestState validated"))


@tool
def test_input_required_result_multiple_inputs(call: Call) -> Message:
    asked = {
        "user_name": form("What is your name?", name=STRING),
        "greeting": sampling("Generate a greeting", 50),
        "client_roots": ROOTS,
    }
    _ = call.state
    given = call.ask_all(asked, {"kind": "multiple-inputs"})
    name, greeting = field(given["user_name"], "name"), given["greeting"].get("content", {}).get("text")
    return said(text(f"Name: {name}; Greeting: {greeting}; Roots: {len(given['client_roots'].get('roots', []))}"))


@tool
def test_input_required_result_multi_round(call: Call) -> Message:
    state = call.state
    first = {"step1": form("Step 1: What is your name?", name=STRING)}
    second = {"step2": form("Step 2: What is your favorite color?", color=STRING)}
    if state is None or (state["round"] == 1 and "step1" not in call.given):
        raise NeedsInput(first, {"round": 1})
    if state["round"] == 1:
        raise NeedsInput(second, {"round": 2, "name": field(call.given["step1"], "name")})
    if "step2" not in call.given:
        raise NeedsInput(second, state)
    return said(text(f"Multi-round complete for {state['name']} who likes {field(call.given['step2'], 'color')}"))


@tool
def test_input_required_result_tampered_state(call: Call) -> Message:
    if call.state is None or "confirm" not in call.given:
        raise NeedsInput({"confirm": form("Please confirm", ok={"type": "boolean"})}, {"kind": "tamper-test"})
    return said(text("integrity-ok: state verified"))


@tool
def test_input_required_result_capabilities(call: Call) -> Message:
    if call.given:
        return said(text(f"capabilities-ok: received {','.join(call.given)}"))
    asked = {
        key: question
        for key, capability, question in (
            ("elicit_input", "elicitation", form("Elicitation input", value=STRING)),
            ("sample_input", "sampling", sampling("Sample request", 50)),
        )
        if capability in call.can
    }
    if not asked:
        return said(text("No supported capabilities declared"))
    raise NeedsInput(asked, {"kind": "capabilities-test"})


@tool
def test_streaming_elicitation(call: Call) -> Message:
    call.progress(50)
    return said(text("Streaming complete"))


@tool
def test_logging_tool(call: Call) -> Message:
    call.log("Diagnostic trace logging activated")
    return said(text("Logging evaluated"))


@tool
def test_trigger_tool_change(call: Call) -> Message:
    name = "test_added_tool"
    if TOOLS.pop(name, None) is None:
        TOOLS[name] = test_simple_text
    call.changed("tools")
    return said(text("Mutation triggered"))


@tool
def test_trigger_prompt_change(call: Call) -> Message:
    name = "test_added_prompt"
    if PROMPTS.pop(name, None) is None:
        PROMPTS[name] = ()
    call.changed("prompts")
    return said(text("Mutation triggered"))


@tool
def test_custom_header(call: Call) -> Message:
    return said(text(f"region {call.arguments.get('region')}"))


SCHEMAS: dict[str, Message] = {
    "test_sampling": {"type": "object", "properties": {"prompt": STRING}},
    "test_elicitation": {"type": "object", "properties": {"message": STRING}},
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": STRING, "city": STRING},
            }
        },
        "properties": {
            "name": STRING,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": STRING,
            "email": STRING,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    "test_custom_header": {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "priority": {"type": "integer", "x-mcp-header": "Priority"},
            "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
            "query": STRING,
        },
    },
}

# --- resources and prompts


def plain(uri: str, words: str) -> Message:
    return {"uri": uri, "mimeType": "text/plain", "text": words}


RESOURCES: dict[str, Message] = {
    "test://static-text": plain("test://static-text", "This is the content of the static text resource."),
    "test://static-binary": {"uri": "test://static-binary", "mimeType": "image/png", "blob": IMAGE["data"]},
    "test://watched-resource": plain("test://watched-resource", "Watched resource content"),
}
TEMPLATE = "test://template/{id}/data"


def read(uri: str) -> Message:
    found = re.fullmatch(r"test://template/([^/]+)/data", uri)
    if found:
        body = json.dumps({"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"})
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": body}]}
    if uri in RESOURCES:
        return {"contents": [RESOURCES[uri]]}
    raise Failed(-32602, f"there is no resource {uri}", {"uri": uri})


def user(content: Message) -> Message:
    return {"role": "user", "content": content}


def prompt(call: Call) -> Message:
    match call.params.get("name"), call.arguments:
        case "test_simple_prompt" | "test_added_prompt", _:
            messages = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments", {"arg1": first, "arg2": second}:
            messages = [text(f"Prompt with arguments: arg1='{first}', arg2='{second}'")]
        case "test_prompt_with_embedded_resource", {"resourceUri": uri}:
            embedded = {"type": "resource", "resource": plain(uri, "Embedded resource content for testing.")}
            messages = [embedded, text("Please process the embedded resource above.")]
        case "test_prompt_with_image", _:
            messages = [IMAGE, text("Please analyze the image above.")]
        case "test_input_required_result_prompt", _:
            answer = call.ask("user_context", form("What context should the prompt use?", context=STRING))
            messages = [text(f"Prompt with context: {field(answer, 'context')}")]
        case name, _:
            raise Failed(-32602, f"there is no prompt {name}, or an argument is missing", None)
    return {"messages": [user(each) for each in messages]}


PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}

# --- the conversation


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
        result: Message = answer["result"]
        return result

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


def describe(name: str) -> Message:
    schema = SCHEMAS.get(name, {"type": "object", "properties": {}})
    return {"name": name, "description": name.replace("_", " "), "inputSchema": schema}


if __name__ == "__main__":
    signal.alarm(LIFETIME_SECONDS)
    Server(Line()).serve()
