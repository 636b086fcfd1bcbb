"""Fixtures: a scratch home for each test, or for all tests of a module."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
import uvloop

from support import scripted_daemon
from support.changing_tools import ChangingTools
from support.chaos.home import Home, scratch_home
from support.conformance.revisions import MODERN, NEWEST_LEGACY
from support.daemon import Scratch
from support.eras import Speaker, opened, serve_both
from support.http import raw as http_door
from support.oauth import Authority
from support.puppets.sharing import House
from support.puppets.stage import Actor, Stage

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run an async test on each loop that its mark names; without a mark on asyncio's own."""
    marker = item.get_closest_marker("loops")
    return {name: LOOPS[name] for name in (marker.args if marker else ("asyncio",))}


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    """A home of its own; at the end nothing may be left of what was started in it."""
    with Scratch() as place:
        yield place


@pytest.fixture(scope="module")
def shared() -> Iterator[Scratch]:
    """A home that all tests of a module share, where a daemon that survives them all says as much as a fresh one."""
    with Scratch() as place:
        yield place


@pytest.fixture
def home() -> Iterator[Home]:
    """A home in which bridges start the daemon, and are killed and stopped as well as that one."""
    with scratch_home() as place:
        yield place


@pytest.fixture
def stage(scratch: Scratch) -> Iterator[Stage]:
    """A daemon to be started between puppet servers and clients; a client that has cause to complain fails the test."""
    opened = Stage(scratch)
    yield opened
    opened.close()


@pytest.fixture
def actor(stage: Stage) -> Actor:
    """One legacy server, and a daemon in front of it."""
    found = stage.actor()
    stage.start()
    return found


@pytest.fixture
def house(scratch: Scratch) -> Iterator[House]:
    """Puppet servers and clients that share them, and a daemon between them."""
    opened = House(scratch)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def hurried() -> Iterator[Scratch]:
    """A daemon that does not wait for the rest of a request."""
    yield from http_door.daemon(0.5)


@pytest.fixture(scope="module")
def patient() -> Iterator[Scratch]:
    """One that waits for ever: what ends here has ended for another reason than time."""
    yield from http_door.daemon(0)


@pytest.fixture(params=http_door.DOORS)
def door(request: pytest.FixtureRequest, hurried: Scratch) -> http_door.Door:
    return http_door.Door(hurried, request.param)


@pytest.fixture(params=http_door.DOORS)
def open_door(request: pytest.FixtureRequest, patient: Scratch) -> http_door.Door:
    return http_door.Door(patient, request.param)


@pytest.fixture
def scene() -> Iterator[scripted_daemon.Stage]:
    """Set bridges before a daemon that does what the test writes."""
    with scripted_daemon.stage() as found:
        yield found


@pytest.fixture(scope="module")
def both(shared: Scratch) -> Scratch:
    """Start a daemon with a server of each era."""
    serve_both(shared)
    return shared


@pytest.fixture
def speaker(both: Scratch, era: str) -> Speaker:
    """Connect a client of the era that the test names."""
    return Speaker(opened(both), era)


@pytest.fixture
def authority() -> Iterator[Authority]:
    """Run an authorization server."""
    with Authority() as found:
        yield found


@pytest.fixture
def changing(scratch: Scratch) -> ChangingTools:
    """Prepare a server that changes its tools after they were approved."""
    return ChangingTools(scratch)


@pytest.fixture(params=["lines", "frames"])
def wire(request: pytest.FixtureRequest) -> str:
    """Name each wire of the socket in turn."""
    return request.param


@pytest.fixture(params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> str:
    """Name the era of a client: each in turn."""
    return request.param


@pytest.fixture(params=[NEWEST_LEGACY, MODERN])
def revision(request: pytest.FixtureRequest) -> str:
    """Name the revision of a client: the newest of each era in turn."""
    return request.param


@pytest.fixture(params=[NEWEST_LEGACY, MODERN])
def upstream(request: pytest.FixtureRequest) -> str:
    """Name the revision of a server: the newest of each era in turn."""
    return request.param
