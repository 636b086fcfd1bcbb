"""Whether a daemon runs, by its registry entry."""

import os
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest

from hearth import registry
from hearth.control_client import running_daemon
from hearth.host import processes
from hearth.paths import Places


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    with TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Places()


def test_a_daemon_is_asked_where_bridges_reach_it_whatever_its_entry_says(places: Places) -> None:
    started = processes.start_time(os.getpid()) or processes.UNKNOWN_START_TIME
    entry = registry.RegistryEntry(
        daemon_id="d", endpoint="/elsewhere.sock", pid=os.getpid(), start_time=started, started_at=1.0, version="1",
        protocol=1,
    )  # fmt: skip
    registry.write(places, entry)
    assert running_daemon.find(places) == running_daemon.RunningDaemon(places.socket, os.getpid(), started)


def test_nothing_that_runs_is_called_as_the_daemon_calls_itself(places: Places) -> None:
    assert running_daemon.absent(places)["profile"] == "mcp"
    by_config = Places(config="/home/u/odd.toml")
    assert running_daemon.absent(by_config)["profile"] == by_config.key
