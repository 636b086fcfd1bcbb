"""The five wires that a client may reach Hearth by, with one face: a message goes out, raw messages come back.

A channel gives back the bytes of each message as they were written, without what the wire puts around them: the frame,
the line's end, the event, the status of HTTP.
"""

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from support.clients import Client
from support.conformance.revisions import MODERN, VERSION_KEY
from support.http.clients import HttpClient, Response

Message = dict[str, Any]
# Takes one raw message.
Hear = Callable[[bytes], None]


class Exchange(Protocol):
    """What comes because of one message."""

    def next(self) -> bytes:
        """The next message."""

    def withdraw(self, id: object) -> list[bytes]:
        """Cancel the request as this wire and era have it; what is said about it afterwards, as far as that shows."""


class Channel(Protocol):
    """One client's way to Hearth."""

    def begin(self, line: bytes) -> Exchange:
        """Send a message that something comes back for."""

    def tell(self, line: bytes) -> None:
        """Send a message that nothing comes back for."""

    def listen(self, line: bytes | None, hear: Hear) -> None:
        """Have what comes by itself, where that has a stream of its own; a modern client asks for it with a request."""


def cancellation(id: object) -> bytes:
    """What withdraws a request, where a notification does."""
    params = {"requestId": id, "reason": "enough"}
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode()


class Lined:
    """Frames, lines, stdio: everything that comes, comes in one stream."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def begin(self, line: bytes) -> "Lined":
        self.tell(line)
        return self

    def tell(self, line: bytes) -> None:
        self._client.send_line(line)

    def listen(self, line: bytes | None, hear: Hear) -> None:
        if line is not None:
            self.tell(line)

    def next(self) -> bytes:
        return self._client.receive_line()

    def withdraw(self, id: object) -> list[bytes]:
        # Whatever came afterwards would be taken for the next request's.
        self.tell(cancellation(id))
        return []


class Http:
    """A POST for each message; the answer is a body, or the events of a stream."""

    def __init__(self, client: HttpClient, is_modern: bool) -> None:
        self.client = client
        self.is_modern = is_modern

    def begin(self, line: bytes) -> "Posted":
        response = self.client.request("POST", line, self._headers(line))
        id = response.headers.get("mcp-session-id")
        if id:
            self.client.headers["Mcp-Session-Id"] = id
        return Posted(self, response)

    def tell(self, line: bytes) -> None:
        response = self.client.request("POST", line, self._headers(line))
        assert (response.status, response.text()) == (202, "")

    def listen(self, line: bytes | None, hear: Hear) -> None:
        response = (
            self.client.request("GET") if line is None else self.client.request("POST", line, self._headers(line))
        )
        assert response.is_stream, response.text()
        threading.Thread(target=lambda: _pass_on(response, hear), daemon=True).start()

    def _headers(self, line: bytes) -> dict[str, str]:
        """What a client of the modern era says again in headers, as far as the message has it."""
        if not self.is_modern:
            return {}
        try:
            message = json.loads(line)
            params = message.get("params", {})
            version = params.get("_meta", {}).get(VERSION_KEY, MODERN)
        except (ValueError, AttributeError):
            return {"MCP-Protocol-Version": MODERN}
        given = {"MCP-Protocol-Version": version, "Mcp-Method": message.get("method")}
        given["Mcp-Name"] = params.get("uri") if message.get("method") == "resources/read" else params.get("name")
        return {name: value for name, value in given.items() if isinstance(value, str)}


class Posted:
    """One POST."""

    def __init__(self, channel: Http, response: Response) -> None:
        self._channel = channel
        self._response = response
        self._messages = _messages(response)

    def next(self) -> bytes:
        found = next(self._messages, None)
        assert found is not None, f"the answer ended early, with status {self._response.status}"
        return found

    def withdraw(self, id: object) -> list[bytes]:
        if self._channel.is_modern:
            self._response.break_off()
            return []
        self._channel.tell(cancellation(id))
        return list(self._messages)


def _messages(response: Response) -> Iterator[bytes]:
    if not response.is_stream:
        body = response.text()
        if body:
            yield body.encode()
        return
    # At its end there is nothing, and not even a line's end.
    while line := response.raw_line():
        name, _, value = line.rstrip(b"\n").partition(b": ")
        if name == b"data" and value:
            yield value


def _pass_on(response: Response, hear: Hear) -> None:
    try:
        for raw in _messages(response):
            hear(raw)
    except (OSError, ValueError, AttributeError):
        # The test is over, and has closed it under our feet.
        pass
