"""A client that adds as little as it can to what is measured: raw reads and writes, no event loop, no
parsing in the clock.

It speaks MCP lines over two descriptors and does not know what is behind them.
"""

import json
import os
import select
from time import perf_counter_ns
from typing import Any

CHUNK_BYTES = 1 << 18
# Ids that are used in turn.
TURNS = 1000
# Far above what a loaded machine needs between two chunks of answers, far below patience.
ANSWER_SECONDS = 30.0
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "hearth-bench", "version": "1"},
}

# What a modern client sends with every request instead of shaking hands once.
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "hearth-bench", "version": "1"},
}


# The text is as long as a short answer of a real tool.
ARGUMENTS = {"text": "what is said is said again"}


class ChainError(Exception):
    """What was to be measured does not work; the message says what happened."""


def request(key: int, method: str, params: dict[str, Any]) -> bytes:
    """One request, as a line."""
    return json.dumps({"jsonrpc": "2.0", "id": key, "method": method, "params": params}).encode() + b"\n"


def call(key: int, tool: str, modern: bool = False, arguments: dict[str, Any] = ARGUMENTS) -> bytes:
    """A tools/call as a line."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    return request(key, "tools/call", {**params, "_meta": ENVELOPE} if modern else params)


class Client:
    """One conversation over a pair of descriptors."""

    def __init__(self, to_server: int, from_server: int) -> None:
        self.to_server = to_server
        self.from_server = from_server

    def exchange(self, line: bytes) -> bytes:
        """Write a request and read to the end of its answer, past any notification that comes before it."""
        os.write(self.to_server, line)
        data = self._read()
        while not (data.endswith(b"\n") and (b'"result"' in data or b'"error"' in data)):
            data += self._read()
        return data

    def ask(self, key: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request, parsed and checked; not for the clock."""
        for found in map(json.loads, self.exchange(request(key, method, params)).splitlines()):
            if found.get("id") == key:
                return checked(found)
        raise ChainError(f"another answer came than the one to {method}")

    def open(self) -> dict[str, Any]:
        """Shake hands; return the result of initialize."""
        result: dict[str, Any] = self.ask(0, "initialize", INITIALIZE)["result"]
        os.write(self.to_server, b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return result

    def median_call_us(
        self, tool: str, calls: int, modern: bool = False, arguments: dict[str, Any] = ARGUMENTS
    ) -> float:
        """The median time of one call after another, in microseconds."""
        lines = [call(key, tool, modern, arguments) for key in range(1, calls + 1)]
        times = []
        for line in lines:
            begin = perf_counter_ns()
            answer = self.exchange(line)
            times.append(perf_counter_ns() - begin)
        check_answers(answer, {calls})
        return sorted(times)[calls // 2] / 1e3

    def calls_in_turn_per_second(self, tool: str, seconds: float) -> float:
        """The rate of one call after another for so long: what is done in between, and late, counts as well."""
        lines = [call(key, tool) for key in range(1, TURNS + 1)]
        limit, done = int(seconds * 1e9), 0
        begin = perf_counter_ns()
        while (passed := perf_counter_ns() - begin) < limit:
            answer = self.exchange(lines[done % TURNS])
            done += 1
        check_answers(answer, {(done - 1) % TURNS + 1})
        return done / passed * 1e9

    def calls_per_second(self, tool: str, calls: int) -> float:
        """The rate of calls that are written in bulk while their answers are read."""
        bulk = memoryview(b"".join(call(key, tool) for key in range(1, calls + 1)))
        begin = perf_counter_ns()
        chunks = self._pump(bulk, calls)
        seconds = (perf_counter_ns() - begin) / 1e9
        check_answers(b"".join(chunks), set(range(1, calls + 1)))
        return calls / seconds

    def _pump(self, bulk: memoryview, answers: int) -> list[bytes]:
        """Write all of bulk and read that many lines, whichever is possible next."""
        os.set_blocking(self.to_server, False)
        poll, chunks = select.poll(), []
        poll.register(self.from_server, select.POLLIN)
        poll.register(self.to_server, select.POLLOUT)
        while answers > 0:
            ready = poll.poll(ANSWER_SECONDS * 1000)
            if not ready:
                raise ChainError(f"{answers} answers did not come within {ANSWER_SECONDS:g} s")
            for descriptor, _ in ready:
                if descriptor == self.from_server:
                    chunks.append(self._read())
                    answers -= chunks[-1].count(b"\n")
                elif bulk := self._write(bulk):
                    continue
                else:
                    poll.unregister(self.to_server)
        os.set_blocking(self.to_server, True)
        return chunks

    def _write(self, bulk: memoryview) -> memoryview:
        return bulk[os.write(self.to_server, bulk[:CHUNK_BYTES]) :]

    def _read(self) -> bytes:
        data = os.read(self.from_server, CHUNK_BYTES)
        if not data:
            raise ChainError("the server went away before it had answered")
        return data


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, if it is a good one: a fast refusal must not pass for a fast call."""
    if "result" not in answer or answer["result"].get("isError"):
        raise ChainError(f"instead of a result: {json.dumps(answer)[:400]}")
    return answer


def check_answers(data: bytes, expected: set[int]) -> None:
    """Every request has exactly one good answer."""
    keys = [checked(found)["id"] for found in map(json.loads, data.splitlines()) if "id" in found]
    if len(keys) != len(expected) or set(keys) != expected:
        raise ChainError(f"{len(expected)} requests have {len(keys)} answers to {len(set(keys))} ids")
