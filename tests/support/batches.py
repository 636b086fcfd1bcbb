"""Batches as a client of revision 2025-03-26 writes and reads them, by itself or through a bridge."""

import json
from typing import Any

from support.clients import Client, Message
from support.daemon import Scratch
from support.scripted_daemon import BridgeProcess

REVISION = "2025-03-26"


class Bridged(Client):
    """A client that has started a bridge."""

    def __init__(self, scratch: Scratch) -> None:
        self.process = BridgeProcess(scratch.home, environment=scratch.environment())
        self.aside = []
        self._last_id = 0

    def send_line(self, line: bytes) -> None:
        self.process.write(line + b"\n")

    def receive_line(self) -> bytes:
        return self.process.read_raw()

    def close(self) -> None:
        self.process.close()


def request(id: object, method: str, **params: object) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id: object, tool: str, **arguments: object) -> Message:
    return request(id, "tools/call", name=tool, arguments=arguments)


def notice(method: str, **params: object) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def send(client: Client, *members: object) -> None:
    client.send_line(json.dumps(members).encode())


def received(client: Client) -> dict[Any, Message]:
    """The members of the array that must come next, by their ids; None for those without one."""
    found = json.loads(client.receive_line())
    assert isinstance(found, list), found
    by_id = {member.get("id"): member for member in found}
    assert len(by_id) == len(found)
    return by_id


def ledger(scratch: Scratch) -> list[str]:
    path = scratch.home / "ledger"
    return path.read_text().splitlines() if path.exists() else []
