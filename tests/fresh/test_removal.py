"""Setup, use, an upgrade, and both ways of removal on a fresh Debian with four real clients.

After each removal every client works with the servers that it had before Hearth was installed.
"""

import shutil
from pathlib import Path

import pytest

from fresh.layers import newest
from support.deb import package as deb
from support.fresh.clients import CLIENTS
from support.fresh.desk import Desk
from support.fresh.steps import every_client_has_its_own_servers, every_client_is_on_hearth, install_deb, settle
from support.requirements import needs

# The clients are started seven times over; some unpack themselves first.
pytestmark = [pytest.mark.real, pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(600)]
LATER = "99.0.0"


def upgrade(desk: Desk, folder: Path) -> None:
    """Install a later version of the package over the one that is there."""
    built = newest("mcp-hearth_*.deb")
    needs(built, "a package in dist (`make deb` builds it)")
    assert built is not None
    inside = "/var/tmp/later.deb"
    shutil.copy(deb.later(built, LATER, folder), desk.outside(inside))
    desk.machine.check("apt-get", "install", "--yes", inside)
    assert LATER in desk.run("hearth", "--version")


def test_an_upgrade_an_uninstall_and_a_purge_leave_every_client_working(desk: Desk, tmp_path: Path) -> None:
    for client in CLIENTS:
        client.configure(desk)
    before = settle(desk)

    install_deb(desk)
    desk.run("hearth", "setup", "--yes")
    every_client_is_on_hearth(desk)
    upgrade(desk, tmp_path)
    every_client_is_on_hearth(desk)

    desk.run("hearth", "uninstall")
    every_client_has_its_own_servers(desk, before)

    desk.run("hearth", "setup", "--yes")
    every_client_is_on_hearth(desk)
    # Nothing was typed as the user: the package restores the clients.
    desk.machine.check("apt-get", "purge", "--yes", deb.NAME)
    assert desk.machine.run("test", "-e", deb.PREFIX).returncode == 1
    every_client_has_its_own_servers(desk, before)
    assert desk.everywhere("hearth") == []
