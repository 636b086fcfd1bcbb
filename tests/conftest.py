"""What holds for every test."""

import asyncio
import functools
import inspect
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

Entry = TypeVar("Entry")

# Time for an async test; `pytest.mark.timeout` gives a test another.
ASYNC_BOUND_SECONDS = 60

# Theirs is a Windows Python: see `make test-windows`.
collect_ignore = [] if sys.platform == "win32" else ["windows"]

# What `make test` has no time for, by folder and the beginning of a file's name: who adds one need not think of it.
THOROUGH = {
    "conformance": ("test_wires_",),
    "process": (
        "test_agent_races",
        "test_agent_store_",
        "test_agent_worktrees",
        "test_agents_bad_input",
        "test_agents_permissions",
        "test_agents_processes",
        "test_agents_restart",
        "test_agents_waits",
        "test_agents_wires",
        "test_bridge_to_",
        "test_daemon_degraded",
        "test_edge_cases_",
        "test_http_",
        "test_launchd_",
        "test_oauth_",
        "test_orphans",
        "test_pins_",
        "test_policy_reload",
        "test_reload_",
        "test_search_",
        "test_secrets_",
        "test_sharing_",
        "test_stderr_",
        "test_stdio_",
        "test_supervised_",
        "test_misbehaving_",
    ),
    "e2e": (
        "test_cli_add",
        "test_cli_agents",
        "test_cli_demo",
        "test_cli_hooks",
        "test_cli_values",
        "test_doctor_",
        "test_setup_",
        "test_systemd_http",
        "test_systemd_orphans",
        "test_systemd_trouble",
        "test_systemd_units",
    ),
}

# Files that take half a minute or so: as the last one, each would leave the other core idle for as long.
SLOW = {
    "test_cli_agents.py",
    "test_cli_call.py",
    "test_cli_control.py",
    "test_cli_demo.py",
    "test_doctor_faults.py",
    "test_http_ports.py",
    "test_oauth_login.py",
    "test_oauth_refresh.py",
    "test_reload_file.py",
    "test_setup_whole.py",
    "test_misbehaving_upstreams.py",
    # In tests/real.
    "test_acp_agents_directly.py",
    "test_agents.py",
    "test_hooks_of_clients.py",
}


def pytest_configure() -> None:
    """Programs that the tests interrupt must not have inherited that they ignore it, as a shell's `&` has it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.platform == "win32":
        return
    for terminal in (signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(terminal) == signal.SIG_IGN:
            signal.signal(terminal, signal.SIG_DFL)


def _bounded(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def bounded(**fixtures: Any) -> None:
        __tracebackhide__ = True
        async with asyncio.timeout(seconds):
            await test(**fixtures)

    return bounded


def pytest_itemcollected(item: pytest.Item) -> None:
    """Bound each async test: one that waits for ever fails alone, where pytest-timeout would end the whole run."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        marker = item.get_closest_marker("timeout")
        item.obj = _bounded(item.obj, marker.args[0] if marker else ASYNC_BOUND_SECONDS)


class RotatedFolder(pytest.Dir):
    """Folder whose entries a worker takes from a place of its own.

    In a fresh checkout all workers would otherwise compile the same module at the same time: so each compiles some, and
    finds the others compiled.
    """

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Return the files and folders, those of this worker's share first."""
        return rotated(self.config, super().collect())


class RotatedPackage(pytest.Package):
    """Package that is collected as a RotatedFolder is."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Return the files and folders, those of this worker's share first."""
        return rotated(self.config, super().collect())


def rotated(config: pytest.Config, entries: Iterable[Entry]) -> list[Entry]:
    """Begin with this worker's share of the entries."""
    number, count = int(config.workerinput["workerid"][2:]), config.workerinput["workercount"]
    found = list(entries)
    first = len(found) * number // count
    return found[first:] + found[:first]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Rotate what a worker collects; share_out() restores the order."""
    if not hasattr(parent.config, "workerinput"):
        return None
    kind = RotatedPackage if (path / "__init__.py").exists() else RotatedFolder
    return kind.from_parent(parent, path=path)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is run by `make thorough`: everything in these files that is not marked as quick."""
    for item in items:
        is_thorough = item.path.name.startswith(THOROUGH.get(item.path.parent.name, ()))
        if is_thorough and "quick" not in item.keywords:
            item.add_marker("thorough")
    # Only a worker of pytest-xdist has this; the Python on Windows runs without that plugin and its marker.
    if hasattr(config, "workerinput"):
        share_out(config.rootpath, items)


def share_out(root: Path, items: list[pytest.Item]) -> None:
    """Group the tests for the workers, slow groups first: a worker takes the next group when it is done with one."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group_of(root, item)))
    items.sort(key=lambda item: (rank_of(root, item), item.path))


def group_of(root: Path, item: pytest.Item) -> str:
    """Return the name of the tests that stay with this one: those of its file, which may share fixtures."""
    fixtures = getattr(item, "fixturenames", ())
    if "host" in fixtures and item.path.parent.name == "deb":
        # These list what is left in folders that a booted system has from this machine: another's would show there.
        return "host"
    if "desk" in fixtures:
        # Booted over folders of its own, for one test.
        return re.sub(r"\W+", "-", item.nodeid)
    # One systemd is booted for the session; a second one would be a leftover to tests/e2e/test_machine.py. Its tests of
    # leftovers are not among the slow ones.
    if "systemd" in item.keywords and "slow" not in item.keywords:
        return "systemd"
    return item.path.relative_to(root).with_suffix("").as_posix()


def rank_of(root: Path, item: pytest.Item) -> int:
    """Return the place of a test's group in the queue; groups of one rank stay in the order of collection."""
    if "systemd" in item.keywords:
        return 0
    if item.path.name in SLOW:
        return 1
    return 3 if item.path.is_relative_to(root / "tests" / "unit") else 2
