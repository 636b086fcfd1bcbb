"""A fake model on loopback that speaks three APIs: Anthropic's Messages, OpenAI's Responses, Google's Gemini.

Stands in for the models of Claude Code, Codex and Gemini CLI, which need accounts and answer differently every time.
`play` sets what the model does, one step for each turn: run a shell command, or say something. A request that offers no
shell tool (titles, summaries) is answered by a word and takes no step. Every request is recorded.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

Document = dict[str, Any]
# The clients' names of the tool that runs a shell command, with the key of the command.
SHELL_TOOLS = {"Bash": "command", "exec_command": "cmd", "shell_command": "command", "run_shell_command": "command"}


class Step(NamedTuple):
    """One turn of the model: a shell command, or text if there is none."""

    command: str = ""
    text: str = "done"


class ModelServer:
    """The server, from its start to `close`."""

    def __init__(self) -> None:
        self.requests: list[Document] = []
        self._steps: list[Step] = []
        self._lock = threading.Lock()
        model = self

        class Handler(_Handler):
            def decide(self, document: Document) -> "tuple[Step, str | None]":
                return model._decide(document)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def play(self, *commands: str) -> None:
        """Have the model run these commands, one in each turn, and then say that it is done.

        An empty command is a turn in which it says so in between.
        """
        with self._lock:
            self.requests.clear()
            self._steps = [Step(command) for command in commands]

    def seen(self) -> str:
        """Everything that the model was told since `play`."""
        with self._lock:
            return json.dumps(self.requests)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _decide(self, document: Document) -> "tuple[Step, str | None]":
        tool = _shell_tool(document)
        with self._lock:
            self.requests.append(document)
            if tool is None or not self._steps:
                return Step(), tool
            return self._steps.pop(0), tool


def _shell_tool(document: Document) -> str | None:
    return next((name for name in _tool_names(document) if name in SHELL_TOOLS), None)


def _tool_names(document: Document) -> Iterator[str]:
    for tool in document.get("tools") or ():
        yield str(tool.get("name"))
        for declared in tool.get("functionDeclarations") or tool.get("tools") or ():
            yield str(declared.get("name"))


class _Handler(BaseHTTPRequestHandler):
    """Requests of all three APIs."""

    protocol_version = "HTTP/1.1"

    def decide(self, document: Document) -> "tuple[Step, str | None]":
        raise NotImplementedError

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._reply(b"")

    def do_GET(self) -> None:
        self._reply(b'{"data":[],"models":[],"object":"list"}')

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            document = json.loads(data or b"{}")
        except ValueError:
            document = {}
        path = self.path.partition("?")[0]
        if path.endswith(("/count_tokens", ":countTokens")):
            self._reply(b'{"input_tokens":1,"totalTokens":1}')
        elif path.endswith("/v1/messages"):
            self._messages(document)
        elif path.endswith("/responses"):
            self._responses(document)
        elif "GenerateContent" in path or ":generateContent" in path:
            self._gemini(document, "stream" in path)
        else:
            self._reply(b"{}")

    def _reply(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, events: "list[tuple[str, Document]]") -> None:
        text = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
        self._reply(text.encode(), "text/event-stream")

    # --- Anthropic

    def _messages(self, document: Document) -> None:
        step, tool = self.decide(document)
        if step.command and tool:
            start: Document = {"type": "tool_use", "id": f"toolu_{id(step):x}", "name": tool, "input": {}}
            given = {SHELL_TOOLS[tool]: step.command, "description": "Run it"}
            delta: Document = {"type": "input_json_delta", "partial_json": json.dumps(given)}
            reason, whole = "tool_use", {**start, "input": given}
        else:
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": step.text}
            reason, whole = "end_turn", {"type": "text", "text": step.text}
        usage = {"input_tokens": 1, "output_tokens": 1}
        message: Document = {"id": "msg_1", "type": "message", "role": "assistant", "model": document.get("model", "m")}
        if not document.get("stream"):
            ending = {"content": [whole], "stop_reason": reason, "stop_sequence": None, "usage": usage}
            self._reply(json.dumps({**message, **ending}).encode())
            return
        opened = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        events: list[Document] = [
            {"type": "message_start", "message": opened},
            {"type": "content_block_start", "index": 0, "content_block": start},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        self._stream([(event["type"], event) for event in events])

    # --- OpenAI

    def _responses(self, document: Document) -> None:
        step, tool = self.decide(document)
        if step.command and tool:
            given = json.dumps({SHELL_TOOLS[tool]: step.command})
            item: Document = {"type": "function_call", "id": "fc_1", "call_id": f"call_{id(step):x}", "name": tool}
            item |= {"arguments": given, "status": "completed"}
        else:
            content = [{"type": "output_text", "text": step.text, "annotations": []}]
            item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content, "status": "completed"}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details}
        opened: Document = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
        closed = {**opened, "status": "completed", "output": [item], "usage": usage}
        events: list[Document] = [
            {"type": "response.created", "response": opened},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": closed},
        ]
        self._stream([(event["type"], event) for event in events])

    # --- Google

    def _gemini(self, document: Document, is_stream: bool) -> None:
        step, tool = self.decide(document)
        if step.command and tool:
            given = {SHELL_TOOLS[tool]: step.command, "description": "Run it"}
            parts: list[Document] = [{"functionCall": {"name": tool, "args": given, "id": f"call_{id(step):x}"}}]
        else:
            parts = [{"text": step.text}]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "fake"}
        if is_stream:
            self._reply(f"data: {json.dumps(answer)}\n\n".encode(), "text/event-stream")
        else:
            self._reply(json.dumps(answer).encode())
