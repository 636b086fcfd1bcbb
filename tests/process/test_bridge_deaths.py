"""The bridge over the deaths of its daemons: what is sent again, what is not, and how little the client sees of it."""

import os
import shutil
import sys

import pytest

from hearth.bridge.ledger import DEATHS_LIMIT
from hearth.wire.frames import encode
from support.scripted_daemon import SERVICE, SILENCE_SECONDS, Stage, eventually, readable


def test_an_unanswered_line_goes_to_the_next_daemon_marked_as_resent(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    bridge.request("a")
    bridge.request_on(wire, "b")
    second, _ = wire.read_line()
    wire.answer(second["seq"], "b")
    assert bridge.read()["id"] == "b"
    wire = daemon.welcome(after=wire)
    header, message = wire.read_line()
    assert (header["resent"], message["id"]) == (True, "a")
    wire.answer(header["seq"], "a")
    assert bridge.read()["id"] == "a"
    assert bridge.is_silent() and bridge.child.poll() is None


def test_what_a_daemon_without_a_welcome_was_sent_has_not_run(scene: Stage) -> None:
    daemon, bridge = scene.daemon(), scene.bridge()
    bridge.request(1)
    wire = daemon.accept()
    assert [wire.read()[0]["type"], wire.read()[0]["type"]] == ["hello", "mcp"]
    wire.close()
    header, _ = daemon.welcome().read_line()
    assert "resent" not in header


def test_a_line_that_was_once_in_doubt_stays_in_doubt(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    bridge.request_on(wire, 1)
    wire = daemon.welcome(after=wire)
    header, _ = wire.read_line()
    wire.send({"type": "goodbye", "reconnect": True, "taken": header["seq"] - 1, "reason": "restart"})
    wire.close()
    assert daemon.welcome().read_line()[0]["resent"] is True


def test_half_an_answer_is_no_answer(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    bridge.request_on(wire, 1)
    frame = encode(b'{"type":"mcp","re":1}', b'{"jsonrpc":"2.0","id":1,"result":{"from":"the first"}}')
    wire.socket.sendall(frame[:-3])
    wire = daemon.welcome(after=wire)
    wire.answer(wire.read_line()[0]["seq"], 1, {"from": "the second"})
    assert bridge.read()["result"] == {"from": "the second"}


def test_the_session_is_resumed_and_numbers_go_on(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting(sessionId="s7", secret="geheim")
    bridge.request(1)
    assert wire.read_line()[0]["seq"] == 1
    wire.answer(1, 1)
    bridge.read()
    wire.close()
    wire = daemon.accept()
    assert wire.greet()["resume"] == {"sessionId": "s7", "secret": "geheim"}
    bridge.request(2)
    assert wire.read_line()[0] == {"type": "mcp", "seq": 2}


def test_kept_lines_are_replayed_first_and_their_answers_swallowed(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    bridge.request_on(wire, 1, "initialize")
    wire.answer(1, 1, keep="initialize")
    bridge.read()
    bridge.notify("notifications/initialized")
    wire.read_line()
    wire.send({"type": "ack", "seq": 2, "done": [2], "keep": {"initialized": 2}})
    bridge.request_on(wire, 3)
    wire.close()

    wire = daemon.welcome()
    replayed = [wire.read_line(), wire.read_line()]
    assert [message["method"] for _, message in replayed] == ["initialize", "notifications/initialized"]
    assert [header.get("replay") for header, _ in replayed] == [True, True]
    header, message = wire.read_line()
    assert (header["resent"], message["id"]) == (True, 3)
    wire.answer(replayed[0][0]["seq"], 1, {"from": "the new daemon"}, keep="initialize")
    wire.send({"type": "ack", "seq": header["seq"], "keep": {"initialized": replayed[1][0]["seq"]}})
    wire.answer(header["seq"], 3)
    assert bridge.read()["id"] == 3
    wire.close()

    wire = daemon.welcome()
    assert [wire.read_line()[1]["method"], wire.read_line()[1]["method"]] == ["initialize", "notifications/initialized"]
    assert bridge.is_silent()


def test_a_later_line_replaces_a_kept_one_and_a_dropped_one_is_forgotten(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    for id, key in ((1, "level"), (2, "subscribe a"), (3, "level"), (4, "subscribe b")):
        bridge.request_on(wire, id, key)
        wire.answer(id, id, keep=key)
        bridge.read()
    wire.send({"type": "ack", "seq": 4, "drop": ["subscribe a"]})
    wire = daemon.welcome(after=wire)
    assert [wire.read_line()[1]["id"], wire.read_line()[1]["id"]] == [3, 4]
    bridge.request(5)
    assert wire.read_line()[1]["id"] == 5


def test_a_finished_notification_is_not_sent_again(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    bridge.notify("notifications/one")
    bridge.notify("notifications/two")
    wire.read_line()
    wire.read_line()
    wire.send({"type": "ack", "seq": 2, "done": [1]})
    wire.close()
    assert daemon.welcome().read_line()[1]["method"] == "notifications/two"


def test_open_questions_of_a_dead_daemon_are_withdrawn(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    wire.ask("hearth-d1-1")
    wire.ask("hearth-d1-2")
    assert [bridge.read()["id"], bridge.read()["id"]] == ["hearth-d1-1", "hearth-d1-2"]
    wire.send({"type": "ack", "seq": 0, "answered": ["hearth-d1-1"]})
    wire.close()
    withdrawal = bridge.read()
    assert withdrawal["method"] == "notifications/cancelled"
    assert withdrawal["params"]["requestId"] == "hearth-d1-2"
    daemon.welcome().close()
    assert bridge.is_silent()


def test_a_goodbye_divides_what_was_looked_at_from_what_was_not(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    for id in (1, 2, 3):
        bridge.request_on(wire, id)
    wire.send({"type": "goodbye", "reconnect": True, "taken": 2, "reason": "restart"})
    wire.answer(2, 2)
    assert bridge.read()["id"] == 2
    bridge.request(4)
    assert not readable(wire.socket, SILENCE_SECONDS), "it looks at nothing any more"
    wire = daemon.welcome(after=wire)
    again = [wire.read_line() for _ in range(3)]
    assert [(message["id"], header.get("resent")) for header, message in again] == [(1, True), (3, None), (4, None)]


def test_after_a_last_goodbye_the_bridge_stays_away_until_it_is_needed(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    wire.send({"type": "goodbye", "reconnect": False, "taken": 0, "reason": "somebody stopped it"})
    wire.close()
    assert daemon.is_left_alone()
    bridge.request(1)
    header, _ = daemon.welcome().read_line()
    assert "resent" not in header


def test_after_a_last_goodbye_it_comes_back_at_once_for_what_is_owed(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    bridge.request_on(wire, 1)
    wire.send({"type": "goodbye", "reconnect": False, "taken": 0, "reason": "somebody stopped it"})
    wire.close()
    assert daemon.welcome().read_line()[1]["id"] == 1


def test_much_that_is_owed_is_sent_while_answers_already_come(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    padding = "x" * 300_000
    for id in range(8):
        bridge.send({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": padding})
        wire.read_line()
    wire = daemon.welcome(after=wire)
    first, _ = wire.read_line()
    # The rest does not fit into the socket: if the bridge did not read before it has written, both would wait.
    big = {"text": "y" * 1_000_000}
    wire.answer(first["seq"], 0, big)
    assert bridge.read()["result"] == big
    assert [wire.read_line()[1]["id"] for _ in range(7)] == list(range(1, 8))


def test_a_writer_that_is_stuck_in_a_dead_daemon_goes_on_with_the_next(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    bridge.fill_input()
    wire.close()
    bridge.write(b'\n{"jsonrpc":"2.0","id":"last","method":"ping"}\n')
    wire = daemon.welcome()
    while True:
        header, payload = wire.read()
        if b'"last"' in payload:
            break
    wire.answer(header["seq"], "last")
    answer = bridge.read()
    while "id" not in answer:
        # The line that was cut off is no JSON, and may be found out.
        assert answer["error"]["code"] == -32700
        answer = bridge.read()
    assert answer["id"] == "last"


def test_a_writer_that_is_stuck_in_a_mad_daemon_is_freed(scene: Stage) -> None:
    daemon, bridge, mad = scene.meeting()
    bridge.fill_input()
    mad.socket.sendall(b"this is no frame at all")
    assert daemon.welcome().read_line()[1]["method"] == "notifications/x"


# What the scanner of the standard library refuses, each in another place of it.
_NOT_JSON = [b'{"a" 1}', b'{"a":1,}', b'{"a":"\x01"}', b'{"type":"mcp","re":1', b'{"a":"\\u12"}']


@pytest.mark.parametrize("header", _NOT_JSON)
def test_after_a_header_that_is_not_json_the_bridge_asks_the_next_daemon(scene: Stage, header: bytes) -> None:
    daemon, bridge, wire = scene.meeting()
    bridge.request(1)
    bridge.request_on(wire, 2)
    wire.read_line()
    answered = encode(b'{"type":"mcp","re":1}', b'{"jsonrpc":"2.0","id":1,"result":{}}')
    wire.socket.sendall(answered + encode(header))
    assert bridge.read()["id"] == 1
    wire = daemon.welcome()
    sent, message = wire.read_line()
    assert (sent["resent"], message["id"]) == (True, 2)
    wire.answer(sent["seq"], 2)
    assert "result" in bridge.read()
    assert "does not keep to the protocol" in bridge.stderr()


def test_a_daemon_without_sessions_is_not_resumed(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting(sessionId="degraded", secret="")
    bridge.request(1)
    wire.answer(wire.read_line()[0]["seq"], 1)
    bridge.read()
    wire.close()
    assert "resume" not in daemon.accept().greet()


def test_a_request_that_kills_every_daemon_is_given_up(scene: Stage) -> None:
    daemon, bridge, wire = scene.meeting()
    bridge.request("poison")
    for _ in range(DEATHS_LIMIT):
        wire.read_line()
        # Something else was answered, so that the bridge does not take its time.
        bridge.request("good")
        while True:
            header, message = wire.read_line()
            if message["id"] == "good":
                break
        wire.answer(header["seq"], "good")
        assert bridge.read()["id"] == "good"
        wire = daemon.welcome(after=wire)
    answer = bridge.read()
    assert (answer["id"], answer["error"]["code"]) == ("poison", -32603)
    assert "may or may not have run" in answer["error"]["message"]


def test_the_package_may_vanish_under_a_living_bridge(scene: Stage) -> None:
    copy, mark = scene.home / "installed", scene.home / "loaded"
    shutil.copytree(SERVICE / "hearth", copy / "hearth", ignore=shutil.ignore_patterns("__pycache__"))
    # The last part that is loaded in the background leaves a mark.
    with (copy / "hearth" / "bridge" / "replies.py").open("a") as file:
        file.write(f"\nopen({str(mark)!r}, 'w').close()\n")
    daemon = scene.daemon()
    # This interpreter has no other Hearth that it could start.
    bridge = scene.bridge(script=copy / "hearth" / "bridge" / "main.py", python=os.path.realpath(sys.executable))
    wire = daemon.welcome()
    bridge.request_on(wire, 1)
    wire.answer(1, 1)
    bridge.read()
    eventually(mark.exists)
    shutil.rmtree(copy)

    wire.ask("hearth-d1-1")
    bridge.read()
    bridge.request_on(wire, 2)
    wire.close()
    assert bridge.read()["params"]["requestId"] == "hearth-d1-1"
    wire = daemon.welcome()
    bridge.expect_answer(wire, 2)

    # Nobody is there at all, and no daemon can be started: that is a sentence, not a traceback.
    scene.socket.unlink()
    wire.close()
    bridge.request(3)
    error = bridge.read()["error"]
    assert (error["code"], "hearth" in error["message"]) == (-32603, True)
    daemon.close()
    daemon = scene.daemon()
    bridge.request(4)
    wire = daemon.welcome()
    bridge.expect_answer(wire, 4)
