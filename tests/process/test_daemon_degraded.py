"""A daemon that cannot serve says why to every request, and serves as soon as the cause is mended."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from support.clients import Closed, FramesClient, Message
from support.daemon import COMMAND, Scratch, server
from support.installation import Installation
from support.kernel import BOUND_SECONDS, pids_at_home, until
from support.socket_activation import Activation

BROKEN = "idle_timeout = 60\n[mcpServers.echo\n"
AT_FAULT = "config.toml:2: is not valid TOML"


@pytest.fixture
def broken(scratch: Scratch) -> Scratch:
    scratch.write_config(BROKEN)
    scratch.start()
    return scratch


def mend(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})


def assert_explained(answer: Message, id: object, words: str) -> None:
    assert answer["id"] == id
    assert answer["error"]["code"] == -32603
    assert words in answer["error"]["message"]


def serves(scratch: Scratch) -> bool:
    with scratch.lines() as client:
        return "result" in client.ask("ping")


@pytest.mark.quick
def test_every_request_is_answered_with_the_reason(broken: Scratch, wire: str) -> None:
    client = broken.lines() if wire == "lines" else broken.frames()
    for id, method in [(1, "initialize"), ("two", "tools/list"), (3.5, "server/discover"), (2**70, "ping")]:
        assert_explained(client.ask(method, id=id), id, f"{broken.config}")
    client.notify("notifications/initialized")
    assert_explained(client.ask("ping", id="last"), "last", AT_FAULT)


def test_each_request_of_a_batch_is_answered_with_the_reason_in_one_array(broken: Scratch, wire: str) -> None:
    client = broken.lines() if wire == "lines" else broken.frames()
    notice = {"jsonrpc": "2.0", "method": "notifications/x"}
    requests = [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in (1, "two")]
    client.send_line(json.dumps([notice]).encode())
    client.send_line(json.dumps([requests[0], notice, 7, requests[1]]).encode())
    first, second = json.loads(client.receive_line())
    assert_explained(first, 1, AT_FAULT)
    assert_explained(second, "two", AT_FAULT)


def test_what_is_not_json_is_answered_without_an_id(broken: Scratch) -> None:
    client = broken.lines()
    client.send_line(b'{"jsonrpc": "2.0" "id": 1}')
    answer = client.receive()
    assert answer["error"]["code"] == -32700
    assert "id" not in answer


def test_a_request_without_a_line_end_before_the_end_of_input_is_answered(broken: Scratch) -> None:
    client = broken.lines()
    client.stream.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    client.stream.end_input()
    assert_explained(client.receive(), 1, AT_FAULT)
    with pytest.raises(Closed):
        client.receive()


def test_frames_get_a_session_and_notifications_are_acknowledged(broken: Scratch) -> None:
    client = broken.frames()
    assert client.session["isOwner"] is False
    client.notify("notifications/initialized")
    assert client.receive_type("ack")[0] == {"type": "ack", "seq": 1, "done": [1]}


def test_the_status_says_that_and_why_it_is_degraded(broken: Scratch) -> None:
    status = broken.status()
    assert status["running"] is True
    assert str(broken.config) in status["degraded"]
    assert status["upstreams"] == status["sessions"] == []
    assert json.loads(broken.registry.read_text())["pid"] == status["pid"]


@pytest.mark.quick
def test_after_the_mending_the_next_connection_is_served(broken: Scratch) -> None:
    assert_explained(broken.lines().ask("ping"), 1, AT_FAULT)
    mend(broken)
    with broken.lines() as client:
        client.initialize()
        assert client.tools() == ["echo__add", "echo__echo"]


def test_after_the_mending_a_bridge_is_told_to_come_back_with_what_was_not_taken(broken: Scratch) -> None:
    client = broken.frames()
    assert_explained(client.ask("ping"), 1, AT_FAULT)
    mend(broken)
    client.begin("ping")
    goodbye, _ = client.receive_type("goodbye")
    assert (goodbye["reconnect"], goodbye["taken"]) == (True, 1)
    with pytest.raises(Closed):
        client.receive_frame()
    again = broken.frames(resume={"sessionId": client.session["sessionId"], "secret": client.session["secret"]})
    assert again.ask("ping")["result"] == {}


def test_after_the_mending_an_open_connection_of_lines_gets_its_answer_too(broken: Scratch) -> None:
    client = broken.lines()
    client.ask("ping")
    mend(broken)
    # Nobody sends it again for such a client, so it is not left without an answer.
    assert "error" in client.ask("ping")
    with broken.lines() as fresh:
        assert fresh.ask("ping")["result"] == {}


def test_a_mended_daemon_takes_its_socket_away_when_it_goes(broken: Scratch) -> None:
    mend(broken)
    with broken.lines() as client:
        assert client.ask("ping")["result"] == {}
    broken.control().control("shutdown")
    until(lambda: not pids_at_home(str(broken.home)), "everything has ended")
    assert not os.path.lexists(broken.socket)
    assert not broken.registry.exists()


def test_it_stays_when_nobody_reads_its_errors_any_more(scratch: Scratch) -> None:
    scratch.write_config(BROKEN)
    reader, errors = os.pipe()
    with subprocess.Popen(COMMAND, env=scratch.environment(), stderr=errors) as process:
        os.close(errors)
        assert AT_FAULT.encode() in os.read(reader, 4096)
        os.close(reader)
        until(lambda: os.path.exists(scratch.socket), "the socket")
        # Touched, so that it executes itself anew at the first connection, and would say it again.
        os.utime(scratch.config)
        for _ in range(2):
            assert_explained(scratch.lines().ask("ping", id=1), 1, AT_FAULT)
        process.terminate()
        assert process.wait(BOUND_SECONDS) == 0


def test_a_daemon_that_stays_degraded_does_not_multiply(broken: Scratch) -> None:
    first = sorted(pids_at_home(str(broken.home)))
    for attempt in range(3):
        # Another file that is as broken: each time the daemon tries anew.
        broken.write_config(f"# {attempt}\n{BROKEN}")
        with broken.lines() as client:
            assert_explained(client.ask("ping"), 1, "config.toml:3: is not valid TOML")
    assert sorted(pids_at_home(str(broken.home))) == first


def test_a_hang_up_makes_it_look_again(scratch: Scratch) -> None:
    scratch.write_config(BROKEN)
    daemon = scratch.start()
    client = scratch.frames()
    mend(scratch)
    daemon.signal(signal.SIGHUP)
    assert client.receive_type("goodbye")[0]["reconnect"] is True
    assert scratch.lines().ask("ping")["result"] == {}


def test_a_shutdown_is_granted_and_leaves_nothing(broken: Scratch) -> None:
    assert broken.control().control("shutdown")[0]["ok"] is True
    until(lambda: not pids_at_home(str(broken.home)), "everything has ended")
    assert not os.path.lexists(broken.socket)
    assert not broken.registry.exists()


def test_a_second_daemon_does_not_start_beside_a_degraded_one(broken: Scratch) -> None:
    second = broken.attempt()
    assert second.wait() == 3
    assert second.said.startswith("running ")


@pytest.fixture
def installation(scratch: Scratch) -> Iterator[Installation]:
    mend(scratch)
    yield Installation(scratch.home / "venv")


@pytest.mark.parametrize("module", ["daemon/daemon.py", "wire/json.py", "config/model.py"])
def test_a_broken_installation_is_explained(scratch: Scratch, installation: Installation, module: str) -> None:
    installation.truncate(module)
    scratch.start(command=installation.command)
    with FramesClient(scratch.socket, {}) as client:
        assert_explained(client.ask("initialize"), 1, "installation is broken (")
    with scratch.lines() as client:
        assert_explained(client.ask("tools/list"), 1, "install it again")


def test_after_a_new_installation_the_daemon_serves(scratch: Scratch, installation: Installation) -> None:
    installation.truncate("hub/router.py")
    scratch.start(command=installation.command)
    assert not serves(scratch)
    installation.install()
    until(lambda: serves(scratch), "it looks again after a while")
    with scratch.lines() as client:
        assert client.tools() == ["echo__add", "echo__echo"]


# --- when not even the guard can be loaded


@pytest.mark.parametrize("module", ["daemon/main.py", "errors.py", "host/listener.py"])
def test_a_starter_is_told_that_not_even_the_guard_can_be_loaded(
    scratch: Scratch, installation: Installation, module: str
) -> None:
    installation.truncate(module)
    daemon = scratch.attempt(command=installation.command)
    assert daemon.wait() == 1
    assert "installation is broken (" in daemon.said
    assert daemon.said.count("\n") == 1


def test_an_activated_daemon_reaches_accept_all_the_same_and_serves_after_a_new_installation(
    scratch: Scratch, installation: Installation
) -> None:
    installation.truncate("errors.py")
    # The address of a manager is how it knows that it was activated, when it knows nothing else.
    activation = Activation(scratch, installation.command, NOTIFY_SOCKET=str(scratch.home / "nobody"))
    try:
        with scratch.lines() as client:
            assert_explained(client.ask("ping", id="x"), "x", "install it again")
            client.send_line(b'[{"jsonrpc":"2.0","id":"y","method":"ping"}]')
            (answer,) = json.loads(client.receive_line())
            assert_explained(answer, "y", "install it again")
        with scratch.control() as client:
            assert "install it again" in scratch.status()["degraded"]
            client.send_frame({"type": "hello", "protocol": 1})
            assert client.receive_type("helloAck")[0]["sessionId"] == "degraded"
            assert_explained(client.ask("initialize", id=9), 9, "installation is broken (")
        installation.install()
        until(lambda: serves(scratch), "it looks again after a while")
        assert scratch.status()["pid"] == activation.process.pid
        assert activation.end() == 0
    finally:
        activation.end()
