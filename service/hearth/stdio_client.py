"""Minimal conversation in MCP with a child process over its pipes: messages out, messages in.

The child may be a bridge or a server: to a client they are the same. Blocking; a thread records each message with its
time of arrival. Knows JSON-RPC, and nothing of methods, eras or Hearth.
"""

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hearth.errors import HearthError

LEAVE_SECONDS = 10.0
if sys.platform == "win32":
    _OWN_GROUP = subprocess.CREATE_NEW_PROCESS_GROUP
else:
    _OWN_GROUP = 0

Message = dict[str, Any]


class ClientError(HearthError):
    """Error for a child that misbehaved; the sentence says which child, and how."""


class Conversation:
    """Conversation with one child process. `name` is its name in sentences."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._ids = 0
        self._arrived: queue.SimpleQueue[tuple[float, Message] | None] = queue.SimpleQueue()
        self.started = time.monotonic()
        # A session, or on Windows a group, of its own: Ctrl-C at the terminal reaches only this process, which then
        # stops the child itself.
        self.process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            creationflags=_OWN_GROUP,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def send_request(self, method: str, params: Message) -> int:
        """Send a request; return its id. Raises ClientError."""
        self._ids += 1
        self.send({"id": self._ids, "method": method, "params": params})
        return self._ids

    def send(self, message: Message) -> None:
        """Send a message. Raises ClientError."""
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as exc:
            raise ClientError(f"{self.name} cannot write to its process: {exc.strerror}") from exc

    def receive(self, seconds: float) -> tuple[float, Message] | None:
        """Return the next message with its time; None if none arrives in time. Raises ClientError at the end."""
        try:
            arrived = self._arrived.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        if arrived is None:
            # The next call has to see the end again.
            self._arrived.put(None)
            raise ClientError(f"{self.name} lost its process")
        return arrived

    def hang_up(self) -> None:
        """End the conversation as clients do, by closing the child's input."""
        assert self.process.stdin
        try:
            self.process.stdin.close()
        except OSError:
            # The child has exited already.
            pass

    def leave(self) -> int:
        """Hang up, and wait until the child exits; return its exit code. Raises ClientError."""
        self.hang_up()
        try:
            return self.process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired as exc:
            raise ClientError(f"{self.name} is still there {LEAVE_SECONDS:g} s after its input ended") from exc

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                try:
                    message = json.loads(line)
                except ValueError:
                    # Some servers print lines that are no messages; clients skip them.
                    continue
                if isinstance(message, dict):
                    self._arrived.put((time.monotonic(), message))
        self._arrived.put(None)
