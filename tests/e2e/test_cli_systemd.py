"""The verbs where systemd holds the socket, as an ordinary user with an installed wheel."""

import json

import pytest

from e2e.systemd.machine import until
from e2e.systemd.seat import SOCKET, Seat

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]


def test_status_names_the_socket_unit_as_what_lights_it(seat: Seat) -> None:
    assert "mcp.socket" in seat.status()["lights"]
    seat.systemctl("stop", SOCKET)
    assert "systemctl --user enable --now mcp.socket" in seat.status()["lights"]


def test_doctor_sees_the_units_and_wakes_nothing(seat: Seat) -> None:
    found = {finding["id"]: finding for finding in json.loads(seat.ok("doctor", "--json"))["findings"]}
    assert found["units.state"]["message"] == "mcp.socket is active, mcp.service is inactive"
    assert seat.starts() == 0


def test_logs_are_read_from_the_journal_whether_it_runs_or_not(seat: Seat) -> None:
    client = seat.attached_bridge()
    pid = seat.status()["pid"]
    until(lambda: f"hearth[{pid}]" in seat.hearth("logs").stdout, "the journal has the daemon's lines")
    client.close()
    seat.ok("stop", "--yes")
    assert f"hearth[{pid}]" in seat.hearth("logs", "-n", "100").stdout


def test_lines_of_the_journal_are_chosen_by_time_and_printed_as_json(seat: Seat) -> None:
    seat.attached_bridge().close()
    until(lambda: "{" in seat.hearth("logs", "--since", "1h", "--json").stdout, "the journal has the daemon's lines")
    lines = seat.hearth("logs", "--since", "1h", "--json").stdout.splitlines()
    assert all(each["time"] and each["text"] for each in map(json.loads, lines))
    assert "{" not in seat.hearth("logs", "--since", "2100-01-01", "--json").stdout


def test_stop_leaves_systemd_listening_and_the_bridge_alive(seat: Seat) -> None:
    client = seat.attached_bridge()
    seat.ok("stop", "--yes")
    seat.await_state("inactive")
    assert seat.state(SOCKET) == "active"
    assert client.call("desk__echo", text="again") == "again"
    assert seat.starts() == 2


def test_the_demo_keeps_away_from_the_user_s_own_units(seat: Seat) -> None:
    shown = json.loads(seat.ok("demo", "--agents", "2", "--json"))
    assert shown["servers"] == ["demo"]
    assert (shown["processesLeft"], shown["filesLeft"]) == (0, 0)
    assert seat.starts() == 0
    assert seat.processes("hearth") == []
