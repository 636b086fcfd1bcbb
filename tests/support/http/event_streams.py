"""Many streams of events from one daemon, read by one loop: raw sockets, each of which may also be left unread.

A watcher of each kind waits for what the board of `upstreams/bulletin_server.py` has; it notes the numbers that it is
told, in the order in which they come.
"""

import json
import re
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import closing

from hearth.mcp import versions
from support.daemon import Scratch
from support.http.clients import BOTH, Connection, Message
from support.kernel import BOUND_SECONDS

BOARD = "test://board"
SERVER = "/mcp/bulletin"
_HELLO = {"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
_META = {versions.PROTOCOL_VERSION_KEY: versions.NEWEST_MODERN, versions.CLIENT_CAPABILITIES_KEY: {}}
_MODERN = {"Accept": BOTH, "Content-Type": "application/json", "MCP-Protocol-Version": versions.NEWEST_MODERN}
_NUMBER = re.compile(rb'"number": ?(\d+)')


class Watcher:
    """One stream. What came is kept only as far as its last line."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(BOUND_SECONDS)
        self.socket.connect(scratch.socket)
        self.numbers: list[int] = []
        self._rest = b""
        scratch.own(self)

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Begin the stream."""
        lines = [f"{name}: {value}" for name, value in {"Host": "localhost", **headers}.items()]
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""])
        self.socket.sendall(head.encode() + body)

    def read(self) -> bytes:
        """What has come, of which the numbers are noted."""
        data = self.socket.recv(1 << 20)
        assert data, "the stream has ended"
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.numbers += [
            int(found[1]) for line in lines if line.startswith(b"data: ") and (found := _NUMBER.search(line))
        ]
        return data

    def read_until(self, mark: bytes) -> bytes:
        """Everything up to a mark."""
        data = b""
        while mark not in data:
            data += self.read()
        return data

    def close(self) -> None:
        """Leave."""
        self.socket.close()


def _message(method: str, params: Message, id: object = None) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
    ).encode()


def got(scratch: Scratch) -> Watcher:
    """A stream of a legacy session, by GET."""
    headers = {"Accept": BOTH, "Content-Type": "application/json"}
    with closing(Connection(scratch.socket)) as connection:
        for method, params, id in (
            ("initialize", {"protocolVersion": versions.NEWEST_LEGACY, **_HELLO}, 0),
            ("notifications/initialized", {}, None),
            ("resources/subscribe", {"uri": BOARD}, 1),
        ):
            connection.request("POST", SERVER, _message(method, params, id), headers)
            answer = connection.getresponse()
            headers["Mcp-Session-Id"] = answer.headers.get("Mcp-Session-Id") or headers["Mcp-Session-Id"]
            assert answer.status in (200, 202) and b'"error"' not in answer.read()
    watcher = Watcher(scratch)
    watcher.ask("GET", SERVER, headers)
    # The first event tells where it could be resumed.
    watcher.read_until(b"retry:")
    return watcher


def listening(scratch: Scratch) -> Watcher:
    """A modern stream; all use the same id."""
    method = "subscriptions/listen"
    params = {"notifications": {"resourceSubscriptions": [BOARD]}, "_meta": _META}
    watcher = Watcher(scratch)
    watcher.ask("POST", SERVER, {**_MODERN, "Mcp-Method": method}, _message(method, params, 7))
    watcher.read_until(b"acknowledged")
    return watcher


class OldWatcher(Watcher):
    """A stream of the oldest revision, on which its own answers come as well."""

    def __init__(self, scratch: Scratch) -> None:
        super().__init__(scratch)
        self.ask("GET", "/sse", {})
        found = re.search(rb"data: (/messages\S+)", self.read_until(b"/messages"))
        assert found is not None
        self._path = found[1].decode()
        self.post("initialize", {"protocolVersion": "2024-11-05", **_HELLO}, 0)
        self.read_until(b'"id":0')
        self.post("notifications/initialized", {})
        self.post("resources/subscribe", {"uri": BOARD}, 1)
        self.read_until(b'"id":1')

    def post(self, method: str, params: Message, id: object = None) -> None:
        """Send a message; its answer comes on the stream."""
        with closing(Connection(self._scratch.socket)) as connection:
            connection.request("POST", self._path, _message(method, params, id), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 202, answer.read()


class Pinner:
    """Has everybody told numbers, over one connection."""

    def __init__(self, scratch: Scratch) -> None:
        self._connection = Connection(scratch.socket)
        self._number = 0

    def pin(self, ballast: int = 0) -> int:
        """The next number, with so much that nobody needs."""
        self._number += 1
        call = {"name": "pin", "arguments": {"number": self._number, "bytes": ballast}, "_meta": _META}
        headers = {**_MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "pin"}
        self._connection.request("POST", SERVER, _message("tools/call", call, self._number), headers)
        answer = self._connection.getresponse()
        assert answer.status == 200 and b'"result"' in answer.read()
        return self._number

    def close(self) -> None:
        """Have nothing more to tell."""
        self._connection.close()


class Audience:
    """Watchers whose streams are read whenever there is something."""

    def __init__(self, scratch: Scratch, *kinds: Callable[[Scratch], Watcher], count: int) -> None:
        scratch.own(self)
        self.watchers: list[Watcher] = []
        self._selector = selectors.DefaultSelector()
        for number in range(count):
            watcher = kinds[number % len(kinds)](scratch)
            self.watchers.append(watcher)
            self._selector.register(watcher.socket, selectors.EVENT_READ, watcher)

    def all_told(self, number: int) -> None:
        """Return when each of them was told that number; the test fails when that does not come."""
        deadline = time.monotonic() + BOUND_SECONDS
        missing = {watcher for watcher in self.watchers if watcher.numbers[-1:] != [number]}
        while missing:
            assert time.monotonic() < deadline, f"{len(missing)} streams were not told {number}"
            for key, _ in self._selector.select(0.1):
                key.data.read()
                if key.data.numbers[-1:] == [number]:
                    missing.discard(key.data)

    def close(self) -> None:
        """Go, all at once."""
        for watcher in self.watchers:
            watcher.close()
        self._selector.close()
