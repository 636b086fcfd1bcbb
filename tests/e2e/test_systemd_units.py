"""Units besides the plain ones on a real systemd: of a profile, a package, a shared host; and the PATH that is kept."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from e2e.conftest import World
from e2e.systemd.client import Client
from e2e.systemd.installation import REPOSITORY, Installation
from e2e.systemd.machine import Machine, User, until
from e2e.systemd.seat import SERVICE, SOCKET, Seat

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]

_numbers = count(1)


def test_a_profile_has_a_socket_a_daemon_a_config_and_a_log_of_its_own(seat: Seat) -> None:
    socket, service = "mcp@my-work.socket", "mcp@my-work.service"
    config = f"{seat.user.home}/.config/hearth/profiles/my-work/config.toml"
    server = f'command = "/usr/bin/python3"\nargs = ["-I", "{seat.servers}/desk.py"]\n'
    seat.write(config, f"idle_timeout = 0.5\n[mcpServers.bench]\n{server}")
    assert f"{seat.user.runtime}/mcp/my-work.sock" in seat.ok("install", "--profile", "my-work")
    assert (seat.state(socket), seat.state(service)) == ("active", "inactive")
    verified = seat.run("systemd-analyze", "verify", "--man=no", "--user", socket, service)
    assert (verified.stdout, verified.stderr) == ("", "")

    client = seat.session("--profile", "my-work")
    assert client.tool_names()[0].startswith("bench__")
    assert (seat.state(service), seat.state()) == ("active", "inactive")
    status = json.loads(seat.hearth("status", "--json", "--profile", "my-work").stdout)
    assert (status["profile"], status["configPath"], status["activation"]) == ("my-work", config, "systemd")
    assert str(status["pid"]) == seat.show("MainPID", service)
    assert status["containment"] == "control groups"
    seat.systemctl("reload", service)

    # The default profile's daemon is another one, and neither minds the other's end.
    other = seat.attached_bridge()
    seat.systemctl("stop", socket)
    assert (seat.state(service), seat.state()) == ("inactive", "active")
    assert other.call("desk__echo", text="undisturbed") == "undisturbed"
    # A bridge that gets a request switches its own socket on again.
    assert client.call("bench__echo", text="back") == "back"
    client.close()
    seat.await_state("inactive", service)

    seat.ok("uninstall", "--profile", "my-work")
    assert seat.show("LoadState", socket) == "not-found"
    assert seat.state(SOCKET) == "active"


def test_the_path_of_the_shell_finds_a_server_that_systemd_would_not(bare_seat: Seat) -> None:
    seat = bare_seat
    folder = f"{seat.user.home}/.local/share/tools 100%/bin"
    seat.write(f"{folder}/only-in-the-shell", f"#!/bin/sh\nexec /usr/bin/python3 -I {seat.servers}/desk.py\n")
    seat.check("chmod", "+x", f"{folder}/only-in-the-shell")
    seat.configure('[mcpServers.shelved]\ncommand = "only-in-the-shell"\n', upstream=False)
    shell = {**seat.user.environment, "PATH": f"{folder}:{seat.user.environment['PATH']}"}

    def is_missed() -> bool:
        """Doctor is asked in a shell that finds it; what counts is what systemd finds."""
        done = seat.run(seat.installation.hearth, "doctor", "--json", environment=shell)
        return "servers.path" in [each["id"] for each in json.loads(done.stdout)["findings"]]

    assert seat.run(seat.installation.hearth, "install", "--no-path", environment=shell).returncode == 0
    assert is_missed()
    done = seat.run(seat.installation.hearth, "install", environment=shell)
    assert folder in done.stdout
    assert not is_missed()
    assert seat.session().call("shelved__echo", text="found") == "found"
    again = seat.run(seat.installation.hearth, "install", "--path", "/usr/bin:/bin", environment=shell)
    assert "hearth restart" in again.stdout
    assert is_missed()


# --- a package's units


@pytest.fixture
def packaged(world: World, installation: Installation, tmp_path: Path) -> Iterator[None]:
    """The units of a package in their place for all users, made by the command that packages use."""
    # The text of it: a checkout below /tmp is not to be seen in there.
    script = (REPOSITORY / "packaging" / "units.py").read_text()
    made = str(installation.root.parent / "packaged")
    command = [installation.python, "-c", script, "--python", installation.python, made]
    world.machine.check(*command)
    world.machine.check("sh", "-c", f"cp {made}/user/* /usr/lib/systemd/user/")
    yield
    world.machine.check("sh", "-c", "rm /usr/lib/systemd/user/mcp*")


@pytest.mark.usefixtures("packaged")
def test_units_of_a_package_are_enabled_and_not_copied_and_older_copies_give_way(bare_seat: Seat) -> None:
    seat = bare_seat
    seat.configure()
    folder = f"{seat.user.home}/.config/systemd/user"
    seat.write(f"{folder}/{SOCKET}", "# Written by `hearth install`\n[Socket]\nListenStream=%t/old.sock\n")
    seat.systemctl("daemon-reload")
    document = json.loads(seat.hearth("install", "--json").stdout)
    drop_in = f"{SERVICE}.d/10-hearth-path.conf"
    assert (document["written"], document["removed"], document["enabled"]) == ([drop_in], [SOCKET], True)
    assert seat.show("FragmentPath") == f"/usr/lib/systemd/user/{SERVICE}"
    assert seat.show("DropInPaths") == f"{folder}/{drop_in}"
    seat.attached_bridge()
    assert seat.status()["activation"] == "systemd"
    assert "belong to a package" in seat.hearth("uninstall").stdout
    assert seat.run("test", "-e", folder).returncode == 1
    assert seat.state(SOCKET) == "inactive"
    assert seat.show("LoadState", SOCKET) == "loaded"


# --- shared hosts


class Host:
    """A host with system-wide sockets; each of its users has only the environment that MCP clients hand on."""

    def __init__(self, machine: Machine, installation: Installation) -> None:
        self.machine = machine
        self.installation = installation
        self.clients: list[Client] = []
        self.users: list[User] = []

    def user(self, *, linger: bool = False) -> User:
        user = self.machine.add_user(f"shared{next(_numbers)}", linger=linger)
        self.users.append(user)
        server = f'command = "/usr/bin/python3"\nargs = ["-I", "{self.installation.root.parent}/servers/desk.py"]\n'
        config = f"idle_timeout = 60\n[mcpServers.desk]\n{server}"
        folder = f"{user.home}/.config/hearth"
        self.machine.check("sh", "-c", 'mkdir -p "$0" && cat >"$0/config.toml"', folder, user=user, stdin=config)
        return user

    def root(self, *arguments: str) -> str:
        return self.machine.check(self.installation.hearth, *arguments)

    def bridge(self, user: User) -> Client:
        process = self.machine.start(*self.installation.bridge, user=user, environment=user.client_environment)
        client = Client(process)
        self.clients.append(client)
        client.initialize()
        return client

    def hearth(self, user: User, *arguments: str) -> str:
        return self.machine.check(self.installation.hearth, *arguments, user=user)

    def show(self, unit: str, name: str) -> str:
        return self.machine.check("systemctl", "show", f"--property={name}", "--value", unit).strip()

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.machine.check(self.installation.hearth, "uninstall", "--system")
        for user in self.users:
            self.machine.end_user(user)


@pytest.fixture
def host(world: World, installation: Installation) -> Iterator[Host]:
    found = Host(world.machine, installation)
    yield found
    found.close()


def test_a_user_without_a_manager_reaches_a_daemon_that_runs_as_that_user_and_nobody_else_does(host: Host) -> None:
    alice, mallory = host.user(), host.user()
    socket, service = f"mcp-user@{alice.uid}.socket", f"mcp-user@{alice.uid}.service"
    assert host.machine.run("test", "-e", alice.runtime).returncode == 1
    assert f"listens for {alice.name}" in host.root("install", "--system", "--user", alice.name)
    verified = host.machine.run("systemd-analyze", "verify", "--man=no", socket, service)
    assert (verified.stdout, verified.stderr) == ("", "")
    path = f"/run/mcp/{alice.uid}.sock"
    assert host.machine.check("stat", "--format=%a %U", path, f"/run/mcp/{alice.uid}", "/run/mcp").splitlines() == [
        f"600 {alice.name}",
        f"700 {alice.name}",
        "755 root",
    ]
    # Looking wakes nothing.
    assert json.loads(host.hearth(alice, "status", "--json"))["running"] is False
    assert host.show(service, "ActiveState") == "inactive"

    client = host.bridge(alice)
    facts = json.loads(client.call("desk__facts"))
    assert facts["environ"]["HOME"] == alice.home
    assert facts["status"]["Uid"].split()[0] == str(alice.uid)
    assert "XDG_RUNTIME_DIR" not in facts["environ"]
    status = json.loads(host.hearth(alice, "status", "--json"))
    assert (status["endpoint"], status["activation"], status["containment"]) == (path, "systemd", "control groups")
    assert str(status["pid"]) == host.show(service, "MainPID")
    assert host.show(service, "ControlGroup") == f"/user.slice/user-{alice.uid}.slice/{service}"
    host.machine.check("systemctl", "reload", service)
    assert host.machine.run("test", "-e", alice.runtime).returncode == 1
    doctor = json.loads(host.machine.run(host.installation.hearth, "doctor", "--json", user=alice).stdout)
    assert [each for each in doctor["findings"] if each["state"] == "broken"] == []

    # Another user can neither connect nor look; and has a daemon of its own without a unit.
    knock = "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    assert "PermissionError" in host.machine.run("/usr/bin/python3", "-c", knock, path, user=mallory).stderr
    assert host.machine.run("ls", f"/run/mcp/{alice.uid}", user=mallory).returncode != 0
    assert json.loads(host.bridge(mallory).call("desk__facts"))["status"]["Uid"].split()[0] == str(mallory.uid)
    # Not even root: the daemon asks the kernel who it is.
    shout = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({path!r}); print(s.recv(999))"
    assert "uid 0" in host.machine.check("/usr/bin/python3", "-c", shout)

    # The administrator takes it away: the bridge goes on with a daemon of the user's own.
    host.root("uninstall", "--system", "--user", alice.name)
    assert host.machine.run("ls", "-A", f"/run/mcp/{alice.uid}", path).returncode != 0
    assert client.call("desk__echo", text="alone") == "alone"
    assert json.loads(host.hearth(alice, "status", "--json"))["activation"] == "self"


def test_a_user_with_a_login_and_units_of_their_own_uses_the_system_wide_socket_and_the_two_do_not_quarrel(
    host: Host,
) -> None:
    user = host.user(linger=True)
    host.hearth(user, "install")
    early = host.bridge(user)
    host.root("install", "--system", "--user", user.name, "--path", "/usr/bin:/bin")
    late = host.bridge(user)
    assert json.loads(late.call("desk__facts"))["environ"]["PATH"] == "/usr/bin:/bin"
    documents = [
        json.loads(host.hearth(user, "status", "--json")),
        json.loads(host.machine.check(host.installation.hearth, "status", "--json", user=user)),
    ]
    assert {each["endpoint"] for each in documents} == {f"/run/mcp/{user.uid}.sock"}
    system_wide = host.show(f"mcp-user@{user.uid}.service", "MainPID")
    assert {str(each["pid"]) for each in documents} == {system_wide}
    # The daemon of the user's own unit is ended; its bridge goes back to that socket: to a daemon beside the other.
    host.machine.check("systemctl", "--user", "stop", SERVICE, user=user)
    assert early.call("desk__echo", text="mine") == "mine"
    assert late.call("desk__echo", text="shared") == "shared"
    assert host.show(f"mcp-user@{user.uid}.service", "MainPID") == system_wide
    refused = host.machine.run(host.installation.hearth, "install", user=user)
    assert (refused.returncode, "nothing need be installed" in refused.stderr) == (1, True)
    # With the user's own socket gone as well, the early bridge moves over.
    host.machine.check("systemctl", "--user", "stop", SOCKET, user=user)
    assert early.call("desk__whoami") == late.call("desk__whoami")


def test_only_root_installs_for_others_and_only_for_users_that_can_run_it(host: Host) -> None:
    user = host.user()
    refused = host.machine.run(host.installation.hearth, "install", "--system", "--user", user.name, user=user)
    assert (refused.returncode, "only root" in refused.stderr) == (1, True)
    refused = host.machine.run(host.installation.hearth, "install", "--system", "--user", "nobody-of-that-name")
    assert (refused.returncode, "there is no user" in refused.stderr) == (1, True)
    host.machine.check("chmod", "o-x", str(host.installation.root))
    try:
        refused = host.machine.run(host.installation.hearth, "install", "--system", "--user", user.name)
    finally:
        host.machine.check("chmod", "o+x", str(host.installation.root))
    assert (refused.returncode, "cannot run this installation" in refused.stderr) == (1, True)
    assert host.machine.run("ls", "/etc/systemd/system/mcp-user@.socket").returncode != 0
    host.root("install", "--system")
    host.root("install", "--system", "--user", str(user.uid))
    listed = host.machine.check("sh", "-c", "ls -d /etc/systemd/system/mcp-user@*")
    assert listed.split() == ["/etc/systemd/system/mcp-user@.service", "/etc/systemd/system/mcp-user@.socket"]
    host.root("uninstall", "--system")
    until(lambda: host.machine.run("test", "-e", f"/run/mcp/{user.uid}.sock").returncode == 1, "it is gone")
    assert host.machine.run("sh", "-c", "ls -d /etc/systemd/system/mcp-user@*").returncode != 0


def test_no_program_of_a_user_s_path_runs_as_root(host: Host) -> None:
    user = host.user()
    service = f"mcp-user@{user.uid}.service"
    folder = f"{user.home}/.local/bin"
    trap = f'#!/bin/sh\nid -u >>{user.home}/sprung-"${{0##*/}}"\nexec "/usr/bin/${{0##*/}}" "$@"\n'
    copies = "for name in sh rm install env; do cp systemctl $name; done"
    script = f'mkdir -p "$0"; cd "$0"; cat >systemctl; chmod +x systemctl; {copies}'
    host.machine.check("sh", "-c", script, folder, user=user, stdin=trap)
    host.root("install", "--system", "--user", user.name, "--path", f"{folder}:/usr/bin:/bin")
    client = host.bridge(user)
    assert json.loads(client.call("desk__facts"))["environ"]["PATH"] == f"{folder}:/usr/bin:/bin"
    client.close()
    host.machine.check("systemctl", "reload", service)
    host.machine.check("systemctl", "stop", service)
    # What runs after the end has run, and well: the unit's starts do not count.
    assert host.show(service, "Result") == "success"
    host.root("uninstall", "--system", "--user", user.name)
    assert host.machine.run("sh", "-c", f"cat {user.home}/sprung-*").stdout == ""


def test_others_are_not_made_to_run_what_somebody_else_could_change(host: Host) -> None:
    alice, bob = host.user(), host.user()
    own, linked, shared = f"{bob.home}/venv", f"/opt/linked-by-{bob.name}", f"/opt/shared-with-{bob.name}"
    host.machine.check("cp", "-a", str(host.installation.root), own)
    host.machine.check("chmod", "755", bob.home)

    def refusal(python: str, *arguments: str) -> str:
        done = host.machine.run(python, "-I", "-m", "hearth", "install", "--system", "--user", alice.name, *arguments)
        assert done.returncode == 1, done.stdout
        assert host.machine.run("ls", "/etc/systemd/system/mcp-user@.socket").returncode != 0
        return done.stderr

    # The venv is root's, the folder above is not.
    assert f"{bob.home} belongs to {bob.name}" in refusal(f"{own}/bin/python")
    # By a link, too.
    host.machine.check("ln", "-s", own, linked)
    assert f"{bob.home} belongs to {bob.name}" in refusal(f"{linked}/bin/python")
    # One file of the package.
    module = str(host.installation.package / "errors.py")
    host.machine.check("chown", bob.name, module)
    try:
        assert f"{module} belongs to {bob.name}" in refusal(host.installation.python)
    finally:
        host.machine.check("chown", "root", module)
    host.machine.check("mkdir", "-p", f"{shared}/bin")
    host.machine.check("chgrp", bob.name, shared)
    host.machine.check("chmod", "g+w", shared)
    said = refusal(host.installation.python, "--path", f"{shared}/bin:/usr/bin:/bin")
    assert f"{shared} can be written to by the group {bob.name}" in said
    # What is the user's own may be searched.
    host.root("install", "--system", "--user", bob.name, "--path", f"{bob.home}:/usr/bin:/bin")
