"""Sentences on what starts the next daemon after a shutdown."""

import pytest

from hearth.control_client import service_state, systemd_unit
from hearth.ops import shutdown
from hearth.paths import Places

SOCKET = systemd_unit.Unit("mcp.socket", installed=True, active="active", result="success", pid=0, path="")


def held_by(monkeypatch: pytest.MonkeyPatch, found: systemd_unit.Unit | None) -> None:
    monkeypatch.setattr(service_state, "look", lambda places, kind: found if kind == "socket" else None)


def test_where_systemd_holds_the_socket_the_next_connection_lights_it(monkeypatch: pytest.MonkeyPatch) -> None:
    held_by(monkeypatch, SOCKET)
    assert shutdown.start_hint(Places()) == "systemd holds the socket (mcp.socket): the first connection lights it."


def test_where_nobody_holds_it_a_bridge_does_and_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    held_by(monkeypatch, None)
    said = shutdown.start_hint(Places())
    assert said.startswith("The first bridge starts it")
    assert "connection" not in said


def test_a_port_that_nobody_else_holds_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    held_by(monkeypatch, None)
    document = {"activation": "self", "http": ["http://127.0.0.1:3847"]}
    said = shutdown.start_hint(Places(), shutdown.own_ports(document))
    assert said.endswith("http://127.0.0.1:3847 comes back with `hearth serve --transport http` only.")
    assert shutdown.own_ports(document | {"activation": "systemd"}) == []
    assert shutdown.own_ports({"activation": "self"}) == []
    # Nor does one that was lost.
    lost = {"httpLost": [{"address": "http://127.0.0.1:3848", "error": "gone"}]}
    assert shutdown.own_ports(document | lost) == ["http://127.0.0.1:3847", "http://127.0.0.1:3848"]
    assert shutdown.own_ports(document | lost | {"activation": "systemd"}) == []
