"""How a bridge ends: with its client's input, its client's output, a signal; and never without what it owes."""

import os
import signal

import pytest

from support.scripted_daemon import Stage


def test_with_nothing_owed_the_end_of_input_is_the_end(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    bridge.end_input()
    assert wire.read()[0] == {"type": "goodbye"}
    assert bridge.wait() == 0


def test_what_is_owed_is_delivered_after_the_end_of_input(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    bridge.request(1)
    bridge.request(2)
    bridge.end_input()
    assert [wire.read_line()[0]["seq"], wire.read_line()[0]["seq"]] == [1, 2]
    assert wire.read()[0] == {"type": "goodbye"}
    wire.answer(2, 2)
    wire.answer(1, 1)
    assert [message["id"] for message in bridge.read_rest()] == [2, 1]
    assert bridge.wait() == 0


def test_the_last_line_needs_no_line_end(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    bridge.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    bridge.end_input()
    header, message = wire.read_line()
    assert message["id"] == 1
    wire.answer(header["seq"], 1)
    assert [message["id"] for message in bridge.read_rest()] == [1]


def test_a_notification_that_is_done_holds_the_bridge_no_longer(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    bridge.notify("notifications/cancelled")
    bridge.end_input()
    wire.read_line()
    wire.send({"type": "ack", "seq": 1, "done": [1]})
    assert bridge.wait() == 0


def test_a_daemon_that_dies_after_the_end_of_input_is_replaced(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    bridge.request(1)
    bridge.end_input()
    wire.read_line()
    wire = daemon.welcome(after=wire)
    header, _ = wire.read_line()
    assert wire.read()[0] == {"type": "goodbye"}
    wire.answer(header["seq"], 1)
    assert [message["id"] for message in bridge.read_rest()] == [1]
    assert bridge.wait() == 0


def test_the_wait_for_what_is_owed_is_bounded(scene: Stage) -> None:
    daemon = scene.daemon()
    bridge = scene.bridge(extra={"HEARTH_BRIDGE_EOF_GRACE": "0.2"})
    daemon.welcome()
    bridge.request(1)
    bridge.end_input()
    assert [(answer["id"], answer["error"]["code"]) for answer in bridge.read_rest()] == [(1, -32603)]
    assert bridge.wait() == 0


def test_the_wait_is_bounded_even_if_nobody_reads(scene: Stage) -> None:
    daemon = scene.daemon()
    bridge = scene.bridge(extra={"HEARTH_BRIDGE_EOF_GRACE": "0.2"})
    wire = daemon.welcome()
    bridge.request(1)
    wire.send({"type": "mcp"}, b'{"x":"' + b"x" * 200_000 + b'"}')
    bridge.end_input()
    assert bridge.wait() == 0


def test_a_client_that_closed_its_side_ends_the_bridge_quietly(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    bridge.output.close()
    bridge.request_on(wire, 1)
    wire.answer(1, 1)
    assert bridge.wait() == 0
    assert bridge.stderr() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_whatever_is_owed(scene: Stage, number: signal.Signals) -> None:
    _, bridge, wire = scene.meeting()
    bridge.request_on(wire, 1)
    os.kill(bridge.child.pid, number)
    assert bridge.wait() == -number
    assert bridge.stderr() == ""


def test_without_input_from_the_start_it_ends(scene: Stage) -> None:
    scene.daemon()
    assert scene.bridge(preexec_fn=lambda: os.close(0)).wait() == 0


def test_a_line_over_the_limit_is_answered_although_input_has_ended(scene: Stage) -> None:
    _, bridge, _ = scene.meeting()
    bridge.write(b'{"jsonrpc":"2.0","id":9,"method":"x","params":"' + b"x" * (65 * 1024 * 1024))
    bridge.end_input()
    assert [answer["id"] for answer in bridge.read_rest()] == [9]
    assert bridge.wait() == 0


def test_a_fault_in_the_middle_of_a_line_to_the_client_can_be_injected(scene: Stage) -> None:
    daemon = scene.daemon()
    bridge = scene.bridge(extra={"HEARTH_FAULTS": "bridge-mid-write=kill"})
    wire = daemon.welcome()
    bridge.request_on(wire, 1)
    wire.send({"type": "mcp", "re": 1}, b'{"id":1,"more":"0123456789"}')
    assert bridge.wait() == -signal.SIGKILL
    assert os.read(bridge.output.fileno(), 100) == b'{"id":1,"more":'[:14]
    wire.read_eof()
