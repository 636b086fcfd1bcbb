"""Servers that misbehave: who waits for one is told which, and the next call finds a good one."""

import os
import signal
from pathlib import Path

import pytest

from support.clients import modern, text_of
from support.daemon import Scratch, pids_of, server
from support.kernel import is_gone, until

CHANGED = "notifications/tools/list_changed"
# Where a server's unanswered request must be given up in a test.
SHORT_SECONDS = 0.5


def starts(ledger: Path) -> list[int]:
    return [int(line) for line in ledger.read_text().split()]


def in_flight(scratch: Scratch, name: str) -> int:
    return sum(instance["inFlight"] for instance in scratch.upstream(name)["instances"])


# --- pipes that end while the server lives


def test_a_server_that_closes_its_output_and_lives_on_is_ended_and_started_anew(scratch: Scratch) -> None:
    ledger = scratch.home / "starts"
    scratch.serve({"closing": server("closing", ledger)})
    client, other = scratch.lines(), scratch.frames()
    client.call("closing__echo", text="x")
    (pid,) = pids_of(scratch, "closing")
    # It has both calls, in this order, before it does anything.
    os.kill(pid, signal.SIGSTOP)
    closing = client.begin_call("closing__close_output")
    until(lambda: in_flight(scratch, "closing") == 1, "it has the one")
    waiting = other.begin_call("closing__echo", text="never")
    until(lambda: in_flight(scratch, "closing") == 2, "it has the other")
    os.kill(pid, signal.SIGCONT)
    for error in (client.answer_to(closing)["error"], other.answer_to(waiting)["error"]):
        assert error["code"] == -32603
        assert "server 'closing'" in error["message"]
    assert text_of(other.call("closing__echo", text="anew")) == "anew"
    first, second = starts(ledger)
    assert first == pid
    until(lambda: is_gone(first), "the former process has ended")
    assert pids_of(scratch, "closing") == [second]


def test_a_server_that_closes_its_input_and_lives_on_is_ended_and_started_anew(scratch: Scratch) -> None:
    ledger = scratch.home / "starts"
    client = scratch.serve({"closing": server("closing", ledger)}).lines()
    assert text_of(client.call("closing__close_input")) == "closing"
    # One may come before the end of the pipe has been seen: it names the server, too.
    answer = client.call("closing__echo", text="between")
    assert "error" not in answer or "server 'closing'" in answer["error"]["message"]
    until(lambda: is_gone(starts(ledger)[0]), "the former process has ended")
    assert text_of(client.call("closing__echo", text="anew")) == "anew"
    assert pids_of(scratch, "closing") == starts(ledger)[1:]


# --- last words


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (server("dying", "--on", "start"), "died at the start"),
        (server("dying", "--on", "tools/list"), "died of tools/list"),
        (server("wilful", "--mourn", "a farewell", "--mute", "tools/list", start_timeout=SHORT_SECONDS), "a farewell"),
    ],
)
def test_what_a_server_says_before_its_start_fails_is_told_to_the_client_and_not_logged(
    scratch: Scratch, entry: dict[str, object], words: str
) -> None:
    client = scratch.serve({"failing": entry}).lines()
    error = client.call("failing__echo")["error"]["message"]
    assert "server 'failing'" in error
    assert words in error
    assert words in scratch.upstream("failing")["error"]
    assert "could not be started" in scratch.logged()
    assert words not in scratch.logged()


def test_what_a_server_says_before_it_dies_in_a_call_is_in_the_status_and_not_logged(scratch: Scratch) -> None:
    scratch.serve({"dying": server("dying")})
    scratch.lines().call("dying__die")
    until(lambda: "died in a call" in (scratch.upstream("dying")["error"] or ""), "the status has its last words")
    assert "it ended by itself (exit code 3)" in scratch.logged()
    assert "died in a call" not in scratch.logged()


# --- another config while somebody waits for a server


def test_a_list_that_waits_for_a_slow_server_has_the_tools_of_the_one_in_its_place(scratch: Scratch) -> None:
    client = scratch.serve({"slow": server("silent"), "other": server("echo")}).lines()
    id = client.begin("tools/list")
    pids_of(scratch, "slow")
    scratch.reconfigure({"slow": server("echo"), "other": server("echo")})
    names = [tool["name"] for tool in client.answer_to(id)["result"]["tools"]]
    assert names == ["slow__add", "slow__echo", "other__add", "other__echo"]


def test_a_list_that_waits_for_one_slow_server_after_another_ends_with_its_time(scratch: Scratch) -> None:
    settings = {"list_timeout": 2 * SHORT_SECONDS, "drain_timeout": SHORT_SECONDS / 2}
    client = scratch.serve({"slow": server("silent"), "other": server("echo")}, **settings).lines()
    id = client.begin("tools/list")
    (pid,) = pids_of(scratch, "slow")
    scratch.reconfigure({"slow": server("silent", "another"), "other": server("echo")}, **settings)
    names = [tool["name"] for tool in client.answer_to(id)["result"]["tools"]]
    assert names == ["other__add", "other__echo"]
    until(lambda: is_gone(pid), "the former process has ended")


@pytest.mark.parametrize("bound_to", [None, "slow"])
def test_a_call_that_waits_for_a_slow_server_is_served_by_the_one_in_its_place(
    scratch: Scratch, bound_to: str | None
) -> None:
    scratch.serve({"slow": server("silent")})
    client = scratch.frames(server=bound_to) if bound_to else scratch.frames()
    id = client.begin_call("echo" if bound_to else "slow__echo", text="heard")
    pids_of(scratch, "slow")
    scratch.reconfigure({"slow": server("echo")})
    assert text_of(client.answer_to(id)) == "heard"


def test_a_call_that_waits_for_a_slow_restart_is_served_by_the_server_in_its_place(scratch: Scratch) -> None:
    slow = scratch.home / "slow"
    client = scratch.serve({"slow": server("wilful", "--mute", "initialize", "--while", slow)}).lines()
    client.call("slow__echo", text="x")
    (pid,) = pids_of(scratch, "slow")
    slow.touch()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not scratch.upstream("slow")["pids"], "its death was noticed")
    id = client.begin_call("slow__echo", text="heard")
    pids_of(scratch, "slow")
    scratch.reconfigure({"slow": server("echo")})
    assert text_of(client.answer_to(id)) == "heard"


# --- lists that are outdated, or never come


def test_a_list_that_is_outdated_in_the_write_that_brings_it_is_fetched_again(scratch: Scratch) -> None:
    client = scratch.serve({"wilful": server("wilful", "--early")}).lines().initialized()
    if "wilful__late" not in client.tools():
        client.next_called(CHANGED)
        assert "wilful__late" in client.tools()
    assert text_of(client.call("wilful__late")) == "late"


@pytest.mark.parametrize("noticed", ["after the wait", "during the wait"])
def test_a_list_that_never_comes_does_not_keep_later_ones_away(scratch: Scratch, noticed: str) -> None:
    scratch.serve({"wilful": server("wilful", "--mute", "tools/list@2", start_timeout=2 * SHORT_SECONDS)})
    client = scratch.lines().initialized()
    client.tools()
    client.call("wilful__grow", name="one")
    if noticed == "after the wait":
        until(lambda: "its lists could not be read again: no answer within" in scratch.logged(), "the wait is over")
    client.call("wilful__grow", name="two")
    client.next_called(CHANGED)
    assert client.tools() == [f"wilful__{name}" for name in ("echo", "grow", "one", "raw", "two")]


# --- unanswered requests of Hearth's own at a server that is to go


@pytest.mark.parametrize("method", ["server/discover", "tools/list@2"])
def test_a_server_is_retired_at_once_although_it_owes_hearth_an_answer(scratch: Scratch, method: str) -> None:
    wilful = server("wilful", "--mute", method, start_timeout=2 * SHORT_SECONDS)
    # Longer than anything here waits for: a retirement that takes this long fails.
    client = scratch.serve({"wilful": wilful}, drain_timeout=300).lines()
    client.call("wilful__grow", name="one")
    if method != "server/discover":
        until(lambda: "its lists could not be read again" in scratch.logged(), "the wait is over")
    (pid,) = pids_of(scratch, "wilful")
    scratch.reconfigure(drain_timeout=300)
    until(lambda: is_gone(pid), "the retired server has ended")


# --- errors that are none


@pytest.mark.parametrize(
    "error", ['"boom"', "null", "[]", "{}", '{"code":"x","message":"m"}', '{"code":1,"message":2}']
)
def test_an_error_that_is_none_reaches_clients_of_both_eras_as_one(scratch: Scratch, error: str) -> None:
    client = scratch.serve({"wilful": server("wilful")}).lines()
    call = {"name": "wilful__raw", "arguments": {"json": f'"error":{error}'}}
    for params in (call, modern(**call)):
        found = client.ask("tools/call", params)["error"]
        assert found["code"] == -32603
        assert isinstance(found["message"], str)


# --- names


def test_a_tool_of_a_server_with_a_long_name_is_found_by_its_name_on_a_fresh_daemon(scratch: Scratch) -> None:
    daemon = scratch.serve({"a" * 56: server("big")})
    with scratch.lines() as client:
        # `verbatim`, the last by its own name; too long together, it ends in a hash.
        name = client.tools()[-1]
    assert len(name) == 64
    assert daemon.stop() == 0
    scratch.start()
    assert scratch.lines().call(name, json='{"found":true}')["result"] == {"found": True}
