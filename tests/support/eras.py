"""Clients of either era, and a daemon with servers of both, for tests of what passes between them."""

import json
from pathlib import Path
from typing import Any

from support.clients import Client, Message, modern
from support.daemon import Scratch, server

CHANGED = "notifications/tools/list_changed"


def serve_both(scratch: Scratch) -> None:
    """Start a daemon with a server of each era: `old` and `new` keep what they receive in files of their names."""
    scratch.serve(
        {"old": server("recording", scratch.home / "old"), "new": server("modern", scratch.home / "new")}
        | {"count": server("counting", scratch.home / "ledger"), "change": server("changing")}
        # Never shared more narrowly because of what it asks, so that each question goes the same way.
        | {"ask": server("asking", isolation="shared")}
        | {"page": server("paging", 5), "loop": server("paging", 5, "--loop")}
    )
    with scratch.lines() as client:
        # Everything runs: the tests are not about starting.
        client.tools()


class Speaker:
    """A client that speaks one era, over one wire."""

    def __init__(self, client: Client, era: str, version: str = "2025-11-25") -> None:
        self.client = client
        self.era = era
        if era == "legacy":
            client.initialize(version)

    def params(self, **params: Any) -> Message:
        return modern(**params) if self.era == "modern" else params

    def ask(self, method: str, **params: Any) -> Message:
        return self.client.ask(method, self.params(**params))

    def call(self, tool: str, **params: Any) -> Message:
        return self.ask("tools/call", name=tool, **params)

    def begin_call(self, tool: str, id: object, **params: Any) -> None:
        self.client.begin("tools/call", self.params(name=tool, **params), id)

    def cancel(self, id: object) -> None:
        self.client.notify("notifications/cancelled", {"requestId": id, "reason": "not needed"})


def opened(scratch: Scratch, wire: str = "lines") -> Client:
    return scratch.lines() if wire == "lines" else scratch.frames()


def received(scratch: Scratch, upstream: str) -> list[Message]:
    # What is behind the last line end is still being written.
    return [json.loads(line) for line in Path(scratch.home / upstream).read_bytes().rpartition(b"\n")[0].splitlines()]
