"""The daemon's life under a real systemd: lit by the first connection, out after the last, never missed in between."""

import pytest

from e2e.systemd.client import INITIALIZE, text_of
from e2e.systemd.machine import until
from e2e.systemd.seat import SERVICE, SOCKET, Seat

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]


def test_after_enable_now_systemd_listens_and_nothing_runs(seat: Seat) -> None:
    assert seat.state(SOCKET) == "active"
    assert seat.systemctl("is-enabled", SOCKET).strip() == "enabled"
    assert seat.state() == "inactive"
    assert seat.processes("hearth") == []
    assert seat.check("stat", "--format=%a %U %F", seat.socket).split() == ["600", seat.user.name, "socket"]
    assert seat.check("stat", "--format=%a", f"{seat.user.runtime}/mcp").strip() == "700"


def test_status_says_that_nothing_runs_and_wakes_nothing(seat: Seat) -> None:
    assert seat.status()["running"] is False
    assert "not running" in seat.hearth("status").stdout
    seat.ok("sessions")
    assert seat.state() == "inactive"
    assert seat.starts() == 0


@pytest.mark.usefixtures("protocols")
def test_the_first_bridge_gets_initialize_and_tools_list_answered(seat: Seat) -> None:
    client = seat.bridge()
    assert client.initialize()["_meta"]["hearth/daemonId"]
    assert "desk__echo" in client.tool_names()
    assert client.call("desk__echo", text="hello") == "hello"
    assert seat.starts() == 1


def test_main_pid_is_the_daemon_of_hearth_status(seat: Seat) -> None:
    seat.attached_bridge()
    document = seat.status()
    assert document["running"] is True
    assert str(document["pid"]) == seat.show("MainPID")
    assert document["activation"] == "systemd"
    assert document["endpoint"] == seat.socket
    assert [upstream["name"] for upstream in document["upstreams"]] == ["desk"]


def test_a_config_in_the_manager_s_environment_does_not_make_it_another_daemon(seat: Seat) -> None:
    # In a drop-in, where it is this test's alone; the manager's own environment reaches the unit in the same way.
    seat.add_drop_in("[Service]\nEnvironment=HEARTH_CONFIG=/nowhere/other.toml\n")
    seat.attached_bridge()
    document = seat.status()
    assert (document["running"], document["profile"], document["degraded"]) == (True, "mcp", None)
    assert document["configPath"] == seat.config_path
    seat.systemctl("reload", SERVICE)


def test_it_exits_after_the_idle_time_with_success_and_leaves_no_process(seat: Seat) -> None:
    seat.configure(idle_timeout=0.5)
    seat.attached_bridge().close()
    seat.await_state("inactive")
    assert seat.show("Result") == "success"
    assert seat.show("ExecMainStatus") == "0"
    assert seat.processes("hearth") == []
    assert seat.processes("desk.py") == []
    assert seat.state(SOCKET) == "active"


def test_the_next_bridge_wakes_a_new_daemon(seat: Seat) -> None:
    seat.configure(idle_timeout=0.5)
    first = seat.bridge()
    first_id = first.initialize()["_meta"]["hearth/daemonId"]
    first.close()
    seat.await_state("inactive")
    second = seat.bridge()
    assert second.initialize()["_meta"]["hearth/daemonId"] != first_id
    assert second.call("desk__echo", text="again") == "again"
    assert seat.starts() == 2


def test_waking_and_leaving_many_times_in_a_row_is_no_sign_of_trouble(seat: Seat) -> None:
    seat.configure(idle_timeout=0.1)
    rounds = 2 * int(seat.show("StartLimitBurst"))
    for number in range(rounds):
        seat.session().close()
        until(lambda: seat.state() == "inactive", f"daemon {number} is gone")
    assert seat.starts() == rounds
    assert seat.state(SOCKET) == "active"


def test_many_bridges_at_one_moment_wake_one_daemon_and_one_server(seat: Seat) -> None:
    clients = [seat.bridge() for _ in range(20)]
    calls = [(client, client.send("initialize", INITIALIZE)) for client in clients]
    assert len({client.answer(call)["_meta"]["hearth/daemonId"] for client, call in calls}) == 1
    servers = [client.send_call("desk__whoami") for client in clients]
    assert len({text_of(client.answer(call)) for client, call in zip(clients, servers, strict=True)}) == 1
    assert seat.starts() == 1
    assert len(seat.status()["sessions"]) == len(clients)


@pytest.mark.parametrize("deed", ["restart", "stop", "kill -9"])
def test_an_attached_bridge_survives_and_its_next_call_is_answered_after(seat: Seat, deed: str) -> None:
    client = seat.attached_bridge()
    before = seat.show("MainPID")
    server_before = client.call("desk__whoami")
    if deed == "kill -9":
        seat.check("kill", "-9", before)
    else:
        seat.systemctl(deed, SERVICE)
    assert client.call("desk__echo", text="still here") == "still here"
    assert client.is_alive
    assert seat.show("MainPID") not in ("0", before)
    # The servers of the old daemon went with it.
    assert client.call("desk__whoami") != server_before
    assert len(seat.processes("desk.py")) == 1


def test_stopping_the_socket_means_off_and_starting_it_means_on_again(seat: Seat) -> None:
    client = seat.attached_bridge()
    seat.systemctl("stop", SOCKET)
    assert (seat.state(SOCKET), seat.state()) == ("inactive", "inactive")
    assert seat.run("test", "-e", seat.socket).returncode == 1
    seat.systemctl("start", SOCKET)
    assert client.call("desk__echo", text="on") == "on"
    assert seat.state() == "active"


def test_the_service_started_by_name_takes_the_socket_of_the_unit(seat: Seat) -> None:
    seat.systemctl("stop", SOCKET)
    seat.systemctl("start", SERVICE)
    assert seat.state(SOCKET) == "active"
    seat.attached_bridge()
    assert seat.status()["activation"] == "systemd"


def test_a_self_started_daemon_hands_over_when_the_socket_unit_is_started(bare_seat: Seat) -> None:
    seat = bare_seat
    seat.configure()
    early = seat.attached_bridge()
    old = seat.status()
    assert old["activation"] == "self"
    seat.install()
    late = seat.attached_bridge()
    assert early.call("desk__echo", text="handed over") == "handed over"
    new = seat.status()
    assert new["activation"] == "systemd"
    assert str(new["pid"]) == seat.show("MainPID")
    assert len(new["sessions"]) == 2
    until(lambda: seat.run("kill", "-0", str(old["pid"])).returncode == 1, "the self-started daemon is gone")
    late.close()
    assert seat.attached_bridge().is_alive
    assert len(seat.processes("desk.py")) == 1


def test_the_socket_still_works_after_a_self_started_daemon_has_gone_by_itself(bare_seat: Seat) -> None:
    seat = bare_seat
    seat.configure(idle_timeout=0.5)
    early = seat.attached_bridge()
    old = seat.status()["pid"]
    seat.install()
    early.close()
    until(lambda: seat.run("kill", "-0", str(old)).returncode == 1, "the self-started daemon is gone")
    assert seat.run("test", "-S", seat.socket).returncode == 0
    seat.attached_bridge()
    assert seat.status()["activation"] == "systemd"


@pytest.mark.usefixtures("protocols")
def test_the_watchdog_kills_a_daemon_whose_loop_hangs(seat: Seat) -> None:
    seat.add_drop_in("[Service]\nWatchdogSec=1\n")
    seat.attached_bridge().close()
    seat.check("kill", "-STOP", seat.show("MainPID"))
    seat.await_state("failed")
    assert seat.show("Result") == "watchdog"
    assert seat.processes("desk.py") == []


def test_a_bridge_survives_the_watchdog_and_its_next_call_is_answered(seat: Seat) -> None:
    seat.add_drop_in("[Service]\nWatchdogSec=1\n")
    client = seat.attached_bridge()
    hung = seat.show("MainPID")
    seat.check("kill", "-STOP", hung)
    assert client.call("desk__echo", text="back") == "back"
    assert seat.show("MainPID") not in ("0", hung)


@pytest.mark.usefixtures("protocols")
def test_a_daemon_that_works_is_left_alone_by_the_watchdog(seat: Seat) -> None:
    seat.add_drop_in("[Service]\nWatchdogSec=1\n")
    client = seat.attached_bridge()
    before = seat.show("MainPID")
    # Three intervals of the watchdog go by while the server holds the call.
    assert client.call("desk__nap", seconds=3) == "rested"
    assert seat.show("MainPID") == before


def test_an_upstream_survives_into_the_drain_and_its_call_is_answered(seat: Seat) -> None:
    client = seat.attached_bridge()
    server = client.call("desk__whoami")
    started, release = f"{seat.user.home}/started", f"{seat.user.home}/release"
    call = client.send_call("desk__hold", started=started, release=release)
    until(lambda: seat.run("test", "-e", started).returncode == 0, "the server holds the call")
    seat.systemctl("stop", "--no-block", SERVICE)
    seat.await_state("deactivating")
    seat.check("kill", "-0", server)
    seat.check("touch", release)
    assert client.answer(call)["content"][0]["text"] == "released"
    seat.await_state("inactive")
    assert seat.show("Result") == "success"
    assert seat.processes("desk.py") == []
