"""One request as the fixture's tools and prompts see it, what they say, and what they ask."""

import base64
import hmac
import json
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fixture_server import Server

Message = dict[str, Any]

META = "io.modelcontextprotocol/"
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
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
    return json.loads(base64.urlsafe_b64decode(body))


def field(answer: Message, name: str) -> str:
    """What a person wrote into a form. Raises Failed for an answer that is none."""
    content = answer.get("content")
    if answer.get("action") != "accept" or not isinstance(content, dict) or not isinstance(content.get(name), str):
        raise NeedsInput({}, None)
    return content[name]
