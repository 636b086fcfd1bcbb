"""One client on each wire, asked to do the same: a request, a call that it does not wait for, a notification."""

import json
from collections.abc import Callable
from typing import Protocol

from support.clients import Client, Message
from support.daemon import Scratch
from support.http.clients import BOTH, Connection, HttpClient, LegacyHttp, ModernHttp, Response, bearer, port_of


class Speaker(Protocol):
    """A client with an open session, on some wire."""

    def ask(self, id: int, method: str, params: Message) -> Message:
        """The answer to a request."""

    def begin(self, id: int, tool: str, **arguments: object) -> None:
        """Call a tool, and do not wait."""

    def notify(self, method: str, params: Message) -> None: ...

    def leave(self) -> None: ...


class OnSocket:
    """Lines, or frames."""

    def __init__(self, client: Client) -> None:
        self.client = client
        client.initialize()

    def ask(self, id: int, method: str, params: Message) -> Message:
        return self.client.ask(method, params, id)

    def begin(self, id: int, tool: str, **arguments: object) -> None:
        self.client.begin_call(tool, id, None, **arguments)

    def notify(self, method: str, params: Message) -> None:
        self.client.notify(method, params)

    def leave(self) -> None:
        self.client.close()


class OverHttp:
    """A legacy session, or a modern client with a name."""

    def __init__(self, client: HttpClient, address: str | tuple[str, int]) -> None:
        self.client = client
        self._address = address
        self._begun: list[Connection] = []
        if isinstance(client, LegacyHttp):
            client.open()

    def ask(self, id: int, method: str, params: Message) -> Message:
        assert isinstance(self.client, LegacyHttp | ModernHttp)
        return one(self.client.post(method, params, id), id)

    def begin(self, id: int, tool: str, **arguments: object) -> None:
        connection = Connection(self._address)
        self._begun.append(connection)
        message: Message = {"jsonrpc": "2.0", "id": id, "method": "tools/call"}
        message["params"] = {"name": tool, "arguments": arguments}
        headers = {"Accept": BOTH, "Content-Type": "application/json", **self.client.headers}
        if isinstance(self.client, ModernHttp):
            name = "io.modelcontextprotocol/"
            message["params"]["_meta"] = {f"{name}protocolVersion": "2026-07-28", f"{name}clientCapabilities": {}}
            headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
        connection.request("POST", "/mcp", json.dumps(message).encode(), headers)

    def notify(self, method: str, params: Message) -> None:
        if isinstance(self.client, ModernHttp):
            # There is no such notification here: closing the stream is the cancellation.
            self._begun.pop(0).close()
        else:
            assert self.client.request("POST", {"jsonrpc": "2.0", "method": method, "params": params}).status == 202

    def leave(self) -> None:
        if isinstance(self.client, LegacyHttp):
            assert self.client.request("DELETE").status == 204
        for connection in self._begun:
            connection.close()


def one(got: Response, id: object) -> Message:
    """The answer, of which status and headers say the same as its body."""
    [message] = got.messages()
    reason = message.get("error", {}).get("data", {}).get("reason")
    assert (got.status == 429) == (reason is not None)
    if got.status == 429:
        wait = message["error"]["data"]["retryAfterSeconds"]
        assert got.headers["retry-after"] == str(wait)
        assert reason == "in_flight_limit" or message["error"]["message"].endswith(f"send it again in {wait} s")
        assert got.headers["content-type"] == "application/json"
    assert message["id"] == id
    return message


Make = Callable[[Scratch, str], Speaker]


def _over_tcp(scratch: Scratch, kind: type[HttpClient], name: str) -> Speaker:
    client = kind(scratch, address=port_of(scratch))
    client.headers |= {**bearer(scratch), "X-Hearth-Agent": name}
    return OverHttp(client, port_of(scratch))


def _on_socket(scratch: Scratch, kind: type[HttpClient], name: str) -> Speaker:
    client = kind(scratch)
    client.headers["X-Hearth-Agent"] = name
    return OverHttp(client, scratch.socket)


WIRES: dict[str, Make] = {
    "lines": lambda scratch, name: OnSocket(scratch.lines()),
    "frames": lambda scratch, name: OnSocket(scratch.frames()),
    "http legacy": lambda scratch, name: _on_socket(scratch, LegacyHttp, name),
    "http modern": lambda scratch, name: _on_socket(scratch, ModernHttp, name),
    "tcp legacy": lambda scratch, name: _over_tcp(scratch, LegacyHttp, name),
    "tcp modern": lambda scratch, name: _over_tcp(scratch, ModernHttp, name),
}
