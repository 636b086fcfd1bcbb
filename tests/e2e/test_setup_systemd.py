"""`hearth setup` as typed, with a real user manager."""

import json

import pytest

from e2e.systemd.client import Client
from e2e.systemd.seat import SOCKET, Seat

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]

TOKEN = "ghp_" + "s3cr3t" * 6


@pytest.fixture
def clients(bare_seat: Seat) -> dict[str, str]:
    """The files of two clients with the same server in each, and what is in them."""
    server = {"command": "/usr/bin/python3", "args": ["-I", f"{bare_seat.servers}/desk.py"], "env": {"TOKEN": TOKEN}}
    table = json.dumps(server["args"])
    files = {
        f"{bare_seat.user.home}/.claude.json": json.dumps({"mcpServers": {"desk": server}}, indent=1),
        f"{bare_seat.user.home}/.codex/config.toml": "# mine\n[mcp_servers.office]\n"
        f'command = "/usr/bin/python3"\nargs = {table}\nenv = {{ TOKEN = "{TOKEN}" }}\n',
    }
    for path, text in files.items():
        bare_seat.write(path, text)
    return files


def test_systemd_listens_and_clients_share_a_server_until_everything_is_undone(
    bare_seat: Seat, clients: dict[str, str]
) -> None:
    said = bare_seat.ok("setup", "--yes")
    assert "from Claude Code, Codex" in said
    assert bare_seat.state(SOCKET) == "active"
    assert "desk" in said.split("Tried as a client would:")[1]
    assert "TOKEN" not in bare_seat.show("Environment")
    entry = json.loads(bare_seat.check("cat", f"{bare_seat.user.home}/.claude.json"))["mcpServers"]["desk"]
    process = bare_seat.machine.start(
        entry["command"], *entry["args"], user=bare_seat.user, environment=bare_seat.user.client_environment
    )
    with Client(process) as client:
        client.initialize()
        assert client.call("echo", text="up") == "up"
        assert len(bare_seat.processes("desk.py")) == 1
    assert bare_seat.status()["activation"] == "systemd"
    assert "Nothing is left to do." in bare_seat.ok("setup")
    bare_seat.ok("disconnect", "--all")
    assert {path: bare_seat.check("cat", path) for path in clients} == clients
    bare_seat.ok("uninstall")
    assert bare_seat.state(SOCKET) == "inactive"


def test_units_of_somebody_else_that_keep_hearth_from_serving_leave_every_client_as_it_was(
    bare_seat: Seat, clients: dict[str, str]
) -> None:
    bare_seat.write(f"{bare_seat.user.home}/.config/systemd/user/{SOCKET}", "[Socket]\nListenStream=/nowhere\n")
    document = json.loads(bare_seat.hearth("setup", "--yes", "--json").stdout)
    assert SOCKET in document["service"]["reason"]
    assert document["files"] == []
    assert [each["path"] for each in document["left"]] == list(clients)
    assert all("mcp.socket" in each["reason"] for each in document["left"])
    assert {path: bare_seat.check("cat", path) for path in clients} == clients
