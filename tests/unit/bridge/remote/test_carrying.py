"""What a client's requests come to when no thread is to be had for them."""

import json
import socket
from typing import Any

import pytest

from hearth.bridge import client_io
from hearth.bridge.options import Options
from hearth.bridge.remote import crew
from hearth.bridge.remote.carrying import Carrier
from hearth.bridge.remote.target import Target


@pytest.mark.parametrize("method", ["initialize", "tools/list", "subscriptions/listen"])
def test_every_request_is_answered_without_threads(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    said: list[bytes] = []
    monkeypatch.setattr(crew, "start_new_thread", start)
    monkeypatch.setattr(client_io, "write_output", said.append)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    # Nobody listens there any more.
    url = f"http://127.0.0.1:{port}/mcp"
    options = Options({"--to": url}, {"HEARTH_BRIDGE_PATIENCE": "0.01"}, [("Authorization", "x")])
    carrier = Carrier(options, Target(url, ""))
    for id in (1, 1):
        # Nothing is left of the first that the second would be refused for.
        carrier.carry(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": {}}).encode())
    answers: list[dict[str, Any]] = [json.loads(line) for line in said]
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(1, -32603)] * 2
