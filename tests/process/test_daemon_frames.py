"""The wires at their edges: very many lines, frames that are none, and clients that never read."""

import json
import signal
import socket
from typing import Any

import pytest

from support.clients import Closed, FramesClient, frame, text_of
from support.daemon import Scratch, server
from support.kernel import until

LINES = 20_000
# What the u16 in front of a header can say.
HEADER_LIMIT_BYTES = 1 << 16


def test_every_line_of_a_very_long_message_is_finished_once_and_the_message_answered_once(scratch: Scratch) -> None:
    client = scratch.serve({"echo": server("echo")}).frames()
    params = {"name": "echo__echo", "arguments": {"text": "heard", "padding": list(range(LINES))}}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, indent=1)
    for line in message.split("\n"):
        client.send_line(line.encode())
    last = client.seq
    assert last > LINES
    assert text_of(client.answer_to(1)) == "heard"
    assert client.ask("ping", id="end")["result"] == {}
    assert client.aside == []
    assert [header["re"] for header in client.headers if "re" in header] == [last, last + 1]
    acks = [header["done"] for header in client.headers if "done" in header]
    assert sorted(seq for done in acks for seq in done) == list(range(1, last))
    assert len(acks) > 1
    assert all(len(json.dumps(header)) < HEADER_LIMIT_BYTES for header in client.headers)


@pytest.mark.parametrize("kind", [[], {}, None, 7, True])
@pytest.mark.parametrize("greeted", [True, False])
def test_a_frame_whose_type_is_no_word_is_refused_with_an_error_frame(
    scratch: Scratch, kind: object, greeted: bool
) -> None:
    scratch.start()
    client = scratch.frames() if greeted else scratch.control()
    client.send_frame({"type": kind})
    assert "unknown frame type" in client.receive_type("error")[0]["message"]
    with pytest.raises(Closed):
        client.receive_frame()
    assert "Traceback" not in scratch.logged()


def test_the_hello_ack_is_in_the_kernel_before_the_first_line_is_read(scratch: Scratch) -> None:
    daemon = scratch.start(HEARTH_FAULTS="before-ack=kill")
    client = scratch.control()
    notice = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    # One write, so that the daemon reads both frames at once. It dies while it handles the line.
    client.stream.send(frame({"type": "hello", "protocol": 1}) + frame({"type": "mcp", "seq": 1}, notice))
    assert daemon.wait() == 128 + signal.SIGKILL
    assert client.receive_frame()[0]["type"] == "helloAck"
    with pytest.raises(Closed):
        client.receive_frame()


def test_a_second_hello_is_refused_and_the_session_ends(scratch: Scratch) -> None:
    scratch.start()
    client = scratch.frames()
    client.send_frame({"type": "hello", "protocol": 1})
    assert "a second hello on one connection" in client.receive_type("error")[0]["message"]
    with pytest.raises(Closed):
        client.receive_frame()
    until(lambda: scratch.status()["sessions"] == [], "the session is gone")


def test_only_the_hello_ack_names_the_session_of_the_connection(scratch: Scratch) -> None:
    scratch.serve({"count": server("counting", scratch.home / "ledger")}, heartbeat_interval=0.1)
    client, other = scratch.frames(), scratch.frames()
    client.initialize()
    assert text_of(client.call("count__read", meta={"progressToken": 1}, key="k", delay=50, steps=2)) == "read k"
    client.control("reload")
    client.close()
    assert other.receive_type("ownerChanged")[0]["sessionId"] == other.session["sessionId"]
    other.send_frame({"type": "goodbye"})
    with pytest.raises(Closed):
        other.receive_frame()
    seen = [header for each in (client, other) for header in each.headers if "sessionId" in header]
    assert {header["type"] for header in seen} == {"helloAck", "ownerChanged"}
    assert {"ack", "mcp", "reload"} <= {header["type"] for header in client.headers}


def leave(client: Any) -> None:
    """Say that nothing more will come."""
    if isinstance(client, FramesClient):
        client.send_frame({"type": "goodbye"})
    else:
        client.stream.socket.shutdown(socket.SHUT_WR)


def test_a_client_that_left_and_does_not_read_its_answers_does_not_hold_the_daemon(scratch: Scratch, wire: str) -> None:
    daemon = scratch.serve({"big": server("big")}, eof_timeout=0.5, idle_timeout=0.5, heartbeat_interval=0.1)
    client = scratch.lines() if wire == "lines" else scratch.frames()
    client.begin_call("big__big", bytes=5_000_000)
    leave(client)
    # Not the test's end closes the connection: the client stays, and reads nothing.
    assert daemon.wait() == 0
    assert "nobody was there" in scratch.logged()
    with pytest.raises(Closed):
        client.receive()
