"""No orphans where no service manager holds the processes together: the watcher, proved by the kernel.

All descendants of a server hold a named pipe open; its reader sees the end when the last one is dead.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients import LinesClient
from support.daemon import Scratch, server
from support.kernel import BOUND_SECONDS, is_gone, is_over, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the watcher is Linux's")

FAMILY = Path(__file__).parents[1] / "e2e" / "fixtures" / "family.py"


class Family:
    """A server that leaves descendants wherever it can."""

    def __init__(self, scratch: Scratch, name: str) -> None:
        self.name = name
        path = scratch.home / f"{name}.fifo"
        os.mkfifo(path)
        self._pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.entry = {"command": sys.executable, "args": ["-I", "-S", str(FAMILY), str(path)]}

    def pids(self, client: LinesClient) -> list[int]:
        """Everybody of it, all alive: itself, those with a session of their own, then those in its group."""
        pids: list[int] = json.loads(client.call(f"{self.name}__pids")["result"]["content"][0]["text"])
        assert not [pid for pid in pids if is_gone(pid)]
        return pids

    def is_over(self, limit: float = 0) -> bool:
        """Whether the kernel says that nobody of it is left."""
        return is_over(self._pipe, limit)

    def close(self) -> None:
        os.close(self._pipe)


@pytest.fixture
def family(scratch: Scratch) -> Iterator[Family]:
    made = Family(scratch, "family")
    yield made
    made.close()


def served(scratch: Scratch, family: Family) -> LinesClient:
    client = scratch.lines().initialized()
    assert len(family.pids(client)) == 6
    return client


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_after_a_violent_end_of_the_daemon_every_descendant_is_gone(
    scratch: Scratch, family: Family, number: signal.Signals
) -> None:
    daemon = scratch.serve({family.name: family.entry})
    served(scratch, family)
    os.kill(daemon.pid, number)
    assert family.is_over(BOUND_SECONDS)
    assert daemon.wait() == 128 + number


def test_a_quit_at_the_terminal_leaves_nobody_behind(scratch: Scratch, family: Family) -> None:
    daemon = scratch.serve({family.name: family.entry})
    served(scratch, family)
    pid = daemon.pid
    # As the kernel does it, to everybody in the foreground: first the one that was there first.
    daemon.signal(signal.SIGQUIT)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGQUIT)
    assert family.is_over(BOUND_SECONDS)
    assert daemon.wait() == 128 + signal.SIGQUIT


def test_a_daemon_whose_watcher_is_killed_goes_out_in_order(scratch: Scratch) -> None:
    daemon = scratch.serve({"echo": server("echo")})
    assert scratch.lines().initialized().tools()
    pid = daemon.pid
    servers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    daemon.process.kill()
    until(lambda: all(is_gone(int(each)) for each in [pid, *servers]), "the daemon and its servers are gone")
    assert servers and scratch.logged().endswith("daemon stopped\n")
    assert not scratch.registry.exists()


@pytest.mark.quick
def test_after_the_watcher_alone_is_killed_every_descendant_is_gone(scratch: Scratch, family: Family) -> None:
    daemon = scratch.serve({family.name: family.entry})
    served(scratch, family)
    pid = daemon.pid
    daemon.process.kill()
    assert family.is_over(BOUND_SECONDS)
    until(lambda: is_gone(pid), "the daemon is gone")
    assert not scratch.registry.exists()


@pytest.mark.quick
def test_the_daemon_reaps_the_orphans_of_its_servers(scratch: Scratch, family: Family) -> None:
    daemon = scratch.serve({family.name: family.entry}, heartbeat_interval=0.1)
    _, escaped, *_ = family.pids(served(scratch, family))
    assert int(Path(f"/proc/{escaped}/stat").read_text().rpartition(")")[2].split()[1]) == daemon.pid
    os.kill(escaped, signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{escaped}"), "the orphan is reaped")


def test_a_server_that_is_reloaded_away_takes_its_group_and_the_rest_goes_with_the_daemon(
    scratch: Scratch, family: Family
) -> None:
    daemon = scratch.serve({family.name: family.entry})
    itself, *escaped_and_group = family.pids(served(scratch, family))
    escaped, group = escaped_and_group[:2], escaped_and_group[2:]
    scratch.configure({})
    scratch.control().control("reload")
    until(lambda: all(map(is_gone, [itself, *group])), "the server and its group are gone")
    # Out of reach without control groups, as the documents say …
    assert not any(map(is_gone, escaped))
    assert scratch.status()["containment"] == "process groups"
    os.kill(daemon.pid, signal.SIGKILL)
    # … but not for ever.
    assert family.is_over(BOUND_SECONDS)


SUDO = """
import os, signal
from hearth.host.linux import orphan_reaper as watcher

def stay():
    # For a test that fails before it has ended them; and without a share in the output, whose end is waited for.
    signal.alarm(300)
    os.close(1)
    os.close(2)
    while True:
        signal.pause()

assert watcher._prctl(watcher._SET_CHILD_SUBREAPER, 1)
foreign = os.fork()
if foreign == 0:
    stay()
os.setuid(12345)
for _ in range(3):
    if os.fork() == 0:
        os.fork()
        stay()
watcher._kill_the_rest()
print(foreign, watcher._children_by_scan())
"""


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="only root can leave somebody else's child to another user")
def test_a_child_that_has_become_another_user_s_is_left_and_the_others_are_killed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SUDO], capture_output=True, text=True, check=True, timeout=BOUND_SECONDS
    )
    foreign = int(done.stdout.split()[0])
    try:
        assert done.stdout == f"{foreign} [{foreign}]\n"
        assert not is_gone(foreign)
    finally:
        os.kill(foreign, signal.SIGKILL)
