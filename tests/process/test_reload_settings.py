"""Settings and waits across a reload: what is in force at once, what for new connections, and who still waits."""

import pytest

from support.clients import Closed, text_of
from support.daemon import Scratch, server
from support.kernel import is_gone, until
from support.puppets.stage import FAILED, Actor, Stage, parked


def test_a_bridge_keeps_the_pace_of_heartbeats_that_it_was_told(scratch: Scratch) -> None:
    former = scratch.serve(idle_timeout=0, heartbeat_interval=600).frames()
    assert former.session["heartbeatSeconds"] == 600
    scratch.reconfigure(idle_timeout=0, heartbeat_interval=0.05)
    latter = scratch.frames()
    assert latter.session["heartbeatSeconds"] == 0.05

    def active() -> dict[str, bool]:
        return {each["id"]: each["active"] for each in scratch.status()["sessions"]}

    until(lambda: not active()[latter.session["sessionId"]], "who was told the new pace is missed")
    assert active()[former.session["sessionId"]]


def test_limits_of_connections_hold_for_those_that_are_opened_from_then_on(scratch: Scratch) -> None:
    former = scratch.serve({"echo": server("echo")}, message_limit=8192).lines()
    text = "x" * 20_000

    def is_refused() -> bool:
        former.begin_call("echo__echo", text=text)
        return "over the limit of 8192 bytes (message_limit)" in former.receive()["error"]["message"]

    assert is_refused()
    scratch.reconfigure({"echo": server("echo")}, message_limit="1 MiB")
    assert is_refused()
    assert text_of(scratch.lines().call("echo__echo", text=text)) == text


def test_a_shorter_pace_does_not_wait_for_the_former_one(scratch: Scratch) -> None:
    daemon = scratch.serve(idle_timeout=0, heartbeat_interval=10_000)
    scratch.reconfigure(idle_timeout=0.2, heartbeat_interval=10_000)
    assert daemon.wait() == 0


def test_each_setting_of_connections_that_come_is_in_force(scratch: Scratch) -> None:
    scratch.start(HEARTH_IDLE_TIMEOUT="0")
    first = scratch.frames()
    scratch.reconfigure(max_connections=1, log_level="debug")
    refused = scratch.control()
    refused.send_frame({"type": "hello", "protocol": 1})
    assert "max_connections" in refused.receive_type("error")[0]["message"]
    scratch.reconfigure(max_connections=2)
    scratch.frames()
    assert first.ask("ping")["result"] == {}


def test_the_time_that_lists_wait_is_in_force_at_once(scratch: Scratch) -> None:
    servers = {"silent": server("silent"), "echo": server("echo")}
    scratch.serve(servers, list_timeout=10_000)
    scratch.reconfigure(servers, list_timeout=0.3)
    assert scratch.lines().tools() == ["echo__add", "echo__echo"]


def test_the_time_that_answers_are_delivered_after_the_end_of_input_is_in_force_at_once(scratch: Scratch) -> None:
    servers = {"count": server("counting", scratch.home / "ledger")}
    client = scratch.serve(servers, eof_timeout=10_000).lines()
    client.tools()
    scratch.reconfigure(servers, eof_timeout=0.2)
    client.begin_call("count__once", key="k", delay=600_000)
    client.stream.end_input()
    assert "(eof_timeout)" in client.receive()["error"]["message"]
    with pytest.raises(Closed):
        client.receive()


def test_what_is_logged_changes_at_once(scratch: Scratch) -> None:
    scratch.serve(log_level="error")
    assert "is in force" not in scratch.logged()
    scratch.configure(log_level="debug")
    # Noticed by itself, which is told at the level that holds by then.
    until(lambda: "is in force" in scratch.logged(), "the new level holds")


def test_a_call_that_is_parked_at_a_removed_server_goes_on_with_its_client_s_answer(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    stage.scratch.reconfigure()
    errand.fill_in(actor, "q-1")
    errand.finish(puppet, call, "thanks")


def test_a_call_that_is_parked_for_longer_than_its_removed_server_is_kept_gets_an_error(
    stage: Stage, actor: Actor
) -> None:
    errand, _, _ = parked(actor, stage.modern())
    (pid,) = stage.scratch.upstream("puppet")["pids"]
    stage.scratch.reconfigure(drain_timeout=0.1)
    until(lambda: is_gone(pid), "its process has ended")
    errand.go_on()
    error = errand.outcome().error
    assert error is not None
    assert error["code"] == FAILED
    assert "server 'puppet' is ended, for another config" in error["message"]
