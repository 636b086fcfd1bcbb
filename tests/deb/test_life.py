"""The life of the package on real systemd: installed, used, upgraded under an attached bridge, removed, purged."""

import json
from pathlib import Path
from typing import Any

import pytest

import hearth
from e2e.systemd.machine import until
from e2e.systemd.seat import SOCKET
from support.deb import package
from support.deb.host import POLICY, Host, connected_bridge

# Each boots a system and has dpkg work on it several times; busy machines have needed a minute.
pytestmark = pytest.mark.timeout(300)
# Below the time that the calls of the tests are held: an ordinary restart would cut them off.
DRAIN = "drain_timeout = 0.2"
LINK = "/etc/systemd/user/sockets.target.wants/mcp.socket"


def test_it_is_installed_used_upgraded_with_a_call_in_flight_removed_and_purged(
    host: Host, built: Path, later: Path
) -> None:
    ann = host.seat("ann")
    before = host.files()

    host.dpkg("--install", built)
    # Her manager was running; she has typed nothing.
    assert (ann.state(SOCKET), ann.state()) == ("active", "inactive")
    assert ann.show("FragmentPath", SOCKET) == "/usr/lib/systemd/user/mcp.socket"

    ann.configure(DRAIN)
    bridge = connected_bridge(ann)
    assert bridge.call("desk__echo", text="hello") == "hello"
    status = ann.status()
    assert (status["activation"], status["version"]) == ("systemd", hearth.__version__)
    assert status["executable"] == package.PYTHON
    said = [str(line["MESSAGE"]) for line in ann.journal("LOGGER=hearth.daemon.startup")]
    assert "systemd's protocols are spoken by systemd-python (daemon, journal)" in said
    pid = status["pid"]

    # Not read-only: a call that is sent twice would be refused.
    started, release = f"{ann.user.home}/started", f"{ann.user.home}/release"
    held = bridge.send_call("desk__hold", started=started, release=release)
    until(lambda: ann.run("test", "-e", started).returncode == 0, "the call has begun")
    host.dpkg("--install", later)
    assert ann.status()["pid"] == pid
    ann.check("touch", release)
    assert bridge.answer(held)["content"][0]["text"] == "released"
    until(lambda: ann.status()["version"] == package.field(later, "Version"), "the new version runs")
    assert ann.status()["pid"] != pid
    assert bridge.call("desk__echo", text="again") == "again"
    assert bridge.is_alive
    assert (ann.state(SOCKET), ann.state()) == ("active", "active")

    # Somebody who comes later has the socket by the preset.
    ben = host.seat("ben")
    assert (ben.state(SOCKET), ben.state()) == ("active", "inactive")

    served = ann.status()["pid"]
    host.dpkg("--remove", package.NAME)
    assert not host.is_installed()
    for seat in (ann, ben):
        assert seat.show("LoadState", SOCKET) == "not-found"
        assert seat.run("test", "-e", seat.socket).returncode == 1
    assert host.machine.run("test", "-e", f"/proc/{served}").returncode == 1
    assert ann.processes("hearth.daemon") == []

    host.dpkg("--purge", package.NAME)
    assert host.left_behind(before) == set()
    # What is the user's own stays.
    ann.check("test", "-s", ann.config_path)


def test_hearth_install_writes_no_units_of_its_own_and_root_may_type_it_too(host: Host, built: Path) -> None:
    host.dpkg("--install", built)
    ann = host.seat("ann")
    ann.systemctl("stop", SOCKET)
    done = ann.hearth("install", "--json")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert (outcome["enabled"], outcome["compiled"]) == (True, True)
    assert [name for name in outcome["written"] if not name.endswith(".conf")] == []
    assert ann.state(SOCKET) == "active"
    assert ann.show("FragmentPath", SOCKET) == "/usr/lib/systemd/user/mcp.socket"
    assert ann.run("test", "-e", f"{ann.user.home}/.config/systemd/user/{SOCKET}").returncode == 1
    assert ann.hearth("uninstall").returncode == 0
    # Of a user without a manager here; nothing that dpkg put in place is changed by it.
    host.machine.run("/usr/bin/hearth", "install", environment={"HOME": "/root", "PATH": "/usr/bin:/bin"})
    assert host.dpkg("--verify", package.NAME) == ""


def test_users_of_a_shared_host_keep_their_daemons_over_an_upgrade(host: Host, built: Path, later: Path) -> None:
    host.dpkg("--install", built)
    sue = host.seat("sue", linger=False)
    host.machine.check("systemctl", "enable", "--now", f"mcp-user@{sue.user.uid}.socket")
    bridge = sue.bridge(environment=sue.user.client_environment)
    bridge.initialize()
    status = sue.status()
    assert (status["activation"], status["endpoint"]) == ("systemd", f"/run/mcp/{sue.user.uid}.sock")
    host.dpkg("--install", later)
    until(lambda: sue.status()["version"] == package.field(later, "Version"), "the new version runs")
    bridge.request("ping")
    assert sue.status()["pid"] != status["pid"]
    host.dpkg("--purge", package.NAME)
    assert sue.processes("hearth.daemon") == []
    assert host.machine.check("find", "/etc/systemd/system", "-name", "mcp-user@*") == ""


def test_bridges_and_daemons_of_every_kind_outlive_an_upgrade(host: Host, built: Path, later: Path) -> None:
    host.dpkg("--install", built)
    ann = host.seat("ann")
    ann.configure(DRAIN)
    ann.write(f"{ann.user.home}/other.toml", "idle_timeout = 60\n")
    ann.write(f"{ann.user.home}/.config/hearth/profiles/work/config.toml", "idle_timeout = 60\n")

    def status(words: list[str]) -> dict[str, Any]:
        return json.loads(ann.check(ann.installation.hearth, "status", "--json", *words))

    # By the socket of a profile; by nobody but the bridge.
    kinds = {"systemd": ["--profile", "work"], "self": ["--config", f"{ann.user.home}/other.toml"]}
    bridges = {kind: ann.bridge(*words) for kind, words in kinds.items()}
    for kind, bridge in bridges.items():
        bridge.initialize()
        assert status(kinds[kind])["activation"] == kind
    host.dpkg("--install", later)
    version = package.field(later, "Version")
    for kind, bridge in bridges.items():
        until(lambda kind=kind: status(kinds[kind])["version"] == version, f"the new version serves {kinds[kind]}")
        bridge.request("ping")
        assert bridge.is_alive
    assert ann.state("mcp@work.service") == "active"
    host.dpkg("--remove", package.NAME)
    assert ann.processes("hearth.daemon") == []


def test_who_has_switched_it_off_is_left_alone(host: Host, built: Path, later: Path) -> None:
    eve, tom = host.seat("eve"), host.seat("tom")
    eve.systemctl("mask", SOCKET)
    # Units of her own, of another installation, with the same name.
    tom.write(f"{tom.user.home}/.config/systemd/user/{SOCKET}", "[Socket]\nListenStream=%t/tom.sock\n")
    tom.write(f"{tom.user.home}/.config/systemd/user/mcp.service", "[Service]\nExecStart=/bin/sleep 600\n")
    tom.systemctl("daemon-reload")
    tom.systemctl("start", SOCKET, "mcp.service")
    host.dpkg("--install", built)
    assert eve.state(SOCKET) == "inactive"
    own = tom.show("MainPID")
    host.dpkg("--install", later)
    assert eve.state(SOCKET) == "inactive"
    host.dpkg("--remove", package.NAME)
    assert (tom.state(SOCKET), tom.show("MainPID")) == ("active", own)


def test_an_administrator_decides_for_everybody_by_a_preset_and_later_by_hand(
    host: Host, built: Path, later: Path
) -> None:
    host.machine.check("mkdir", "-p", "/etc/systemd/user-preset")
    host.machine.check("sh", "-c", "echo 'disable mcp.socket' >/etc/systemd/user-preset/50-local.preset")
    host.dpkg("--install", built)
    assert host.machine.run("test", "-L", LINK).returncode == 1
    ann = host.seat("ann")
    assert ann.state(SOCKET) == "inactive"
    # An upgrade does not ask the presets again, and does not enable what is disabled.
    host.machine.check("rm", "/etc/systemd/user-preset/50-local.preset")
    host.dpkg("--install", later)
    assert host.machine.run("test", "-L", LINK).returncode == 1
    assert ann.state(SOCKET) == "inactive"
    host.machine.check("systemctl", "--global", "enable", SOCKET)
    host.dpkg("--purge", package.NAME)
    assert host.machine.run("test", "-L", LINK).returncode == 1


def test_packages_can_be_told_to_start_nothing(host: Host, built: Path) -> None:
    ann = host.seat("ann")
    host.machine.check("sh", "-c", f"printf '#!/bin/sh\\nexit 101\\n' >{POLICY}")
    host.machine.check("chmod", "+x", POLICY)
    host.dpkg("--install", built)
    assert (ann.show("LoadState", SOCKET), ann.state(SOCKET)) == ("loaded", "inactive")


def test_the_port_for_http_is_opened_by_hand_only_and_closed_with_the_package(host: Host, built: Path) -> None:
    socket, port = "mcp-http.socket", 3847
    ann, ben = host.seat("ann"), host.seat("ben")

    def is_held() -> bool:
        """Looked up and not knocked at: a connection would start the daemon. 0A is the state of a listening socket."""
        table = [line.split() for line in host.machine.check("cat", "/proc/net/tcp").splitlines()]
        return any(each[1].endswith(f":{port:04X}") and each[3] == "0A" for each in table[1:])

    host.dpkg("--install", built)
    host.machine.check("systemctl", "--global", "preset-all")
    assert host.machine.run("systemctl", "--global", "is-enabled", socket).stdout.strip() == "disabled"
    assert ben.show("FragmentPath", socket) == f"/usr/lib/systemd/user/{socket}"
    assert (ann.state(socket), ben.state(socket), is_held()) == ("inactive", "inactive", False)
    ann.systemctl("enable", "--now", socket)
    host.machine.check("systemctl", "--global", "enable", socket, "mcp@work.socket")
    assert is_held()
    host.dpkg("--remove", package.NAME)
    # Stopped, and not only without the port because its file is gone.
    assert (ann.state(socket), is_held()) == ("inactive", False)
    assert ann.processes("hearth.daemon") == []
    host.dpkg("--purge", package.NAME)
    assert host.machine.check("find", "/etc/systemd/user", "-name", "mcp*") == ""
