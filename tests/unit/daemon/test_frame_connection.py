"""Frames over TCP under a policy: the peer's process is looked up where it matters, and every frame is answered."""

import asyncio
import threading
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from hearth.config import Config
from hearth.daemon.frame_connection import FrameConnection
from hearth.host import peers
from hearth.wire import json
from hearth.wire.frames import FrameDecoder, encode

BOUND_SECONDS = 20.0
HELLO = {"type": "hello", "protocol": 1}


class Scene:
    """A connection over TCP of a daemon with a policy."""

    def __init__(self) -> None:
        self.services = MagicMock(config=Config(), attributed=AsyncMock(return_value=None))
        self.services.now.return_value = 0.0
        self.services.control.cmd_decide = AsyncMock(return_value="done")
        self.services.hub.daemon_id = "d1"
        session = self.services.hub.open_session.return_value
        session.id, session.secret, session.open = "s1", "s", {}
        transport = MagicMock()
        transport.get_extra_info.return_value = ("127.0.0.1", 1)
        self.connection = FrameConnection(self.services, transport, None)
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        decoder = FrameDecoder(1 << 20)

        def write(data: bytes) -> None:
            for header, _ in decoder.receive_data(bytes(data)):
                self.sent.put_nowait(json.loads(header))

        outbox = MagicMock(transport=transport)
        outbox.write.side_effect = outbox.write_now.side_effect = write
        self.connection._outbox = outbox

    def receive(self, *headers: dict[str, Any]) -> None:
        self.connection.data_received(b"".join(encode(json.dumps(header)) for header in headers))

    async def next_sent(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.sent.get(), BOUND_SECONDS)


@pytest.mark.parametrize("problem", [OSError("no files left"), ValueError("no address")])
async def test_a_command_whose_process_cannot_be_looked_up_is_answered(
    monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    monkeypatch.setattr(peers, "pid_of_tcp", MagicMock(side_effect=problem))
    scene = Scene()
    scene.receive({"type": "decide", "seq": 1, "id": "00", "action": "approve"})
    answer = await scene.next_sent()
    assert (answer["type"], answer["re"]) == ("decide", 1)
    scene.services.attributed.assert_awaited_once_with(None)


async def test_a_bridge_is_greeted_once_its_process_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on, begun = threading.Event(), threading.Event()

    def look_up(*_: object) -> int:
        begun.set()
        assert may_go_on.wait(BOUND_SECONDS)
        return 77

    monkeypatch.setattr(peers, "pid_of_tcp", look_up)
    scene = Scene()
    scene.receive(HELLO, {"type": "heartbeat"})
    assert await asyncio.to_thread(begun.wait, BOUND_SECONDS)
    scene.receive({"type": "goodbye"})
    assert scene.sent.empty() and not scene.services.hub.open_session.called
    may_go_on.set()
    assert (await scene.next_sent())["type"] == "helloAck"
    assert scene.services.policy.origin.call_args.args[0] == 77
    assert scene.services.hub.open_session.return_value.identify.call_args.args[0] == 77
    assert scene.services.hub.open_session.call_count == 1
