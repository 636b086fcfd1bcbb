"""A server that keeps state: a counter in memory, for whoever talks with this process.

    keeping_server.py [ERA…] [--file FILE] [--gate FIFO]

It speaks the eras that are named, `legacy` if none is; of several, the one of its first request for good, as many
servers do. FILE gets a line `PID` at every start. With --gate it says nothing until somebody has opened the named pipe
for writing and closed it again. Tools: `count` adds one and answers with {count, pid, era, cwd} as
JSON text; `hold` is never answered.
"""

import json
import os
import sys

import stdio

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
TOOLS = [stdio.described("count"), stdio.described("hold")]
CACHE = {"ttlMs": 0, "cacheScope": "private"}


class Server:
    """The counter, and the era once it is known."""

    def __init__(self, eras: list[str]) -> None:
        self.eras = eras or ["legacy"]
        self.count = 0

    def answer(self, request: stdio.Message) -> stdio.Message | None:
        """The answer to one message; None for what has none."""
        if "id" not in request or "method" not in request:
            return None
        meta = (request.get("params") or {}).get("_meta") or {}
        era = "modern" if PREFIX + "protocolVersion" in meta else "legacy"
        if era not in self.eras:
            code = -32022 if era == "legacy" else -32601
            return stdio.error(request, code, f"not the era {era}", {"supported": [VERSION], "requested": "?"})
        self.eras = [era]
        if request["method"] == "tools/call":
            return self.call(request, era)
        return self.routine(request) if era == "modern" else stdio.handshake(request, "keeping", TOOLS)

    def call(self, request: stdio.Message, era: str) -> stdio.Message | None:
        if request["params"]["name"] == "hold":
            return None
        self.count += 1
        result = stdio.text(json.dumps({"count": self.count, "pid": os.getpid(), "era": era, "cwd": os.getcwd()}))
        return stdio.result(request, {"resultType": "complete", **result} if era == "modern" else result)

    def routine(self, request: stdio.Message) -> stdio.Message:
        known: dict[str, stdio.Message] = {
            "server/discover": {"supportedVersions": [VERSION], "capabilities": {"tools": {}}},
            "tools/list": {"tools": TOOLS},
        }
        found = known.get(request["method"])
        if found is None:
            return stdio.error(request, -32601, f"Method not found: {request['method']}")
        return stdio.result(request, {"resultType": "complete", **CACHE, **found})


def option(words: list[str], name: str) -> str:
    """The value behind that word, which is taken out; nothing if it is not there."""
    if name not in words:
        return ""
    at = words.index(name)
    value = words[at + 1]
    del words[at : at + 2]
    return value


stdio.limit_lifetime()
words = sys.argv[1:]
if path := option(words, "--file"):
    stdio.note(path, os.getpid())
if path := option(words, "--gate"):
    with open(path) as gate:
        gate.read()
server = Server(words)
for message in stdio.messages():
    stdio.send_if(server.answer(message))
