"""MCP clients of the package's users: working before, connected while it is installed, restored when it is removed."""

from pathlib import Path

import pytest

from e2e.systemd.seat import SOCKET, Seat
from support.deb import package
from support.deb.host import POLICY, Host

pytestmark = pytest.mark.timeout(300)
CURSOR = '{\n  "mcpServers": {\n    "desk": {"command": "/usr/bin/true", "args": []}   \n  }\n}\n'


def cursor(seat: Seat) -> str:
    return f"{seat.user.home}/.cursor/mcp.json"


def connect(seat: Seat) -> None:
    """Point Cursor's entry at the package's bridge."""
    seat.configure("")
    seat.write(cursor(seat), CURSOR)
    done = seat.hearth("connect", "cursor", "--yes")
    assert done.returncode == 0, done.stderr
    assert package.PREFIX in seat.check("cat", cursor(seat))


def test_removal_restores_the_clients_of_every_user_and_an_upgrade_none(host: Host, built: Path, later: Path) -> None:
    host.dpkg("--install", built)
    # One with a service manager, one who is not logged in.
    seats = [host.seat("ann"), host.seat("sue", linger=False)]
    for seat in seats:
        connect(seat)
    connected = [seat.check("cat", cursor(seat)) for seat in seats]
    host.dpkg("--install", later)
    assert [seat.check("cat", cursor(seat)) for seat in seats] == connected
    host.dpkg("--remove", package.NAME)
    assert [seat.check("cat", cursor(seat)) for seat in seats] == [CURSOR, CURSOR]
    assert [seat.check("stat", "--format=%U", cursor(seat)).strip() for seat in seats] == ["ann", "sue"]
    host.dpkg("--purge", package.NAME)
    assert [seat.check("cat", cursor(seat)) for seat in seats] == [CURSOR, CURSOR]


def test_removal_names_the_users_whose_clients_it_could_not_restore(host: Host, built: Path) -> None:
    host.dpkg("--install", built)
    ann, eve = host.seat("ann", linger=False), host.seat("eve", linger=False)
    for seat in (ann, eve):
        connect(seat)
    # Broken on purpose: root must not write where a user's link leads.
    eve.check("sh", "-c", f"rm {cursor(eve)} && ln -s /etc/hostname {cursor(eve)}")
    hostname = host.machine.check("cat", "/etc/hostname")
    done = host.machine.run("dpkg", "--remove", package.NAME)
    assert done.returncode == 0, done.stderr
    assert "MCP clients of eve could not all be restored" in done.stderr
    assert "as eve: hearth disconnect --all" in done.stderr
    assert "of ann" not in done.stderr
    assert host.machine.check("cat", "/etc/hostname") == hostname
    assert ann.check("cat", cursor(ann)) == CURSOR


def test_entries_of_another_installation_stay(host: Host, built: Path) -> None:
    host.dpkg("--install", built)
    ann = host.seat("ann", linger=False)
    connect(ann)
    record = f"{ann.user.home}/.local/state/hearth/clients"
    # As if a wheel in the home had written both, the entry and its record.
    ann.check("sh", "-c", f"sed -i s,{package.PREFIX},/opt/other,g {cursor(ann)} {record}/*.trace.json")
    before = ann.check("cat", cursor(ann))
    host.dpkg("--remove", package.NAME)
    assert ann.check("cat", cursor(ann)) == before


def test_installing_names_the_command_where_it_may_not_start_the_socket(host: Host, built: Path) -> None:
    host.seat("ann")
    host.seat("eve").systemctl("mask", SOCKET)
    host.machine.check("sh", "-c", f"printf '#!/bin/sh\\nexit 101\\n' >{POLICY}")
    host.machine.check("chmod", "+x", POLICY)
    done = host.machine.run("dpkg", "--install", str(built))
    assert done.returncode == 0, done.stderr
    assert "mcp.socket was not started for ann, who types: systemctl --user start mcp.socket" in done.stderr
    assert "for eve" not in done.stderr


def test_installing_is_silent_where_it_starts_the_socket(host: Host, built: Path) -> None:
    ann = host.seat("ann")
    done = host.machine.run("dpkg", "--install", str(built))
    assert ann.state(SOCKET) == "active"
    assert "systemctl --user" not in done.stdout + done.stderr
