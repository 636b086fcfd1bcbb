"""Another config under a running daemon: only what changed is touched, and a bad one changes nothing."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.clients import Client, FramesClient, text_of
from support.daemon import Daemon, Scratch, pids_of, server
from support.kernel import is_gone, until

CHANGED = "notifications/tools/list_changed"
ECHO = ["echo__add", "echo__echo"]
CHANGING = ["change__burst", "change__grow", "change__quietly", "change__shrink"]


def by_signal(scratch: Scratch, daemon: Daemon) -> None:
    before = scratch.status()["configHash"]
    daemon.signal(signal.SIGHUP)
    until(lambda: scratch.status()["configHash"] != before or scratch.status()["configError"], "the signal was heard")


def by_request(scratch: Scratch, daemon: Daemon) -> None:
    with FramesClient(scratch.socket) as control:
        control.control("reload")


def by_a_new_session(scratch: Scratch, daemon: Daemon) -> None:
    """The file is looked at whenever a bridge comes, once it has been left alone for a second."""
    settled = time.time() - 5
    os.utime(scratch.config, (settled, settled))
    with FramesClient(scratch.socket, {}):
        pass


Way = Callable[[Scratch, Daemon], None]
WAYS = pytest.mark.parametrize("reload", [by_signal, by_request, by_a_new_session])


@WAYS
def test_a_server_that_was_added_is_announced_and_served(scratch: Scratch, reload: Way) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    client = scratch.lines().initialized()
    assert client.tools() == ECHO
    scratch.configure({"echo": server("echo"), "change": server("changing")})
    reload(scratch, daemon)
    client.next_called(CHANGED)
    assert client.tools() == [*ECHO, *CHANGING]


@WAYS
def test_a_server_that_was_removed_is_announced_and_its_process_ends(scratch: Scratch, reload: Way) -> None:
    daemon = scratch.serve({"echo": server("echo"), "change": server("changing")})
    client = scratch.lines().initialized()
    assert client.tools() == [*ECHO, *CHANGING]
    (pid,) = pids_of(scratch, "change")
    scratch.configure({"echo": server("echo")})
    reload(scratch, daemon)
    client.next_called(CHANGED)
    assert client.tools() == ECHO
    assert client.call("change__grow")["error"]["code"] == -32602
    until(lambda: is_gone(pid), "the process of the removed server has ended")


def test_a_server_that_changed_is_started_anew_and_the_others_are_left_alone(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo"), "change": server("changing")})
    client = scratch.lines().initialized()
    client.tools()
    (echo,), (change,) = pids_of(scratch, "echo"), pids_of(scratch, "change")
    scratch.configure({"echo": server("echo"), "change": server("big")})
    by_request(scratch, daemon)
    client.next_called(CHANGED)
    assert "change__verbatim" in client.tools()
    assert pids_of(scratch, "echo") == [echo]
    assert pids_of(scratch, "change") != [change]
    until(lambda: is_gone(change), "the former process has ended")


def test_a_change_that_nobody_tells_of_is_noticed_by_itself(scratch: Scratch) -> None:
    client = scratch.serve({"echo": server("echo")}).lines().initialized()
    client.tools()
    scratch.configure({"change": server("changing")})
    client.next_called(CHANGED)
    assert client.tools() == CHANGING


def test_a_disabled_server_is_as_good_as_removed(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    client = scratch.lines().initialized()
    assert client.tools() == ECHO
    scratch.configure({"echo": server("echo", disabled=True)})
    by_request(scratch, daemon)
    client.next_called(CHANGED)
    assert client.tools() == []
    assert scratch.status()["upstreams"] == []


def test_a_config_that_is_the_same_changes_nothing_and_is_not_announced(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    client = scratch.lines().initialized()
    client.tools()
    (pid,) = pids_of(scratch, "echo")
    by_request(scratch, daemon)
    assert client.ask("ping")["result"] == {}
    assert client.aside == []
    assert pids_of(scratch, "echo") == [pid]


@WAYS
def test_a_config_that_does_not_parse_leaves_the_old_one_running_and_the_status_says_so(
    scratch: Scratch, reload: Way
) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    client = scratch.lines()
    client.tools()
    before = scratch.status()
    scratch.write_config("idle_timeout = [\n")
    reload(scratch, daemon)
    status = scratch.status()
    assert str(scratch.config) in status["configError"]
    assert status["configHash"] == before["configHash"]
    assert status["upstreams"] == before["upstreams"]
    assert text_of(client.call("echo__echo", text="still")) == "still"
    assert "the config was not reloaded, the old one stays" in scratch.logged()


def test_a_reload_that_failed_is_answered_with_the_reason_and_one_that_succeeds_clears_it(scratch: Scratch) -> None:
    scratch.serve({"echo": server("echo")})
    control = scratch.control()
    scratch.write_config("idle_timeuot = 5\n")
    refused, _ = control.control("reload")
    assert refused["ok"] is False
    assert "idle_timeuot" in refused["message"]
    assert "idle_timeout" in refused["message"]
    scratch.configure({"echo": server("echo")}, idle_timeout=50)
    answer, _ = control.control("reload")
    assert answer["ok"] is True
    assert scratch.status()["configError"] is None


def test_calls_in_flight_on_a_removed_server_finish_and_then_its_process_ends(scratch: Scratch) -> None:
    ledger = scratch.home / "ledger"
    daemon = scratch.serve({"old": server("counting", ledger), "modern": server("modern")})
    client = scratch.frames()
    id = client.begin_call("old__once", key="slow", delay=800)
    client.call("modern__echo", text="x")
    until(lambda: ledger.exists() and "once slow" in ledger.read_text(), "the call runs")
    pids = [*pids_of(scratch, "old"), *pids_of(scratch, "modern")]
    scratch.configure()
    by_request(scratch, daemon)
    assert text_of(client.answer_to(id)) == "once slow"
    # Well within drain_timeout: Hearth's own subscription at the modern one is no call of a client's.
    until(lambda: all(is_gone(pid) for pid in pids), "the processes of the removed servers have ended", bound=8)


def test_a_call_that_waits_for_a_removed_server_s_start_gets_an_answer(scratch: Scratch) -> None:
    daemon = scratch.serve({"silent": server("silent")}, drain_timeout=0.2)
    client = scratch.lines()
    id = client.begin_call("silent__x")
    pids_of(scratch, "silent")
    scratch.configure(drain_timeout=0.2)
    by_request(scratch, daemon)
    error = client.answer_to(id)["error"]
    assert error["code"] == -32603
    assert "'silent'" in error["message"]


def test_settings_are_in_force_after_a_reload(scratch: Scratch) -> None:
    daemon = scratch.serve(idle_timeout=600, heartbeat_interval=0.1)
    scratch.configure(idle_timeout=0.2)
    by_request(scratch, daemon)
    assert daemon.wait() == 0


def test_a_file_that_vanishes_is_a_config_of_defaults(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    scratch.config.unlink()
    by_request(scratch, daemon)
    assert scratch.status()["upstreams"] == []
    assert scratch.status()["configHash"] == ""


def test_the_registry_carries_the_hash_of_the_config_in_force(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    before = Path(scratch.registry).read_text()
    scratch.configure({"echo": server("big")})
    by_request(scratch, daemon)
    after = Path(scratch.registry).read_text()
    assert scratch.status()["configHash"] in after
    assert scratch.status()["configHash"] not in before
    assert os.stat(scratch.registry).st_mode & 0o777 == 0o600


def test_a_session_for_a_server_that_was_removed_sees_nothing_and_goes_on(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    client = scratch.frames(server="echo")
    assert client.tools() == ["add", "echo"]
    scratch.configure()
    by_request(scratch, daemon)
    assert client.tools() == []
    assert client.call("echo")["error"]["code"] == -32602
    assert "server 'echo' is not in the config any more" in client.call("echo")["error"]["message"]


def test_a_session_for_a_server_that_comes_back_is_told_and_served_again(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    client = scratch.frames(server="echo")
    client.initialize()
    assert client.tools() == ["add", "echo"]
    scratch.configure()
    by_request(scratch, daemon)
    client.next_called(CHANGED)
    scratch.configure({"echo": server("echo")})
    by_request(scratch, daemon)
    client.next_called(CHANGED)
    assert client.tools() == ["add", "echo"]
    assert text_of(client.call("echo", text="again")) == "again"


# --- only what changed is touched


def notices(client: Client) -> list[str]:
    """The notices that have come so far; the answer to a ping comes behind them."""
    assert client.ask("ping")["result"] == {}
    found = [message["method"] for message in client.aside]
    client.aside.clear()
    return found


def test_clients_are_told_once_of_all_that_a_reload_changes(scratch: Scratch) -> None:
    daemon = scratch.serve({"gone": server("echo"), "stays": server("echo"), "other": server("echo")})
    client, alone = scratch.lines(), scratch.frames(server="stays")
    for each in (client, alone):
        each.initialize()
        each.tools()
    scratch.configure({"stays": server("echo"), "other": server("big"), "new": server("changing")})
    by_request(scratch, daemon)
    client.next_called(CHANGED)
    seen = client.tools()
    assert {name.partition("__")[0] for name in seen} == {"stays", "other", "new"}
    assert "other__verbatim" in seen
    # Everything is known by now, and nothing of it is told a second time.
    client.call("new__shrink", name="nothing")
    assert set(notices(client)) <= {CHANGED}
    assert notices(alone) == []


def test_servers_in_another_order_are_listed_in_it_and_none_is_started_anew(scratch: Scratch) -> None:
    first, second = {"a": server("echo")}, {"b": server("echo")}
    daemon = scratch.serve(first | second)
    client = scratch.lines().initialized()
    assert client.tools() == ["a__add", "a__echo", "b__add", "b__echo"]
    pids = [pids_of(scratch, name) for name in ("a", "b")]
    scratch.configure(second | first)
    by_request(scratch, daemon)
    client.next_called(CHANGED)
    assert client.tools() == ["b__add", "b__echo", "a__add", "a__echo"]
    assert [pids_of(scratch, name) for name in ("a", "b")] == pids
    assert notices(client) == []


def test_a_key_that_only_hearth_goes_by_is_in_force_for_the_calls_that_run_and_touches_no_process(
    scratch: Scratch,
) -> None:
    ledger = scratch.home / "ledger"
    daemon = scratch.serve({"count": server("counting", ledger, max_concurrency=1)})
    client = scratch.frames()
    first = client.begin_call("count__once", key="first", delay=600_000)
    until(lambda: ledger.exists() and "once first" in ledger.read_text(), "the first call runs")
    second = client.begin_call("count__once", key="second", delay=0)
    pids = pids_of(scratch, "count")
    # One at a time: the second waits for its turn, and gets it as soon as there is no such limit.
    scratch.configure({"count": server("counting", ledger)})
    by_request(scratch, daemon)
    assert text_of(client.answer_to(second)) == "once second"
    scratch.configure({"count": server("counting", ledger, call_timeout=0.2, instance_idle=5)})
    by_request(scratch, daemon)
    assert "call_timeout" in client.answer_to(first)["error"]["message"]
    assert pids_of(scratch, "count") == pids
    assert notices(client) == []


def test_a_limit_that_a_reload_sets_holds_for_the_next_call(scratch: Scratch) -> None:
    ledger = scratch.home / "ledger"
    daemon = scratch.serve({"count": server("counting", ledger)})
    client = scratch.frames()
    first = client.begin_call("count__once", key="first", delay=300)
    until(lambda: ledger.exists() and "once first" in ledger.read_text(), "the first call runs")
    scratch.configure({"count": server("counting", ledger, max_concurrency=1)})
    by_request(scratch, daemon)
    second = client.begin_call("count__once", key="second", delay=0)
    assert client.receive()["id"] == first
    assert text_of(client.answer_to(second)) == "once second"


def test_a_call_that_a_removed_server_does_not_finish_in_time_gets_a_sentence(scratch: Scratch) -> None:
    ledger = scratch.home / "ledger"
    daemon = scratch.serve({"count": server("counting", ledger)}, drain_timeout=0.2)
    client = scratch.frames()
    id = client.begin_call("count__once", key="slow", delay=600_000)
    until(lambda: ledger.exists() and "once slow" in ledger.read_text(), "the call runs")
    (pid,) = pids_of(scratch, "count")
    scratch.configure(drain_timeout=0.2)
    by_request(scratch, daemon)
    error = client.answer_to(id)["error"]
    assert error["code"] == -32603
    assert "server 'count' is ended, for another config or because somebody restarts it" in error["message"]
    assert "may or may not have run" in error["message"]
    until(lambda: is_gone(pid), "its process has ended")


def test_calls_that_wait_for_their_turn_at_a_changed_server_have_it(scratch: Scratch) -> None:
    ledger = scratch.home / "ledger"
    daemon = scratch.serve({"count": server("counting", ledger, max_concurrency=1)})
    client = scratch.frames()
    ids = [client.begin_call("count__once", key=f"k{number}", delay=100) for number in range(4)]
    until(lambda: ledger.exists() and "once k0" in ledger.read_text(), "the first call runs")
    scratch.configure({"count": server("counting", ledger, 0, max_concurrency=1)})
    by_request(scratch, daemon)
    assert [text_of(client.answer_to(id)) for id in ids] == [f"once k{number}" for number in range(4)]
