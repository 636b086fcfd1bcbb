"""Trouble under a real systemd: the client is told the reason, the unit starts a few times at most, mending helps."""

from collections.abc import Callable

import pytest

from e2e.systemd.client import Client, RpcError
from e2e.systemd.machine import until
from e2e.systemd.seat import SERVICE, SOCKET, Seat

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]

FEW_STARTS = 3
INTERNAL_ERROR = -32603


def refusal(client: Client) -> RpcError:
    """The error that an agent's first request meets."""
    with pytest.raises(RpcError) as caught:
        client.initialize()
    assert client.is_alive
    return caught.value


def works(client: Client) -> bool:
    try:
        client.initialize()
    except RpcError:
        return False
    return client.call("desk__echo", text="mended") == "mended"


def check_trouble(seat: Seat, reason: str, mend: Callable[[], object]) -> None:
    """The whole story: told, told again, mended, served; by one bridge."""
    client = seat.bridge()
    error = refusal(client)
    assert error.code == INTERNAL_ERROR
    assert reason in error.message
    assert reason in refusal(client).message
    assert seat.state() == "active"
    assert seat.starts() <= FEW_STARTS
    mend()
    until(lambda: works(client), "the bridge works after the mending")
    assert seat.starts() <= FEW_STARTS
    assert seat.state(SOCKET) == "active"


def test_an_unparsable_config_reaches_the_client_and_after_the_mending_the_same_bridge_works(seat: Seat) -> None:
    seat.write(seat.config_path, "idle_timeout = = 3\n")
    check_trouble(seat, "config.toml", seat.configure)


def test_a_misspelt_key_reaches_the_client_with_the_right_name(seat: Seat) -> None:
    seat.write(seat.config_path, "idle_timeot = 3\n")
    check_trouble(seat, "idle_timeout", seat.configure)


def test_a_read_only_folder_reaches_the_client_and_after_the_mending_the_same_bridge_works(seat: Seat) -> None:
    seat.check("mkdir", "-p", "-m", "0500", seat.folder)
    check_trouble(seat, seat.folder, lambda: seat.check("chmod", "0700", seat.folder))


@pytest.mark.parametrize(
    "broken",
    ["hub/hub.py", "config/loader.py", "daemon/daemon.py", "daemon/main.py", "host/linux/systemd.py", "faults.py"],
)
def test_a_truncated_module_reaches_the_client_and_after_the_mending_the_same_bridge_works(
    seat: Seat, broken: str
) -> None:
    path = f"{seat.installation.package}/{broken}"
    seat.machine.check("mv", path, f"{path}.away")
    seat.machine.check("sh", "-c", 'head -c 100 "$0.away" >"$0"; echo "def cut(" >>"$0"; chmod 644 "$0"', path)
    mend = ("mv", f"{path}.away", path)
    try:
        check_trouble(seat, broken.rpartition("/")[2], lambda: seat.machine.check(*mend))
    finally:
        seat.machine.run(*mend)


def test_a_package_that_is_missing_reaches_the_client_and_after_the_mending_the_same_bridge_works(seat: Seat) -> None:
    path = f"{seat.installation.package.parent}/msgspec"
    seat.machine.check("mv", path, f"{path}.away")
    mend = ("mv", "-T", f"{path}.away", path)
    try:
        check_trouble(seat, "msgspec", lambda: seat.machine.check(*mend))
    finally:
        seat.machine.run(*mend)


def test_what_cannot_even_start_ends_after_a_few_starts_and_the_client_is_told_what_to_type(seat: Seat) -> None:
    drop_in = f"{seat.user.home}/.config/systemd/user/{SERVICE}.d"
    seat.add_drop_in("[Service]\nExecStart=\nExecStart=/nonexistent/python\n")
    client = seat.bridge()
    error = refusal(client)
    assert error.code == INTERNAL_ERROR
    assert "mcp.s" in error.message and "systemctl --user" in error.message
    seat.await_state("failed", SOCKET)
    assert seat.starts() <= 5
    assert "failed" in seat.hearth("status").stdout
    seat.check("rm", "-r", drop_in)
    seat.install()
    until(lambda: works(client), "the bridge works after the mending")


def test_a_daemon_that_is_killed_again_and_again_is_woken_again_each_time(seat: Seat) -> None:
    client = seat.attached_bridge()
    for _ in range(8):
        seat.check("kill", "-9", seat.show("MainPID"))
        # One start a second is what the unit allows for good; a person who kills by hand is slower.
        assert client.call("desk__nap", seconds=1) == "rested"
    assert seat.state(SOCKET) == "active"
