"""A small client of the Agent Client Protocol over JSON lines, which shares no code with Hearth's own."""

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from support.kernel import until

Document = dict[str, Any]
Found = TypeVar("Found")
# A start of node with a large bundle, or of a binary of 350 MB that is not in the cache; two busy cores.
ANSWER_SECONDS = 90.0
# Kinds of session/update that bring a piece of a text.
_CHUNKS = {"agent_message_chunk": "agent", "user_message_chunk": "user", "agent_thought_chunk": "thought"}


class AcpError(Exception):
    """Answer of an agent that is an error."""

    def __init__(self, error: Document) -> None:
        super().__init__(json.dumps(error))
        self.error = error


class AcpClient:
    """An agent's process, from its start to `close`. Requests for permission wait until they are answered."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], folder: str) -> None:
        self.process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.updates: list[Document] = []
        self.asked: list[Document] = []
        # Methods that the agent called and that this client does not have.
        self.refused: list[str] = []
        self.stderr = b""
        self._answers: dict[int, Document] = {}
        self._next = 0
        self._readers = [threading.Thread(target=each, daemon=True) for each in (self._read, self._read_stderr)]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, method: str, **params: object) -> int:
        """Send a request; `answer` waits for it."""
        self._next += 1
        self._write({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self._next

    def tell(self, method: str, **params: object) -> None:
        """Send a notification."""
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, number: int) -> Document:
        """The result of a request; an error is raised."""
        message = self.until(lambda: self._answers.get(number), f"the answer to request {number}")
        if "error" in message:
            raise AcpError(message["error"])
        result: Document = message["result"] or {}
        return result

    def call(self, method: str, **params: object) -> Document:
        return self.answer(self.send(method, **params))

    def is_answered(self, number: int) -> bool:
        return number in self._answers

    def next_question(self) -> Document:
        """The oldest request for permission that is not answered yet."""
        return self.until(lambda: self.asked[0] if self.asked else None, "a request for permission")

    def reply(self, question: Document, result: Document) -> None:
        self.asked.remove(question)
        self._write({"jsonrpc": "2.0", "id": question["id"], "result": result})

    def choose(self, kind: str) -> Document:
        """Answer the next permission request by the option of that kind; returns the request."""
        question = self.next_question()
        option = next(each for each in question["params"]["options"] if each["kind"] == kind)
        self.reply(question, {"outcome": {"outcome": "selected", "optionId": option["optionId"]}})
        return question

    def text(self, whose: str = "agent") -> str:
        """All that was said so far by the agent or, when a session is loaded, by the user."""
        chunks = [each for each in self.updates if _CHUNKS.get(each["sessionUpdate"]) == whose]
        return "".join(each["content"].get("text", "") for each in chunks)

    def until(self, condition: Callable[[], Found], what: str) -> Found:
        def found() -> Found:
            value = condition()
            assert value or self.process.poll() is None, f"the agent has ended: {self.stderr[-4000:]!r}"
            return value

        try:
            return until(found, what, ANSWER_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}; stderr: {self.stderr[-4000:]!r}; updates: {self.updates[-5:]}") from error

    def end_input(self) -> None:
        """Close the agent's input."""
        assert self.process.stdin
        self.process.stdin.close()

    def close(self) -> None:
        """Kill the process and its group; processes in other groups are the test's own business."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(OSError):
            self.end_input()
        # The readers end with their pipes, once no process of the agent has those.
        for reader, pipe in zip(self._readers, (self.process.stdout, self.process.stderr), strict=True):
            reader.join(ANSWER_SECONDS)
            assert pipe and not reader.is_alive(), "a process of the agent still has its output"
            pipe.close()

    def _write(self, message: Document) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                self._answers[message["id"]] = message
            elif message["method"] == "session/request_permission":
                self.asked.append(message)
            elif "id" in message:
                self.refused.append(message["method"])
                error = {"code": -32601, "message": f"there is no method {message['method']}"}
                self._write({"jsonrpc": "2.0", "id": message["id"], "error": error})
            elif message["method"] == "session/update":
                self.updates.append(message["params"]["update"])

    def _read_stderr(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.stderr += line
