"""What runs out or must not get out: descriptors, terminals, log files, secrets in them."""

import os
import signal
import subprocess
import time
from contextlib import closing, suppress

import pytest

from hearth.upstreams.supervision import RESTART_LIMIT
from support.clients import Closed, LinesClient, text_of
from support.daemon import COMMAND, Scratch, server
from support.kernel import BOUND_SECONDS, until


def test_under_a_low_limit_of_open_files_those_who_fit_are_served_and_others_told_what_to_raise(
    scratch: Scratch,
) -> None:
    scratch.configure({"echo": server("echo")})
    scratch.start(command=("sh", "-c", 'ulimit -n 80; exec "$@"', "sh", *COMMAND))
    crowd = [scratch.lines() for _ in range(30)]
    for client in crowd:
        # Who was refused has been told so, and need not be there any more when it speaks.
        with suppress(BrokenPipeError):
            client.begin("ping")
    answers = [client.receive() for client in crowd]
    served = [client for client, answer in zip(crowd, answers, strict=True) if "result" in answer]
    refusals = [answer["error"]["message"] for answer in answers if "error" in answer]
    assert served
    assert all("ulimit -n" in refusal for refusal in refusals)
    assert len(served) + len(refusals) == 30
    # There is still room for a server, and for who asks for the status.
    assert text_of(served[0].call("echo__echo", text="room")) == "room"
    assert len(scratch.status()["sessions"]) == len(served)
    for client in crowd:
        client.close()
    until(lambda: scratch.status()["sessions"] == [], "all have left")
    assert scratch.lines().ask("ping")["result"] == {}


def test_in_a_terminal_a_hang_up_means_the_end(scratch: Scratch) -> None:
    master, slave = os.openpty()
    child = subprocess.Popen(COMMAND, env=scratch.environment(), stdin=slave, stdout=slave, stderr=slave, cwd="/")
    os.close(slave)
    try:
        until(lambda: os.path.lexists(scratch.socket), "it listens")
        client = scratch.frames()
        child.send_signal(signal.SIGHUP)
        assert client.receive_type("goodbye")[0]["reason"] == "the terminal was closed"
        assert child.wait(BOUND_SECONDS) == 0
    finally:
        child.kill()
        child.wait()
        os.close(master)


def test_the_log_is_private_and_has_no_secret_and_no_payload_in_it(scratch: Scratch) -> None:
    scratch.configure(
        {
            "rec": server("recording", scratch.home / "record", env={"TOKEN": "${A_SECRET}"}),
            "dying": server("dying"),
            "none": {"command": "/no/such", "env": {"TOKEN": "${A_SECRET}"}},
        }
    )
    scratch.start(A_SECRET="s3cret-value")
    client = scratch.lines()
    client.call("rec__echo", text="pay-load")
    client.call("dying__die", text="pay-load")
    client.call("none__x", text="pay-load")
    client.send_line(b'{"jsonrpc":"2.0","broken pay-load')
    client.ask("ping")
    assert "serving on" in scratch.logged()
    assert "could not be started" in scratch.logged()
    assert "s3cret-value" not in scratch.logged()
    assert "pay-load" not in scratch.logged()
    assert os.stat(scratch.log).st_mode & 0o777 == 0o600


def test_a_reference_that_leads_nowhere_is_an_error_that_names_server_and_variable(scratch: Scratch) -> None:
    scratch.serve({"rec": server("recording", scratch.home / "record", env={"TOKEN": "${NOT_SET_ANYWHERE}"})})
    message = scratch.lines().call("rec__echo")["error"]["message"]
    assert "'rec'" in message
    assert "NOT_SET_ANYWHERE" in message


def test_a_server_by_url_that_is_not_there_costs_its_own_callers_an_error_and_nobody_else_anything(
    scratch: Scratch,
) -> None:
    client = scratch.serve({"far": {"url": f"unix:{scratch.home}/nobody.sock"}, "echo": server("echo")}).lines()
    error = client.call("far__x")["error"]
    assert error["code"] == -32603
    assert "server 'far' could not be started" in error["message"]
    assert client.tools() == ["echo__add", "echo__echo"]
    assert text_of(client.call("echo__echo", text="heard")) == "heard"


def test_a_server_that_keeps_failing_is_given_up_until_the_config_is_reloaded(scratch: Scratch) -> None:
    starts = scratch.home / "starts"
    client = scratch.serve({"dying": server("dying", starts, "--on", "start", era="legacy")}).lines()
    refusals = [client.call("dying__echo")["error"]["message"] for _ in range(10)]
    assert len(starts.read_text().split()) == RESTART_LIMIT
    assert "was given up after 6 failures in a row" in refusals[-1]
    assert "died at the start" in refusals[-1]
    found = scratch.upstream("dying")
    assert (found["state"], found["givenUp"]) == ("failed", True)
    with closing(scratch.control()) as control:
        control.control("reload")
    assert "could not be started" in client.call("dying__echo")["error"]["message"]
    assert len(starts.read_text().split()) == RESTART_LIMIT + 1


def test_one_process_per_server_whatever_the_number_of_clients(scratch: Scratch) -> None:
    ledger = scratch.home / "ledger"
    scratch.serve({"count": server("counting", ledger)})
    clients = [scratch.lines() if number % 2 else scratch.frames() for number in range(30)]
    for number, client in enumerate(clients):
        client.begin_call("count__read", id=1, key=number)
    assert [text_of(client.answer_to(1)) for client in clients] == [f"read {number}" for number in range(30)]
    assert ledger.read_text().count("started") == 1


def test_a_second_hello_and_an_unknown_mode_are_refused(scratch: Scratch) -> None:
    scratch.start()
    client = scratch.frames()
    client.send_frame({"type": "hello", "protocol": 1})
    assert "a second hello" in client.receive_type("error")[0]["message"]
    with pytest.raises(Closed):
        client.receive_frame()
    other = scratch.control()
    other.send_frame({"type": "hello", "protocol": 1, "mode": "guess"})
    assert "--mode guess" in other.receive_type("error")[0]["message"]


def test_what_the_bridge_says_of_itself_is_in_the_status(scratch: Scratch) -> None:
    scratch.start()
    client = scratch.frames(cwd="/somewhere", role="lead", agentId="a-1", clientId="c-1")
    (session,) = scratch.status()["sessions"]
    assert (session["cwd"], session["role"], session["agentId"], session["wire"]) == (
        "/somewhere", "lead", "a-1", "frames",
    )  # fmt: skip
    assert session["connectedAt"] <= time.time()
    assert client.session["secret"] not in str(scratch.status())


def test_a_flood_of_connections_that_come_and_go_leaves_nothing_open(scratch: Scratch) -> None:
    daemon = scratch.start()
    before = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    for number in range(200):
        with LinesClient(scratch.socket) as client:
            if number % 3 == 0:
                client.ask("ping")
            elif number % 3 == 1:
                client.stream.send(b'{"jsonrpc"')
    until(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) <= before + 2, "every connection is closed")
    assert scratch.status()["sessions"] == []
