"""Fixtures: a home for the CLI, one booted systemd for the session, a fresh user for each test, two Pythons."""

import os
import shutil
from collections.abc import Iterator
from itertools import count

import pytest

from e2e.cli_home import Bridge, Home, attached_bridge, scratch_home
from e2e.systemd.installation import Installation, fill, make_folder, newest_python, system_python
from e2e.systemd.machine import Machine, missing_requirement
from e2e.systemd.seat import Seat

_numbers = count(1)
# Where the package python3-systemd has it.
SYSTEMD_PYTHON = "/usr/lib/python3/dist-packages/systemd"


def missing(reason: str) -> None:
    """Skip, but not in CI: there, what is missing must be installed."""
    if os.environ.get("CI"):
        pytest.fail(f"in CI this must not be missing: {reason}")
    pytest.skip(reason)


class World:
    """The booted machine and what is installed in it."""

    def __init__(self, machine: Machine, installations: dict[str, Installation]) -> None:
        self.machine = machine
        self.installations = installations


@pytest.fixture(scope="session")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Install outside, then boot; everything is gone at the end, also when the tests are killed."""
    reason = missing_requirement()
    if reason:
        missing(reason)
    newest = newest_python() if _is_chosen("newest", request.session.items) else None
    pythons = {"system": system_python()} | ({"newest": newest} if newest else {})
    folder = make_folder()
    try:
        installations = fill(folder, pythons)
        with Machine(folder_to_remove=str(folder)) as machine:
            for python in pythons.values():
                _let_everybody_reach(machine, python)
            yield World(machine, installations)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_chosen(installation: str, items: list[pytest.Item]) -> bool:
    # One that no test of this run uses takes seconds to install all the same.
    chosen = (item.callspec.params.get("installation") for item in items if hasattr(item, "callspec"))
    return installation in chosen


def _let_everybody_reach(machine: Machine, path: str) -> None:
    # An interpreter in root's home; this is the overlay's copy of the folder, the real one stays closed.
    real = os.path.realpath(path)
    while real != "/":
        real = os.path.dirname(real)
        machine.check("chmod", "o+x", real)


@pytest.fixture(scope="session")
def machine(world: World) -> Machine:
    """The booted machine."""
    return world.machine


@pytest.fixture(scope="session", params=["system", pytest.param("newest", marks=pytest.mark.slow)])
def installation(request: pytest.FixtureRequest, world: World) -> Installation:
    """Hearth on the distribution's Python, and on 3.13 where one is at hand."""
    if request.param not in world.installations:
        pytest.skip("there is no python3.13 on the PATH or among pyenv's versions")
    return world.installations[request.param]


@pytest.fixture
def bare_seat(world: World, installation: Installation) -> Iterator[Seat]:
    """A fresh user with a running service manager, and no units yet."""
    user = world.machine.add_user(f"u{next(_numbers)}", linger=True)
    seat = Seat(world.machine, user, installation)
    yield seat
    seat.close()


@pytest.fixture
def seat(bare_seat: Seat) -> Seat:
    """The same, with a config and the units installed: mcp.socket listens, nothing runs."""
    bare_seat.configure()
    bare_seat.install()
    return bare_seat


@pytest.fixture(params=["systemd-python (daemon, journal)", "the standard library"])
def protocols(request: pytest.FixtureRequest, seat: Seat) -> Iterator[str]:
    """Have systemd's protocols spoken by the distribution's systemd-python, or by Hearth's own lines; return which."""
    link = f"{seat.installation.package.parent}/systemd"
    if request.param.startswith("systemd-python"):
        if seat.installation.base != "/usr/bin/python3":
            pytest.skip("python3-systemd is compiled for the distribution's Python")
        if not os.path.isdir(SYSTEMD_PYTHON):
            missing("the package python3-systemd")
        seat.machine.check("ln", "-s", SYSTEMD_PYTHON, link)
    yield request.param
    seat.machine.check("rm", "-f", link)


@pytest.fixture
def home() -> Iterator[Home]:
    """Make a home with its own environment; the daemon in it is stopped at the end."""
    yield from scratch_home()


@pytest.fixture
def bridge(home: Home) -> Iterator[Bridge]:
    """Attach a client to a daemon in that home."""
    yield from attached_bridge(home)
