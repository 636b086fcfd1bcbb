"""No orphans under a real systemd: whatever a server has forked and detached ends with it, and only that.

The proof is a named pipe that all descendants of a server hold open: its reader sees the end when the last one is dead.
"""

import json
import os
from collections.abc import Callable, Iterator

import pytest

from e2e.systemd.client import Client
from e2e.systemd.machine import COMMAND_LIMIT_SECONDS, until
from e2e.systemd.seat import SERVICE, Seat
from support.kernel import is_over

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]


class Family:
    """One server of fixtures/family.py, seen from outside."""

    def __init__(self, seat: Seat, name: str, **keys: object) -> None:
        self._seat = seat
        self.name = name
        path = f"{seat.user.home}/{name}.fifo"
        seat.check("mkfifo", path)
        self._pipe = os.open(f"/proc/{seat.machine.pid}/root{path}", os.O_RDONLY | os.O_NONBLOCK)
        settings = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        words = json.dumps(["-I", f"{seat.servers}/family.py", path])
        self.entry = f'[mcpServers.{name}]\ncommand = "/usr/bin/python3"\nargs = {words}\n{settings}'

    def pids(self, client: Client) -> list[str]:
        """Everybody of it, all alive."""
        pids = [str(pid) for pid in json.loads(client.call(f"{self.name}__pids"))]
        self._seat.check("kill", "-0", *pids)
        return pids

    def is_over(self, limit: float = 0) -> bool:
        """Whether the kernel says that nobody of it is left."""
        return is_over(self._pipe, limit)

    def await_end(self) -> None:
        assert self.is_over(COMMAND_LIMIT_SECONDS), f"descendants of {self.name} are left"

    def close(self) -> None:
        os.close(self._pipe)


@pytest.fixture
def family(seat: Seat) -> Iterator[Callable[..., Family]]:
    families: list[Family] = []

    def make(name: str, **keys: object) -> Family:
        families.append(Family(seat, name, **keys))
        return families[-1]

    yield make
    # The sequence that ends a stubborn server takes its time, and each test of it has seen enough by now.
    seat.systemctl("kill", "--signal=KILL", SERVICE)
    for each in families:
        each.close()


def groups(seat: Seat) -> list[str]:
    """The control groups below the unit's."""
    folder = f"/sys/fs/cgroup{seat.show('ControlGroup')}"
    return sorted(seat.machine.run("ls", "--file-type", folder).stdout.replace("/", " /").split(" /\n")[:-1])


def served(seat: Seat, *families: Family) -> Client:
    """A client that has called each of them."""
    seat.configure("\n".join(each.entry for each in families))
    client = seat.session()
    for each in families:
        each.pids(client)
    return client


def test_after_kill_9_of_the_daemon_every_descendant_is_gone(seat: Seat, family: Callable[..., Family]) -> None:
    one, two = family("one"), family("two")
    # Nobody stays who would light the next daemon.
    served(seat, one, two).close()
    seat.check("kill", "-9", seat.show("MainPID"))
    one.await_end()
    two.await_end()
    seat.await_state("failed")
    assert seat.show("Result") == "signal"


def test_without_delegation_every_descendant_is_gone_after_kill_9_all_the_same(
    seat: Seat, family: Callable[..., Family]
) -> None:
    seat.add_drop_in(
        f"[Service]\nDelegate=no\nExecStart=\nExecStart={seat.installation.python} -I -m hearth.daemon --profile mcp\n"
    )
    one = family("one")
    served(seat, one).close()
    assert seat.status()["containment"] == "process groups"
    seat.check("kill", "-9", seat.show("MainPID"))
    one.await_end()


def test_each_server_has_a_control_group_from_its_first_instruction_on(
    seat: Seat, family: Callable[..., Family]
) -> None:
    one, two = family("one"), family("two")
    client = served(seat, one, two)
    for each in (one, two):
        (place,) = {seat.check("cat", f"/proc/{pid}/cgroup").splitlines()[-1] for pid in each.pids(client)}
        assert place.rpartition("/")[2].startswith(f"upstream-{each.name}-")
    daemon = seat.check("cat", f"/proc/{seat.show('MainPID')}/cgroup").splitlines()[-1]
    assert daemon == f"0::{seat.show('ControlGroup')}/daemon"
    assert seat.status()["containment"] == "control groups"
    assert "control groups" in seat.hearth("status").stdout
    assert "control groups" in seat.hearth("doctor").stdout


def test_a_server_that_is_reloaded_away_takes_its_descendants_and_no_others(
    seat: Seat, family: Callable[..., Family]
) -> None:
    one, two = family("one"), family("two")
    client = served(seat, one, two)
    others = two.pids(client)
    seat.configure(two.entry)
    seat.systemctl("reload", SERVICE)
    one.await_end()
    assert not two.is_over()
    assert two.pids(client) == others
    until(lambda: [name for name in groups(seat) if name.startswith("upstream-one")] == [], "its group is removed")


def test_a_server_that_nobody_uses_takes_its_descendants_and_no_others(
    seat: Seat, family: Callable[..., Family]
) -> None:
    one, two = family("one", isolation="session", instance_idle=0.1), family("two")
    client = served(seat, one, two)
    others = two.pids(client)
    passing = seat.session()
    own = one.pids(passing)
    passing.close()
    until(lambda: all(seat.run("kill", "-0", pid).returncode for pid in own), "the family of the one who left is gone")
    # The other instance of it, and the other server, have theirs.
    one.pids(client)
    assert two.pids(client) == others


def test_a_server_that_ends_by_itself_leaves_nobody_behind(seat: Seat, family: Callable[..., Family]) -> None:
    one, two = family("one"), family("two")
    client = served(seat, one, two)
    client.send_call("one__leave")
    one.await_end()
    assert not two.is_over()
    two.pids(client)


@pytest.mark.slow
def test_a_stop_of_the_service_leaves_nobody_behind(seat: Seat, family: Callable[..., Family]) -> None:
    one = family("one")
    served(seat, one).close()
    seat.systemctl("stop", SERVICE)
    assert one.is_over()
    assert seat.show("Result") == "success"


@pytest.mark.slow
def test_servers_are_served_without_control_groups_when_they_can_be_had_no_longer(
    seat: Seat, family: Callable[..., Family]
) -> None:
    client = seat.attached_bridge()
    (spawner,) = [
        pid
        for pid in seat.processes("hearth.daemon")
        if seat.check("cat", f"/proc/{pid}/comm").startswith("hearth-nur")
    ]
    seat.check("kill", "-9", str(spawner))
    one = family("one")
    seat.configure(one.entry)
    seat.systemctl("reload", SERVICE)
    one.pids(client)
    assert seat.status()["containment"] == "process groups"
    assert client.call("desk__echo", text="still") == "still"
    seat.systemctl("stop", SERVICE)
    assert one.is_over()
