"""The bridge with a daemon that is there: what goes up, what comes down, and what must not stop either."""

import contextlib
import json
import os
import signal
import subprocess
import sys

from hearth.wire.frames import encode
from support.scripted_daemon import BOUND_SECONDS, SERVICE, Stage, client_environment, readable


def test_lines_follow_hello_without_waiting_for_the_welcome(scene: Stage) -> None:
    daemon, bridge = scene.daemon(), scene.bridge()
    bridge.request(1, "initialize")
    wire = daemon.accept()
    hello, _ = wire.read()
    header, message = wire.read_line()
    assert (hello["type"], hello["protocol"], hello["pid"]) == ("hello", 1, bridge.child.pid)
    assert (header, message["method"]) == ({"type": "mcp", "seq": 1}, "initialize")


def test_hello_says_what_the_command_line_said(scene: Stage) -> None:
    daemon = scene.daemon()
    folder = scene.home / 'a "quoted" földer'
    folder.mkdir()
    words = ["--server", "time", "--role=lead", "--agent-id", "a1", "--mode", "search"]
    scene.bridge(*words, cwd=folder)
    hello, _ = daemon.accept().read()
    said = {key: hello[key] for key in ("server", "role", "agentId", "mode", "cwd")}
    assert said == {"server": "time", "role": "lead", "agentId": "a1", "mode": "search", "cwd": str(folder)}


def test_a_folder_that_is_gone_is_not_mentioned(scene: Stage) -> None:
    daemon = scene.daemon()
    folder = scene.home / "gone"
    folder.mkdir()
    # The shell's `exec` comes after the folder has been removed.
    bridge = scene.bridge(cwd=folder, preexec_fn=lambda: os.rmdir(folder))
    hello, _ = daemon.accept().read()
    assert "cwd" not in hello and bridge.child.poll() is None


def test_descriptors_that_do_not_block_are_waited_for(scene: Stage) -> None:
    daemon = scene.daemon()
    bridge = scene.bridge(preexec_fn=lambda: (os.set_blocking(0, False), os.set_blocking(1, False)))
    wire = daemon.welcome()
    bridge.request_on(wire, 1)
    text = "x" * 500_000
    wire.answer(1, 1, {"text": text})
    assert bridge.read()["result"]["text"] == text


def test_an_answer_reaches_the_client_byte_by_byte_as_the_daemon_wrote_it(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    bridge.request_on(wire, 1)
    payload = b'{"id":1,"jsonrpc":"2.0","result":{"n":1.50,"big":123456789012345678901234567890,"u":"\\ud800"}}'
    wire.send({"type": "mcp", "re": 1}, payload)
    assert bridge.read_raw() == payload


def test_many_lines_are_numbered_and_answered_in_any_order(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    count = 200
    for id in range(count):
        bridge.request(id)
    seen = [wire.read_line() for _ in range(count)]
    assert [header["seq"] for header, _ in seen] == list(range(1, count + 1))
    assert [message["id"] for _, message in seen] == list(range(count))
    for header, message in reversed(seen):
        wire.answer(header["seq"], message["id"])
    assert [bridge.read()["id"] for _ in range(count)] == list(reversed(range(count)))


def test_blank_lines_and_carriage_returns_are_not_passed_on(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    bridge.write(b'\n \r\n{"id":1}\r\n\n{"id":2}\n')
    assert [wire.read()[1], wire.read()[1]] == [b'{"id":1}', b'{"id":2}']


def test_a_line_that_looks_like_a_frame_forges_nothing(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    forged = encode(b'{"type":"shutdown","seq":1}') + b'{},"type":"shutdown"}'
    assert b"\n" not in forged
    bridge.write(forged + b"\n" + b'{"id":2}\n')
    assert wire.read() == ({"type": "mcp", "seq": 1}, forged)
    assert wire.read() == ({"type": "mcp", "seq": 2}, b'{"id":2}')


def test_a_line_over_the_limit_gets_an_error_and_the_stream_goes_on(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    half = b"x" * (33 * 1024 * 1024)
    bridge.write(b'{"jsonrpc":"2.0","method":"tools/call","params":{"id":3,"text":"')
    bridge.write(half)
    bridge.write(half)
    bridge.write(b'"},"id":"large"}\n')
    bridge.request(2)
    answer = bridge.read()
    assert (answer["id"], answer["error"]["code"]) == ("large", -32600)
    assert wire.read_line()[1]["id"] == 2


def test_a_large_message_passes_both_ways(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    text = "x" * 3_000_000
    bridge.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": text})
    header, message = wire.read_line()
    assert message["params"] == text
    wire.answer(header["seq"], 1, {"text": text})
    assert bridge.read()["result"]["text"] == text


def test_a_client_that_does_not_read_can_still_cancel(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    bridge.request_on(wire, 1)
    # More than pipe and socket hold: the bridge is stuck in its standard output when the last of it is taken.
    filler = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": "x" * 100_000}).encode()
    wire.socket.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            wire.send({"type": "mcp"}, filler)
    wire.socket.settimeout(BOUND_SECONDS)
    bridge.notify("notifications/cancelled")
    assert wire.read_line()[1]["method"] == "notifications/cancelled"


def test_a_daemon_that_does_not_read_still_gets_its_answers_delivered(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    bridge.request(1)
    assert wire.read_line()[0]["seq"] == 1
    bridge.fill_input()
    wire.answer(1, 1)
    assert bridge.read()["id"] == 1


def test_heartbeats_are_sent_when_nothing_else_is_said(scene: Stage) -> None:
    _, _, wire = scene.meeting(heartbeatSeconds=0.05)
    assert wire.read_any()[0] == {"type": "heartbeat"}
    assert wire.read_any()[0] == {"type": "heartbeat"}


def test_heartbeats_are_sent_while_the_daemon_talks_all_the_time(scene: Stage) -> None:
    _, bridge, wire = scene.meeting(heartbeatSeconds=0.05)
    while not readable(wire.socket, 0.001):
        wire.notify("notifications/progress")
        bridge.read()
    assert wire.read_any()[0] == {"type": "heartbeat"}


def test_a_stopped_bridge_delivers_what_is_owed_when_it_goes_on(scene: Stage) -> None:
    _, bridge, wire = scene.meeting(heartbeatSeconds=0.05)
    for id in (1, 2, 3):
        bridge.request_on(wire, id)
    os.kill(bridge.child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, bridge.child.pid, os.WSTOPPED | os.WNOWAIT)
    for id in (3, 1, 2):
        wire.answer(id, id)
    assert bridge.is_silent()
    os.kill(bridge.child.pid, signal.SIGCONT)
    assert [bridge.read()["id"] for _ in range(3)] == [3, 1, 2]
    assert bridge.is_silent()


def test_frames_of_a_later_protocol_are_ignored(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    bridge.request_on(wire, 1)
    wire.send({"type": "ownerChanged", "sessionId": "other", "isOwner": False})
    wire.send({"type": "weather", "sun": True}, b"payload")
    wire.send({"type": "mcp", "re": 1, "colour": "red"}, b'{"id":1}')
    assert bridge.read_raw() == b'{"id":1}'


def test_an_answer_to_a_line_that_nobody_waits_for_is_dropped(scene: Stage) -> None:
    _, bridge, wire = scene.meeting()
    bridge.request_on(wire, 1)
    wire.answer(1, 1)
    wire.answer(1, 1)
    wire.answer(99, 99)
    wire.notify("notifications/last")
    assert [bridge.read().get("id"), bridge.read().get("method")] == [1, "notifications/last"]


def test_standard_output_carries_nothing_but_mcp(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    bridge.request_on(wire, 1)
    wire.socket.sendall(b"this is no frame at all")
    wire = daemon.welcome()
    wire.answer(wire.read_line()[0]["seq"], 1)
    bridge.end_input()
    assert wire.read()[0] == {"type": "goodbye"}
    assert [message["id"] for message in bridge.read_rest()] == [1]
    assert bridge.wait() == 0
    assert "does not keep to the protocol" in bridge.stderr()


# Besides what every interpreter has: `os`, which is frozen into it; two small extensions; ourselves.
_ALLOWED_NAMES = """
os os.path stat _stat posixpath genericpath _collections_abc
_socket _json
hearth hearth.errors hearth.paths hearth.socket_trust hearth.wire hearth.wire.frames hearth.bridge hearth.bridge.options
hearth.bridge.connector hearth.bridge.jsonlite hearth.bridge.client_io hearth.bridge.ledger
hearth.bridge.writer hearth.bridge.pump
"""

_REPORTING = """
import os, sys
sys.path.append({root!r})
leave = os._exit
def report(code):
    os.write(2, " ".join(sys.modules).encode())
    leave(code)
os._exit = report
from hearth.bridge import main
main([])
"""


def test_nothing_heavy_is_loaded_on_the_way_to_the_first_answer(scene: Stage) -> None:
    daemon = scene.daemon()
    bare = subprocess.check_output([sys.executable, "-I", "-S", "-c", "import sys; print(*sys.modules)"], text=True)
    code = _REPORTING.format(root=str(SERVICE))
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=client_environment(scene.home),
    ) as child:
        assert child.stdin and child.stdout and child.stderr
        child.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n')
        child.stdin.close()
        wire = daemon.welcome()
        wire.read_line()
        wire.answer(1, 1, keep="initialize")
        assert json.loads(child.stdout.read())["id"] == 1
        loaded = set(child.stderr.read().decode().split())
        assert child.wait(BOUND_SECONDS) == 0
    assert "hearth.bridge.ledger" in loaded
    assert loaded - set(bare.split()) - set(_ALLOWED_NAMES.split()) == set()
