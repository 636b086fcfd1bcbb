"""How a daemon goes: by idleness, by a signal, by a request, by SIGKILL; and what is left, which is nothing."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.clients import PREFIX, Closed, FramesClient, modern, text_of
from support.daemon import Daemon, Scratch, noted, pids_of, server
from support.kernel import is_gone, pids_at_home, until


def assert_nothing_is_left(scratch: Scratch) -> None:
    until(lambda: not pids_at_home(str(scratch.home)), "no process is left")
    assert not os.path.lexists(scratch.socket)
    assert not scratch.registry.exists()


# --- idleness


def test_a_daemon_that_nobody_uses_goes_out_and_leaves_nothing(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")}, idle_timeout=0.2)
    with scratch.lines() as client:
        client.call("echo__echo", text="x")
        (pid,) = pids_of(scratch, "echo")
    assert daemon.wait() == 0
    assert is_gone(pid)
    assert_nothing_is_left(scratch)
    assert "nobody was there for 0.2 s" in scratch.logged()


def test_a_daemon_that_was_never_used_goes_out_too(scratch: Scratch) -> None:
    scratch.configure(idle_timeout=0.1)
    assert scratch.start().wait() == 0
    assert_nothing_is_left(scratch)


def test_an_open_session_holds_the_daemon(scratch: Scratch, wire: str) -> None:
    daemon = scratch.serve(idle_timeout=0.1)
    client = scratch.lines() if wire == "lines" else scratch.frames()
    client.ask("ping")
    assert not exits_within(daemon, 0.4)
    assert client.ask("ping")["result"] == {}
    client.close()
    assert daemon.wait() == 0


def test_a_connection_that_has_not_spoken_yet_holds_the_daemon(scratch: Scratch) -> None:
    daemon = scratch.serve(idle_timeout=0.1)
    client = scratch.lines()
    assert not exits_within(daemon, 0.4)
    assert client.ask("ping")["result"] == {}


def test_a_control_connection_holds_nothing(scratch: Scratch) -> None:
    daemon = scratch.serve(idle_timeout=0.3)
    control = scratch.control()
    control.control("status")
    assert daemon.wait() == 0


def test_a_call_in_flight_holds_the_daemon_also_when_its_session_has_fallen_silent(scratch: Scratch) -> None:
    ledger = scratch.home / "ledger"
    daemon = scratch.serve({"count": server("counting", ledger)}, idle_timeout=0.1, heartbeat_interval=0.05)
    client = scratch.frames()
    client.begin_call("count__once", key="slow", delay=800)
    noted(ledger, "once slow")
    # Silent after 0.15 s, idle after 0.1 s more; the answer comes long after both.
    assert text_of(client.answer_to(1)) == "once slow"
    assert client.receive_type("goodbye")[0]["reconnect"] is True
    assert daemon.wait() == 0


def test_a_silent_session_without_calls_does_not_hold_the_daemon(scratch: Scratch) -> None:
    daemon = scratch.serve(idle_timeout=0.1, heartbeat_interval=0.05)
    client = scratch.frames()
    goodbye, _ = client.receive_type("goodbye")
    assert goodbye["reconnect"] is True
    assert daemon.wait() == 0


def test_an_idle_timeout_of_zero_means_to_stay(scratch: Scratch) -> None:
    daemon = scratch.serve(idle_timeout=0, heartbeat_interval=0.05)
    scratch.lines().close()
    assert not exits_within(daemon, 0.4)
    assert scratch.lines().ask("ping")["result"] == {}


# --- SIGTERM and the drain


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_calls_in_flight_finish_in_the_drain(scratch: Scratch, number: signal.Signals) -> None:
    ledger = scratch.home / "ledger"
    daemon = scratch.serve({"count": server("counting", ledger)})
    lines, frames = scratch.lines(), scratch.frames()
    lines.begin_call("count__once", id="a", key="lines", delay=300)
    frames.begin_call("count__once", id="b", key="frames", delay=300)
    noted(ledger, "once lines")
    noted(ledger, "once frames")
    daemon.signal(number)
    goodbye, _ = frames.receive_type("goodbye")
    assert goodbye == {"type": "goodbye", "reconnect": False, "taken": 1, "reason": number.name}
    assert text_of(frames.answer_to("b")) == "once frames"
    assert text_of(lines.answer_to("a")) == "once lines"
    assert daemon.wait() == 0
    assert_nothing_is_left(scratch)


def test_the_drain_is_bounded_and_what_is_open_then_is_answered_with_the_reason(scratch: Scratch) -> None:
    ledger = scratch.home / "ledger"
    daemon = scratch.serve({"count": server("counting", ledger)}, drain_timeout=0.2)
    lines, frames = scratch.lines(), scratch.frames()
    for client in (lines, frames):
        client.begin_call("count__once", key="never", delay=60_000)
    until(lambda: ledger.exists() and ledger.read_text().count("once never") == 2, "both calls run")
    assert daemon.stop() == 0
    for client in (lines, frames):
        error = client.answer_to(1)["error"]
        assert error["code"] == -32603
        assert "went out before the server answered; it may or may not have run" in error["message"]
        with pytest.raises(Closed):
            client.receive()


def test_nothing_that_comes_during_the_drain_is_taken_and_goodbye_says_so(scratch: Scratch) -> None:
    ledger = scratch.home / "ledger"
    daemon = scratch.serve({"count": server("counting", ledger)})
    lines, frames, mute = scratch.lines(), scratch.frames(), scratch.control()
    lines.ask("ping")
    frames.begin_call("count__once", key="before", delay=500)
    noted(ledger, "once before")
    daemon.signal(signal.SIGTERM)
    assert frames.receive_type("goodbye")[0]["taken"] == 1
    frames.begin_call("count__once", key="after")
    # A client of lines has nobody who would send it again, so it gets an answer.
    assert "shutting down" in lines.call("count__once", key="after")["error"]["message"]
    # One that was connected and had not spoken yet is greeted and sent away.
    mute.hello()
    assert mute.receive_type("goodbye")[0]["taken"] == 0
    mute.begin_call("count__once", key="after")
    assert text_of(frames.answer_to(1)) == "once before"
    assert daemon.wait() == 0
    assert "once after" not in ledger.read_text()


def test_being_told_a_second_time_ends_the_drain(scratch: Scratch) -> None:
    ledger = scratch.home / "ledger"
    daemon = scratch.serve({"count": server("counting", ledger)}, drain_timeout=600)
    client = scratch.frames()
    client.begin_call("count__once", key="never", delay=60_000)
    noted(ledger, "once never")
    daemon.signal(signal.SIGTERM)
    client.receive_type("goodbye")

    def told_again() -> bool:
        # Twice at once counts as once: a terminal's Ctrl-C reaches daemon and watcher.
        daemon.signal(signal.SIGTERM)
        return exits_within(daemon, 0.3)

    until(told_again, "the daemon hurries")
    assert "error" in client.answer_to(1)


def test_an_interrupt_that_comes_again_until_the_end_does_not_change_the_exit_code(scratch: Scratch) -> None:
    """Ctrl-C reaches the daemon twice, by its watcher the second time, which may be late."""
    daemon = scratch.serve()
    pid = daemon.pid
    while not is_gone(pid):
        try:
            os.kill(pid, signal.SIGINT)
        except ProcessLookupError:
            break
        # Time for it to get on with its end, and less than the end takes.
        time.sleep(0.0005)
    assert daemon.wait() == 0


def test_subscriptions_of_lines_are_completed_at_the_end(scratch: Scratch) -> None:
    daemon = scratch.start()
    client = scratch.lines()
    client.begin("subscriptions/listen", modern(notifications={"toolsListChanged": True}), id="s")
    client.next_called("notifications/subscriptions/acknowledged")
    daemon.signal(signal.SIGTERM)
    done = client.answer_to("s")["result"]
    assert done["resultType"] == "complete"
    assert done["_meta"][f"{PREFIX}subscriptionId"] == "s"
    assert daemon.wait() == 0


def test_a_server_that_is_just_being_started_does_not_hold_up_the_end(scratch: Scratch) -> None:
    daemon = scratch.serve({"silent": server("silent")}, drain_timeout=0)
    client = scratch.lines()
    client.begin("tools/list")
    pids_of(scratch, "silent")
    assert daemon.stop() == 0
    assert "error" in client.answer_to(1)


# --- stubborn servers


def stubborn(scratch: Scratch) -> tuple[Daemon, list[int]]:
    """A daemon with servers that do not want to go; the pids of the servers and of their children.

    The child of one stays in its group, the child of the other has left it.
    """
    daemon = scratch.serve({"plain": server("stubborn"), "away": server("stubborn", "--escape")}, drain_timeout=0.2)
    client = scratch.lines()
    said = [text_of(client.call(f"{name}__pids")) for name in ("plain", "away")]
    pids = [int(word) for words in said for word in words.split()]
    assert not any(is_gone(pid) for pid in pids)
    return daemon, pids


def test_a_stop_ends_servers_that_ignore_it_and_their_children(scratch: Scratch) -> None:
    daemon, pids = stubborn(scratch)
    control = scratch.control()
    assert control.control("shutdown")[0]["ok"] is True
    with pytest.raises(Closed):
        control.receive_frame()
    # The end of the control connection says that it has gone: its servers need not be waited for. What stayed in a
    # server's group was killed with it, which takes the kernel a moment.
    assert is_gone(pids[0])
    assert is_gone(pids[2])
    until(lambda: is_gone(pids[1]), "the server's child is dead")
    assert not os.path.lexists(scratch.socket)
    # What left its group is ended by the watcher, which goes last.
    assert daemon.wait() == 0
    assert is_gone(pids[3])
    assert_nothing_is_left(scratch)


def test_a_daemon_killed_with_9_leaves_neither_servers_nor_their_children(scratch: Scratch) -> None:
    daemon, pids = stubborn(scratch)
    os.kill(daemon.pid, signal.SIGKILL)
    # The watcher exits when the kernel says that it has no child left.
    assert daemon.wait() == 128 + signal.SIGKILL
    assert all(is_gone(pid) for pid in pids)
    assert pids_at_home(str(scratch.home)) == []


def test_the_child_of_a_server_that_died_is_ended_with_it(scratch: Scratch) -> None:
    daemon, (pid, grandchild, *_) = stubborn(scratch)
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(grandchild), "the grandchild is gone")
    assert scratch.upstream("plain")["pids"] == []
    # Not by the slow way, which is another test's.
    os.kill(daemon.pid, signal.SIGKILL)


# --- the socket file


def test_a_daemon_whose_socket_was_replaced_goes_and_leaves_the_new_one_alone(scratch: Scratch) -> None:
    daemon = scratch.serve(heartbeat_interval=0.1)
    client = scratch.frames()
    os.unlink(scratch.socket)
    Path(scratch.socket).write_text("somebody else's")
    client.heartbeat()
    goodbye, _ = client.receive_type("goodbye")
    assert goodbye["reconnect"] is True
    assert "another socket has taken the place" in goodbye["reason"]
    assert daemon.wait() == 0
    assert Path(scratch.socket).read_text() == "somebody else's"


def test_the_registry_names_the_daemon_while_it_runs(scratch: Scratch) -> None:
    daemon = scratch.start()
    entry = json.loads(scratch.registry.read_text())
    status = scratch.status()
    assert entry["pid"] == status["pid"] == daemon.pid
    assert entry["daemonId"] == status["daemonId"]
    assert entry["endpoint"] == status["endpoint"] == scratch.socket
    assert set(entry) == {
        "daemonId", "endpoint", "pid", "startTime", "startedAt", "version", "protocol", "configHash",
    }  # fmt: skip
    with FramesClient(scratch.socket, {}) as client:
        assert client.session["daemonId"] == entry["daemonId"]


def exits_within(daemon: Daemon, seconds: float) -> bool:
    """Whether it ends; a wait that is expected to run out is the only way to see that something stays."""
    try:
        daemon.process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def test_a_daemon_that_lost_its_folder_leaves_the_entry_of_the_next_one_alone(scratch: Scratch) -> None:
    first = scratch.serve(heartbeat_interval=0.1)
    shutil.rmtree(scratch.runtime / "mcp")
    second = scratch.start()
    entry = json.loads(scratch.registry.read_text())
    # The first one notices that its socket is no longer there, and goes.
    assert first.process.wait() == 0
    assert json.loads(scratch.registry.read_text()) == entry
    assert scratch.status()["pid"] == entry["pid"]
    second.end()
    until(lambda: not scratch.registry.exists(), "the entry goes with its own daemon")


def test_a_server_that_exits_at_once_is_described_by_its_exit(scratch: Scratch) -> None:
    client = scratch.serve({"gone": {"command": "/bin/sh", "args": ["-c", "printf 'oh no' >&2; exit 7"]}}).lines()
    message = client.call("gone__x")["error"]["message"]
    assert "exit code 7" in message
    assert "oh no" in message
    assert "asyncio" not in scratch.logged()
    assert "lives on" not in scratch.logged()
