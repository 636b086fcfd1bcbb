"""A fake model on loopback that speaks four APIs: Anthropic's Messages, both of OpenAI's, and Gemini's.

Stands in for the models of coding agents, which need accounts and answer differently every time. `play` and `script`
set what the model does, one step for each turn: run a shell command, write a file, call any tool, say something, stall,
fail. A request that offers no shell tool (titles, summaries) is answered by a word and takes no step. Every request is
recorded.
"""

import contextlib
import itertools
import json
import select
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from support.real import model_dialects
from support.real.model_dialects import Stream, Turn

Document = dict[str, Any]
# The agents' names of the tool that runs a shell command, with the key of the command.
SHELL_TOOLS = {
    "Bash": "command",
    "bash": "command",
    "exec_command": "cmd",
    "shell_command": "command",
    "run_shell_command": "command",
}
# Likewise for the tool that writes a file, with the keys of path and content. Codex takes a patch in its shell.
WRITE_TOOLS = {
    "Write": ("file_path", "content"),
    "write": ("filePath", "content"),
    "write_file": ("file_path", "content"),
}
# How often a stalled answer looks whether it is still wanted.
_LOOK_SECONDS = 0.05


class Step(NamedTuple):
    """One turn of the model: the first of these that is set, or text."""

    # A shell command.
    command: str = ""
    text: str = "done"
    # Path and content of a file.
    write: tuple[str, str] | None = None
    # Name and arguments of any tool. The name is the last part of what the agent calls it: `set_title` finds
    # `mcp__hearth__set_title`.
    call: tuple[str, Document] | None = None
    # An HTTP status instead of an answer: of this turn and all that follow, since agents try again.
    status: int = 0
    # Whether the answer stops after its first word until `release`.
    stalls: bool = False
    # Text of the newest message, if the step waits for that: an agent may go on with a turn that is being cancelled.
    prompt: str = ""


class ModelServer:
    """The server, from its start to `close`."""

    def __init__(self) -> None:
        self.requests: list[Document] = []
        # Set while a stalled answer waits.
        self.stalled = threading.Event()
        # Set once an agent has gone away from a stalled answer.
        self.abandoned = threading.Event()
        self._released = threading.Event()
        self._steps: list[Step] = []
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        model = self

        class Handler(_Handler):
            server_model = model

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
        self.script(*(Step(command) for command in commands))

    def script(self, *steps: Step) -> None:
        """Have the model take these steps, and then say that it is done. What was before is forgotten."""
        with self._lock:
            self.requests.clear()
            self._steps = list(steps)
        for event in (self.stalled, self.abandoned, self._released):
            event.clear()

    def release(self) -> None:
        """Let every stalled answer go on."""
        self._released.set()

    def seen(self) -> str:
        """Everything that the model was told since `play`."""
        with self._lock:
            return json.dumps(self.requests)

    def close(self) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()

    def decide(self, document: Document, model: str) -> tuple[Step, Turn]:
        """Take the next step for a request."""
        tools = list(_tools(document))
        with self._lock:
            self.requests.append(document)
            number = next(self._numbers)
            is_work = any(name in SHELL_TOOLS for name, _ in tools)
            step = self._next_step(document) if is_work else Step()
        return step, _turn(step, tools, number, model)

    def wait(self, is_wanted: Callable[[], bool]) -> bool:
        """Wait for `release`; returns whether the answer is still wanted."""
        self.stalled.set()
        try:
            while not self._released.wait(_LOOK_SECONDS):
                if not is_wanted():
                    self.abandoned.set()
                    return False
            return True
        finally:
            self.stalled.clear()

    def _next_step(self, document: Document) -> Step:
        if not self._steps or self._steps[0].prompt not in _newest(document):
            return Step()
        return self._steps[0] if self._steps[0].status else self._steps.pop(0)


def _turn(step: Step, tools: list[tuple[str, str]], number: int, model: str) -> Turn:
    """What the step is with the tools that this agent has."""
    names = [name for name, _ in tools]
    wanted, arguments = step.call or ("", {})
    if step.write:
        path, text = step.write
        wanted = next((name for name in names if name in WRITE_TOOLS), "")
        if wanted:
            arguments = dict(zip(WRITE_TOOLS[wanted], (path, text), strict=True))
        else:
            lines = "".join(f"+{line}\n" for line in text.splitlines())
            patch = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch"
            step = Step(f"apply_patch <<'EOF'\n{patch}\nEOF")
    if step.command:
        wanted = next(name for name in names if name in SHELL_TOOLS)
        arguments = {SHELL_TOOLS[wanted]: step.command, "description": "Run it"}
        if wanted == "exec_command":
            del arguments["description"]
    if not wanted:
        return Turn(number, step.text, model=model)
    found = next((each for each in tools if each[0] == wanted or each[0].endswith(f"_{wanted}")), None)
    if found is None:
        return Turn(number, f"there is no tool {wanted} among {', '.join(names)}", model=model)
    return Turn(number, "", found[0], arguments, found[1], model)


def _newest(document: Document) -> str:
    """The newest message of a request."""
    messages = document.get("messages") or document.get("contents") or document.get("input") or [""]
    return json.dumps(messages[-1])


def _tools(document: Document) -> Iterator[tuple[str, str]]:
    """Name and group of every tool that a request offers."""
    for tool in document.get("tools") or ():
        yield str((tool.get("function") or tool).get("name")), ""
        for declared in tool.get("functionDeclarations") or ():
            yield str(declared.get("name")), ""
        for declared in tool.get("tools") or ():
            yield str(declared.get("name")), str(tool.get("name"))


class _Handler(BaseHTTPRequestHandler):
    """Requests of all APIs."""

    protocol_version = "HTTP/1.1"
    server_model: ModelServer

    def handle(self) -> None:
        # An agent that is cancelled or killed resets its connections.
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._reply({})

    def do_GET(self) -> None:
        self._reply({"data": [], "models": [], "object": "list"})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            document = json.loads(data or b"{}")
        except ValueError:
            document = {}
        path = self.path.partition("?")[0]
        if path.endswith(("/count_tokens", ":countTokens")):
            self._reply({"input_tokens": 1, "totalTokens": 1})
        elif path.endswith("/v1/messages"):
            whole = None if document.get("stream") else model_dialects.message
            self._answer(document, model_dialects.message_stream, whole)
        elif path.endswith("/responses"):
            self._answer(document, model_dialects.response_stream)
        elif path.endswith("/chat/completions"):
            self._answer(document, model_dialects.completion_stream)
        elif "GenerateContent" in path or ":generateContent" in path:
            whole = None if "stream" in path else model_dialects.content
            self._answer(document, model_dialects.content_stream, whole)
        else:
            self._reply({})

    def _answer(
        self, document: Document, stream: Callable[[Turn], Stream], whole: Callable[[Turn], Document] | None = None
    ) -> None:
        """Answer by a stream or, where there is `whole`, at once."""
        step, turn = self.server_model.decide(document, str(document.get("model", "fake")))
        if step.status:
            self._reply(model_dialects.error(step.status, f"the model fails with {step.status}"), step.status)
        elif whole:
            self._reply(whole(turn))
        else:
            self._stream(*stream(turn).parts(), stalls=step.stalls)

    def _reply(self, document: Document, status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, first: bytes, rest: bytes, *, stalls: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._chunk(first)
        if stalls and not self.server_model.wait(self._is_connected):
            self.close_connection = True
            return
        self._chunk(rest)
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _is_connected(self) -> bool:
        # No client sends a second request before the first one is answered: whatever can be read is the end.
        return not select.select([self.connection], [], [], 0)[0]
