"""Who reaches the daemon: bridges with a client's bare environment, with and without a service manager; nobody else."""

import json
from collections.abc import Iterator

import pytest

from e2e.systemd.client import Client
from e2e.systemd.machine import User
from e2e.systemd.seat import Seat

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]

# Opens a conversation as raw lines and prints whatever comes back until the end.
RAW_LINES = """
import json, socket, sys
known = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
messages = [{"id": 1, "method": "initialize", "params": known}, {"id": 2, "method": "tools/list", "params": {}}]
s = socket.socket(socket.AF_UNIX)
s.settimeout(30)
s.connect(sys.argv[1])
try:
    for message in messages:
        s.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")
    s.shutdown(socket.SHUT_WR)
except OSError:
    pass
try:
    while data := s.recv(65536):
        sys.stdout.write(data.decode())
except ConnectionResetError:
    pass
"""


def test_the_bridge_works_under_env_i_with_a_user_manager(seat: Seat) -> None:
    client = seat.session(environment=seat.user.client_environment)
    assert client.call("desk__echo", text="bare") == "bare"
    assert seat.status()["activation"] == "systemd"


def test_the_bridge_works_under_env_i_without_a_user_manager(bare_seat: Seat) -> None:
    machine = bare_seat.machine
    user = machine.add_user(f"{bare_seat.user.name}x", linger=False)
    lonely = Seat(machine, user, bare_seat.installation)
    try:
        lonely.configure()
        assert lonely.run("test", "-e", user.runtime).returncode == 1
        client = lonely.session(environment=user.client_environment)
        assert client.call("desk__echo", text="alone") == "alone"
        document = json.loads(lonely.run(lonely.installation.hearth, "status", "--json").stdout)
        assert (document["running"], document["activation"]) == (True, "self")
    finally:
        lonely.close()


def test_the_printed_command_works_as_a_client_would_start_it(seat: Seat) -> None:
    (entry,) = json.loads(seat.hearth("connect", "--print").stdout)["mcpServers"].values()
    process = seat.machine.start(
        entry["command"], *entry["args"], user=seat.user, environment=seat.user.client_environment
    )
    with Client(process) as client:
        client.initialize()
        assert "desk__echo" in client.tool_names()


@pytest.fixture
def stranger(seat: Seat) -> Iterator[User]:
    """Another user of the machine."""
    user = seat.machine.add_user(f"{seat.user.name}s", linger=False)
    yield user
    seat.machine.end_user(user)


def heard_by(stranger: User, seat: Seat) -> str:
    """Return what another user is told at the socket."""
    # The folders and the file are opened to everybody, so that only the daemon's own check is left.
    seat.check("chmod", "0755", seat.user.runtime, f"{seat.user.runtime}/mcp")
    seat.check("chmod", "0666", seat.socket)
    return seat.machine.check("/usr/bin/python3", "-c", RAW_LINES, seat.socket, user=stranger)


def test_another_user_that_reaches_the_socket_is_refused(seat: Seat, stranger: User) -> None:
    client = seat.attached_bridge()
    heard = heard_by(stranger, seat)
    assert "desk__echo" not in heard
    assert f"uid {stranger.uid}" in heard
    assert client.call("desk__echo", text="mine") == "mine"
    assert len(seat.status()["sessions"]) == 1


def test_the_same_words_from_the_user_itself_are_answered(seat: Seat) -> None:
    assert "desk__echo" in seat.check("/usr/bin/python3", "-c", RAW_LINES, seat.socket)


def test_another_user_hears_nothing_from_a_degraded_daemon_either(seat: Seat, stranger: User) -> None:
    seat.write(seat.config_path, "idle_timeot = 3\n")
    seat.check("/usr/bin/python3", "-c", RAW_LINES, seat.socket)
    heard = heard_by(stranger, seat)
    assert "config.toml" not in heard
    assert "idle_timeot" not in heard
