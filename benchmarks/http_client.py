"""Clients that speak HTTP and add as little as they can: raw sockets, requests that were made before the clock starts,
and no more looked at in an answer than where it ends.

One of them asks one thing after another; a crowd is many of them in one loop. They do not know what is behind the
address.
"""

import json
import select
import socket
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

from client import ANSWER_SECONDS, CHUNK_BYTES, ENVELOPE, INITIALIZE, ChainError, call, checked, request

Address = str | tuple[str, int]

LEGACY, MODERN = INITIALIZE["protocolVersion"], "2026-07-28"
# The end of a body that is sent in chunks.
LAST_CHUNK = b"\r\n0\r\n\r\n"


class HttpClient:
    """One connection that is kept, and a session on it where the era has one."""

    def __init__(self, address: Address, headers: Mapping[str, str], modern: bool = False) -> None:
        self._address = address
        self._headers = {"Accept": "application/json, text/event-stream", **headers}
        self._modern = modern
        self.socket = connected(address)

    def open(self) -> None:
        """Shake hands; where that is not done, ask something: a connection that says nothing is not kept for long."""
        if self._modern:
            self.tools()
            return
        head, _ = self.exchange(self.post(request(0, "initialize", INITIALIZE)))
        found = [line for line in head.split(b"\r\n") if line.lower().startswith(b"mcp-session-id:")]
        if found:
            self._headers["Mcp-Session-Id"] = found[0].partition(b":")[2].strip().decode()
        self._headers["MCP-Protocol-Version"] = str(LEGACY)
        self.exchange(self.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}'))

    def post(self, body: bytes, **more: str) -> bytes:
        """A message, as the bytes of a request."""
        fields = {"Host": "localhost", "Content-Type": "application/json", **self._headers, **more}
        lines = [f"{name}: {value}" for name, value in [*fields.items(), ("Content-Length", str(len(body)))]]
        return "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode() + body

    def call(self, key: int, tool: str) -> bytes:
        """A tools/call, as the bytes of a request."""
        more = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": tool} if self._modern else {}
        return self.post(call(key, tool, self._modern).rstrip(), **more)

    def tools(self) -> list[str]:
        """The names of what can be called; not for the clock."""
        more = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"} if self._modern else {}
        params: dict[str, Any] = {"_meta": ENVELOPE} if self._modern else {}
        answer = answer_of(*self.exchange(self.post(request(1, "tools/list", params).rstrip(), **more)))
        return [tool["name"] for tool in answer["result"]["tools"]]

    def send(self, data: bytes) -> None:
        """A request."""
        self.socket.sendall(data)

    def exchange(self, data: bytes) -> tuple[bytes, bytes]:
        """Send a request and read its answer."""
        self.send(data)
        return self.receive()

    def refresh(self, tool: str) -> None:
        """Connect again where the server has closed a connection that was quiet for some seconds, as most do."""
        if select.select([self.socket], [], [], 0)[0]:
            self.socket.close()
            self.socket = connected(self._address)
        self.exchange(self.call(0, tool))

    def receive(self) -> tuple[bytes, bytes]:
        """An answer to its last byte: its head and its body."""
        received = b""
        while not is_whole(received):
            received += self.read()
        head, _, body = received.partition(b"\r\n\r\n")
        return head, body

    def read(self) -> bytes:
        """Some of an answer."""
        data = self.socket.recv(CHUNK_BYTES)
        if not data:
            raise ChainError("the server went away before it had answered")
        return data

    def median_call_us(self, tool: str, calls: int) -> float:
        """The median time of one call after another, in microseconds."""
        self.refresh(tool)
        requests = [self.call(key, tool) for key in range(1, calls + 1)]
        times, answers = [], []
        for data in requests:
            begin = perf_counter_ns()
            answers.append(self.exchange(data))
            times.append(perf_counter_ns() - begin)
        check_answers(answers, set(range(1, calls + 1)))
        return sorted(times)[calls // 2] / 1e3

    def close(self) -> None:
        """Leave without a word, as most clients do."""
        self.socket.close()


class Crowd:
    """Clients that ask at the same time, each one thing after another."""

    def __init__(self, clients: list[HttpClient]) -> None:
        self._members = clients
        self._clients: dict[int, HttpClient] = {}

    def calls_per_second(self, tool: str, calls: int) -> float:
        """The rate at which so many calls of each are answered."""
        for client in self._members:
            client.refresh(tool)
        self._clients = {client.socket.fileno(): client for client in self._members}
        keys = iter(range(1, calls * len(self._clients) + 1))
        # No two clients use the same id: not every server keeps them apart.
        waiting = {
            number: [client.call(next(keys), tool) for _ in range(calls)] for number, client in self._clients.items()
        }
        begin = perf_counter_ns()
        answers = self._pump(waiting)
        seconds = (perf_counter_ns() - begin) / 1e9
        total = calls * len(self._clients)
        check_answers([(head, body) for head, _, body in answers], set(range(1, total + 1)))
        return total / seconds

    def _pump(self, waiting: dict[int, list[bytes]]) -> list[tuple[bytes, bytes, bytes]]:
        poll, answers, received = select.poll(), [], dict.fromkeys(waiting, b"")
        for number, requests in waiting.items():
            poll.register(number, select.POLLIN)
            self._clients[number].socket.sendall(requests.pop())
        left = len(waiting)
        while left:
            ready = poll.poll(ANSWER_SECONDS * 1000)
            if not ready:
                raise ChainError(f"{left} clients were not answered within {ANSWER_SECONDS:g} s")
            for number, _ in ready:
                client = self._clients[number]
                received[number] += client.read()
                if is_whole(received[number]):
                    answers.append(received[number].partition(b"\r\n\r\n"))
                    received[number] = b""
                    if waiting[number]:
                        client.socket.sendall(waiting[number].pop())
                    else:
                        left -= 1
        return answers


def connected(address: Address) -> socket.socket:
    """A connection, over TCP or a Unix socket."""
    if isinstance(address, str):
        found = socket.socket(socket.AF_UNIX)
        found.settimeout(ANSWER_SECONDS)
        found.connect(address)
        return found
    found = socket.create_connection(address, ANSWER_SECONDS)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def is_whole(data: bytes) -> bool:
    """Whether a response has come to its end."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = data[:end].lower()
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        return data.endswith(LAST_CHUNK) or b"\r\ntransfer-encoding: chunked" not in head
    return len(data) - end - 4 >= int(head[at + 17 :].partition(b"\r\n")[0])


def answer_of(head: bytes, body: bytes) -> dict[str, Any]:
    """The answer in a response: JSON, or the last event's data."""
    status = head.partition(b"\r\n")[0]
    if b" 200 " not in status:
        raise ChainError(f"instead of an answer: {status.decode()} {body[:400]!r}")
    if b"text/event-stream" not in head.lower():
        return checked(json.loads(body))
    data = [line for line in body.split(b"\n") if line.startswith(b"data: {")]
    if not data:
        raise ChainError(f"no event has an answer: {body[:400]!r}")
    return checked(json.loads(data[-1].removeprefix(b"data: ")))


def check_answers(answers: list[tuple[bytes, bytes]], expected: set[int]) -> None:
    """Every request has exactly one good answer."""
    keys = [answer_of(head, body)["id"] for head, body in answers]
    if len(keys) != len(expected) or set(keys) != expected:
        raise ChainError(f"{len(expected)} requests have {len(keys)} answers to {len(set(keys))} ids")
