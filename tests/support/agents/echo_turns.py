"""Turns of the agent for tests (`echo_agent.py`): what each command of a prompt does.

Every public method of `Commands` is a command; its argument is the rest of the line. Standard library only.
"""

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time

# Longer than any test's own limit.
LIFETIME_SECONDS = 600
POLL_SECONDS = 0.02
POURS_PER_SECOND = 100
TOOLS = {
    "execute": ("Bash", {"command": "git push origin main"}),
    "edit": ("Edit", {"file_path": "/tmp/x.py", "old_string": "a", "new_string": "b"}),
    "read": ("Read", {"file_path": "/etc/hosts"}),
    "fetch": ("WebFetch", {"url": "https://example.org/"}),
    "switch_mode": ("ExitPlanMode", {"plan": "1. do it"}),
}
ALWAYS = {"optionId": "allow_always", "name": "Yes, and do not ask again", "kind": "allow_always"}
OPTIONS = [
    {"optionId": "allow", "name": "Yes", "kind": "allow_once"},
    ALWAYS,
    {"optionId": "reject", "name": "No", "kind": "reject_once"},
]


class Refusal(Exception):
    """An error for the client: its code, message and data."""


class Cancelled(Exception):
    """The turn was cancelled."""


class McpServer:
    """An MCP server over stdio, as `session/new` names it."""

    def __init__(self, entry):
        environment = os.environ | {each["name"]: each["value"] for each in entry["env"]}
        command = [entry["command"], *entry["args"]]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, env=environment, text=True, **pipes)
        self._lines = queue.Queue()
        self._ids = itertools.count(1)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def _send(self, **message):
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def ask(self, turn, method, params):
        id = next(self._ids)
        self._send(id=id, method=method, params=params)
        while True:
            try:
                message = turn.next_of(self._lines)
            except Cancelled:
                self._send(method="notifications/cancelled", params={"requestId": id})
                raise
            if message is None:
                raise Refusal(-32603, "the MCP server ended", None)
            if "method" not in message and message.get("id") == id:
                return message
            if "method" in message and "id" in message:
                self._send(id=message["id"], error={"code": -32601, "message": "Method not found"})

    def open(self, turn):
        info = {"name": "echo-agent", "version": "1"}
        self.ask(turn, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        self._send(method="notifications/initialized")


class Turn:
    """One prompt."""

    def __init__(self, agent, session, id):
        self.agent, self.session, self.id = agent, session, id
        self.cancelled = threading.Event()
        self.said = ""
        self.stop_reason = "end_turn"
        self.calls = itertools.count(1)

    def next_of(self, items):
        """Return the next item of a queue, unless the turn is cancelled meanwhile."""
        while True:
            if self.cancelled.is_set():
                raise Cancelled
            try:
                return items.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue

    def update(self, kind, /, **members):
        params = {"sessionId": self.session.id, "update": {"sessionUpdate": kind, **members}}
        self.agent.client.send(method="session/update", params=params)

    def tool_call(self, kind):
        name, arguments = TOOLS.get(kind, (kind, {}))
        title = arguments.get("command", name)
        id = f"call-{self.id}-{next(self.calls)}"
        return {
            "toolCallId": id,
            "name": name,
            "title": title,
            "kind": kind,
            "status": "pending",
            "rawInput": arguments,
        }


class Commands(Turn):
    """The commands of prompts."""

    def say(self, text, kind="agent_message_chunk"):
        self.said += text if kind == "agent_message_chunk" else ""
        self.update(kind, content={"type": "text", "text": text}, messageId=f"m{self.id}")

    def think(self, text):
        self.say(text, "agent_thought_chunk")

    def stream(self, count):
        for number in range(int(count)):
            self.say(f"{number} ")

    def flood(self, count):
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
        line = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": self.session.id, "update": chunk}}
        for done in range(0, int(count), 1000):
            self.agent.client.write((json.dumps(line) + "\n") * min(1000, int(count) - done))

    def ask(self, kind, options=OPTIONS, count=1):
        asked = []
        for _ in range(count):
            call = self.tool_call(kind or "execute")
            self.update("tool_call", **call)
            params = {"sessionId": self.session.id, "toolCall": call, "options": options}
            asked.append(self.agent.client.ask("session/request_permission", params))
        if count > 1:
            self.think("all were asked")
        # A cancelled turn still gets its answers: they say how the client cancelled.
        answers = [answers.get(timeout=LIFETIME_SECONDS) for _, answers in asked]
        self.say("; ".join(map(described, answers)))

    def ask_always(self, kind):
        self.ask(kind, [ALWAYS])

    def ask_many(self, count):
        self.ask("execute", count=int(count))

    def ask_withdrawn(self, kind):
        params = {"sessionId": self.session.id, "toolCall": self.tool_call(kind or "execute"), "options": OPTIONS}
        id, answers = self.agent.client.ask("session/request_permission", params)
        self.agent.client.send(method="$/cancel_request", params={"requestId": id})
        self.say(described(answers.get(timeout=LIFETIME_SECONDS)))

    def request(self, method):
        _, answers = self.agent.client.ask(method, {"sessionId": self.session.id})
        self.say(described(self.next_of(answers)))

    def sleep(self, seconds):
        if self.cancelled.wait(float(seconds or LIFETIME_SECONDS)):
            raise Cancelled

    def exit(self, code):
        sys.stderr.write(f"echo_agent: the model is gone\necho_agent: exit with {code}\n")
        sys.stderr.flush()
        os._exit(int(code or 0))

    def garbage(self, _):
        self.agent.client.write('update available!\n\n{"jsonrpc":"2.0"}\n[1, 2\n]\nnull\n{"jsonrpc": "1.0", "id": 1}\n')
        for update in (None, 7, {}, {"sessionUpdate": 1}, {"sessionUpdate": "agent_message_chunk", "content": "x"}):
            self.agent.client.send(method="session/update", params={"sessionId": self.session.id, "update": update})
        self.agent.client.send(method="session/update", params=[1])
        self.update("tool_call", toolCallId=5)
        self.update("tool_call", toolCallId="odd", title=5, status=[], content="x", locations=[1, {"path": "/a"}])
        self.agent.client.send(id=77, method="session/request_permission", params={"options": 3})

    def twice(self, _):
        self.agent.client.send(id=self.id, result={"stopReason": "end_turn"})
        for id in (0, 9999, "x", None):
            self.agent.client.send(id=id, result={"stopReason": "refusal"})

    def mode(self, wanted):
        if wanted:
            self.session.mode = wanted
            self.update("current_mode_update", currentModeId=wanted)
        else:
            self.say(self.session.mode)

    def model(self, _):
        self.say(self.session.model)

    def fail(self, text):
        raise Refusal(-32603, "Internal error", {"details": text or "the model is overloaded"})

    def stop(self, reason):
        self.stop_reason = reason

    def plan(self, _):
        entries = [("read the code", "completed"), ("write the test", "in_progress"), ("fix the bug", "pending")]
        items = [{"content": text, "priority": "medium", "status": status} for text, status in entries]
        self.update("plan", entries=items)

    def tool(self, kind):
        call = self.tool_call(kind or "execute")
        self.update("tool_call", **call)
        output = [{"type": "content", "content": {"type": "text", "text": "done"}}]
        self.update("tool_call_update", toolCallId=call["toolCallId"], status="completed", content=output)

    def usage(self, _):
        self.update("usage_update", used=53000, size=200000, cost={"amount": 0.045, "currency": "USD"})

    def compact(self, _):
        self.update("compaction_update", compactionId="c1", status="in_progress")
        self.update("compaction_update", compactionId="c1", status="completed")

    def notice(self, text):
        self.update("notice", severity="warning", title=text or "rate limit near")

    def title(self, text):
        self.update("session_info_update", title=text)

    def env(self, name):
        self.say(os.environ.get(name, f"no {name}"))

    def cwd(self, _):
        self.say(self.session.cwd)

    def pid(self, _):
        self.say(str(os.getpid()))

    def grandchild(self, _):
        self.say(str(self.agent.grandchild.pid))

    def detach(self, _):
        """Start a process as a shell tool does: in a session of its own, where no signal to the agent's group comes."""
        command = ["sleep", str(LIFETIME_SECONDS)]
        self.say(str(subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL).pid))

    def pour(self, rest):
        """Send so many updates a second, in portions, until the turn is cancelled.

        A second word names a file for their count and the seconds that they took.
        """
        rate, _, file = rest.partition(" ")
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
        line = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": self.session.id, "update": chunk}}
        portion = (json.dumps(line) + "\n") * (int(rate) // POURS_PER_SECOND)
        begun, portions = time.monotonic(), 0
        while not self.cancelled.wait(begun + portions / POURS_PER_SECOND - time.monotonic()):
            self.agent.client.write(portion)
            portions += 1
        if file:
            with open(file, "w", encoding="utf-8") as counted:
                counted.write(f"{portions * (int(rate) // POURS_PER_SECOND)} {time.monotonic() - begun}")

    def shell(self, command):
        """Run a command as its own tools would, in a session of its own."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, check=False, shell=True, start_new_session=True, text=True, **pipes)
        self.say(done.stdout)

    def huge(self, size):
        self.say("x" * int(size))

    def mcp(self, rest):
        tool, _, arguments = rest.partition(" ")
        if self.session.server is None:
            self.session.server = McpServer(next(each for each in self.session.entries if "command" in each))
            self.session.server.open(self)
        params = {"name": tool, "arguments": json.loads(arguments or "{}")}
        answer = self.session.server.ask(self, "tools/call", params)
        result = answer.get("result") or {}
        texts = [block["text"] for block in result.get("content", ()) if block.get("type") == "text"]
        if "error" in answer:
            texts = [f"error: {answer['error']['message']}"]
        self.say("\n".join(texts) or json.dumps(result.get("structuredContent")))


COMMANDS = {name.replace("_", "-"): method for name, method in vars(Commands).items() if not name.startswith("_")}


def described(answer):
    """An answer of the client in words: `selected allow`, `cancelled`, `error -32601`."""
    if "error" in answer:
        return f"error {answer['error']['code']}"
    outcome = answer["result"].get("outcome", {})
    return f"{outcome.get('outcome')} {outcome.get('optionId', '')}".strip()
