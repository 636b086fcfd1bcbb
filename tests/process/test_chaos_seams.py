"""The daemon is killed once at each fault seam, with clients at work: every window of every race, hit on purpose.

HEARTH_FAULTS reaches the daemon through the bridge that starts it. The claim file lets exactly one process take the
fault, and its absence proves that the seam was hit.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hearth import faults
from support.chaos.client import Client
from support.chaos.frames import restart
from support.chaos.home import Home, wait_for_end
from support.chaos.load import Load, chosen_seed, death, settle, start, under_load
from support.kernel import until

BRIDGES = 4
# Far enough into the load that there is something to lose.
_IN_THE_MIDDLE = 25


def armed(home: Home, seam: str, action: str, passage: int) -> tuple[Path, dict[str, str]]:
    """The claim file, and the environment that lets one process take the fault."""
    claim = home.folder / "claim"
    claim.touch()
    return claim, {"HEARTH_FAULTS": f"{seam}={action}@{passage}:{claim}"}


def keep_working(home: Home, environment: dict[str, str]) -> None:
    """The load passes the seam by itself."""


def come_late(home: Home, environment: dict[str, str]) -> None:
    """One more bridge connects, with a call that no daemon has looked at when the first one dies."""
    with Client(home, environment=environment) as client:
        client.open()
        assert client.text(client.call("once", key="late")) == "once late"
        assert client.leave() == 0


def ask_for_restart(home: Home, environment: dict[str, str]) -> None:
    """The daemon goes politely, and does not get to the end of it."""
    restart(home)


def edit_config(home: Home, environment: dict[str, str]) -> None:
    """The config file changes, and the next bridge has the daemon look at it."""
    home.configure(heartbeat_interval=29)
    past = time.time() - 60
    os.utime(home.path / ".config" / "hearth" / "config.toml", (past, past))
    with Client(home, environment=environment) as client:
        client.open()
        assert client.leave() == 0


class Scenario(NamedTuple):
    """How a seam comes to be passed."""

    passage: int
    trigger: Callable[[Home, dict[str, str]], None]
    # Whether calls of the load may be lost, and not only the daemon.
    costs: bool = True


SCENARIOS = {
    "after-accept": Scenario(BRIDGES + 1, come_late),
    "before-exec": Scenario(1, keep_working),
    "before-ack": Scenario(_IN_THE_MIDDLE, keep_working),
    "after-ack": Scenario(_IN_THE_MIDDLE, keep_working),
    "mid-write": Scenario(_IN_THE_MIDDLE, keep_working),
    "before-answer": Scenario(_IN_THE_MIDDLE, keep_working),
    "before-reload": Scenario(1, edit_config),
    "before-unlink": Scenario(1, ask_for_restart, costs=False),
}


@pytest.mark.parametrize("seam", sorted(faults.NAMES - {"bridge-mid-write"}))
def test_a_daemon_that_dies_at_a_seam_costs_no_answer_and_runs_nothing_twice(home: Home, seam: str) -> None:
    scenario = SCENARIOS[seam]
    claim, environment = armed(home, seam, "kill", scenario.passage)
    with under_load(home, chosen_seed(), BRIDGES, environment) as loads:
        with watched_daemon(home) as ended, death(loads):
            start(loads)
            scenario.trigger(home, environment)
            ended()
        assert not claim.exists(), f"nobody passed {seam}"
        let_them_work(loads)
        settle(home, loads)
        assert scenario.costs or not any(load.errors() for load in loads)


@contextlib.contextmanager
def watched_daemon(home: Home) -> Iterator[Callable[[], None]]:
    """The daemon that runs now; call what you get to wait for its end."""
    descriptor = os.pidfd_open(home.wait_for_daemon())
    try:
        yield lambda: wait_for_end(descriptor)
    finally:
        os.close(descriptor)


def let_them_work(loads: list[Load]) -> None:
    """Until each has sent something that only the next daemon can have answered."""
    sent = [len(load.asked) for load in loads]
    enough = [number + 20 for number in sent]
    until(lambda: all(len(load.asked) >= number for load, number in zip(loads, enough, strict=True)), "they go on")


def test_a_bridge_that_stands_still_in_the_middle_of_a_line_finishes_it_after_its_daemon_died(home: Home) -> None:
    claim, environment = armed(home, "bridge-mid-write", "stop", 5)
    with Client(home, environment=environment) as client:
        client.greet()
        calls = [client.call("read", key=f"torn.{number}", delay=30 * number) for number in range(8)]
        until(lambda: not claim.exists(), "the bridge has passed the seam")
        until(lambda: _state(client.pid) == "T", "the bridge stands still")
        home.kill_daemon()
        os.kill(client.pid, signal.SIGCONT)
        assert [client.text(id) for id in calls] == [f"read torn.{number}" for number in range(8)]
        assert client.leave() == 0
        assert [len(client.answers(id)) for id in calls] == [1] * 8
        assert client.garbage == []


def test_a_bridge_that_dies_in_the_middle_of_a_line_harms_nobody_else(home: Home) -> None:
    claim, environment = armed(home, "bridge-mid-write", "kill", 2)
    with under_load(home, chosen_seed(), BRIDGES) as loads:
        start(loads)
        with Client(home, environment=environment) as client:
            client.greet()
            client.call("once", key="torn")
            assert client.process.wait() == -signal.SIGKILL
        assert not claim.exists()
        assert len(client.garbage) == 1
        let_them_work(loads)
        settle(home, loads)
        assert not any(load.errors() for load in loads)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
