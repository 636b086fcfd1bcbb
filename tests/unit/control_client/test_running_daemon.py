"""Whether a daemon runs, by its registry entry; and sentences on what starts the next one."""

import os

import pytest

from hearth import registry
from hearth.control_client import running_daemon, service_state, systemd_unit
from hearth.control_client.running_daemon import own_ports, start_hint
from hearth.host import processes
from hearth.paths import Places


def test_a_daemon_is_asked_where_bridges_reach_it_whatever_its_entry_says(places: Places) -> None:
    started = processes.start_time(os.getpid()) or processes.UNKNOWN_START_TIME
    entry = registry.RegistryEntry(
        daemon_id="d", endpoint="/elsewhere.sock", pid=os.getpid(), start_time=started, started_at=1.0, version="1",
        protocol=1,
    )  # fmt: skip
    registry.write(places, entry)
    assert running_daemon.find(places) == running_daemon.RunningDaemon(places.socket, os.getpid(), started)


def test_nothing_that_runs_is_called_as_the_daemon_calls_itself(places: Places) -> None:
    assert running_daemon.absent(places)["profile"] == "mcp"
    by_config = Places(config="/home/u/odd.toml")
    assert running_daemon.absent(by_config)["profile"] == by_config.key


# --- after a shutdown

SOCKET = systemd_unit.Unit("mcp.socket", installed=True, active="active", result="success", pid=0, path="")


def held_by(monkeypatch: pytest.MonkeyPatch, found: systemd_unit.Unit | None) -> None:
    monkeypatch.setattr(service_state, "look", lambda places, kind: found if kind == "socket" else None)


def test_where_systemd_holds_the_socket_the_next_connection_lights_it(monkeypatch: pytest.MonkeyPatch) -> None:
    held_by(monkeypatch, SOCKET)
    assert start_hint(Places()) == "systemd holds the socket (mcp.socket): the first connection lights it."


def test_where_nobody_holds_it_a_bridge_does_and_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    held_by(monkeypatch, None)
    said = start_hint(Places())
    assert said.startswith("The first bridge starts it")
    assert "connection" not in said


def test_a_port_that_nobody_else_holds_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    held_by(monkeypatch, None)
    document = {"activation": "self", "http": ["http://127.0.0.1:3847"]}
    said = start_hint(Places(), own_ports(document))
    assert said.endswith("http://127.0.0.1:3847 comes back with `hearth serve --transport http` only.")
    assert own_ports(document | {"activation": "systemd"}) == []
    assert own_ports({"activation": "self"}) == []
    # Nor does one that was lost.
    lost = {"httpLost": [{"address": "http://127.0.0.1:3848", "error": "gone"}]}
    assert own_ports(document | lost) == ["http://127.0.0.1:3847", "http://127.0.0.1:3848"]
    assert own_ports(document | lost | {"activation": "systemd"}) == []
