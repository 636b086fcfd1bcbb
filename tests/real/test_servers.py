"""Servers that really exist, with clients that really exist: through Hearth they answer as they do without."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.real.clients import PYTHON_AUTO, PYTHON_LEGACY, Player, play
from support.real.comparison import assert_same, comparable
from support.real.home import RealHome
from support.real.servers import SERVERS, Server, website

pytestmark = pytest.mark.real
PLAYERS = {"auto": PYTHON_AUTO, "legacy": PYTHON_LEGACY}


class Stage:
    """One server, configured once for each client, and what its steps need."""

    def __init__(self, server: Server, home: RealHome, needed: str) -> None:
        self.server = server
        self.home = home
        self.scenario: dict[str, Any] = {"patience_seconds": 20, "answers": {}, "steps": server.steps(needed)}


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """A website on this machine."""
    with website() as address:
        yield address


@pytest.fixture(scope="module", params=SERVERS, ids=lambda server: server.name)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, site: str) -> Iterator[Stage]:
    """A server, in a home of its own."""
    server: Server = request.param
    place = tmp_path_factory.mktemp(server.name)
    entries = {name: server.entry(folder(place, name)) for player in PLAYERS for name in (player, f"{player}-direct")}
    with RealHome(entries) as home:
        yield Stage(server, home, site if server.name == "fetch" else str(place))


def folder(place: Path, name: str) -> Path:
    """A folder for the state of one configured server."""
    path = place / name
    path.mkdir()
    return path


@pytest.mark.parametrize("name", PLAYERS)
def test_a_real_server_answers_through_hearth_as_it_does_without(stage: Stage, name: str) -> None:
    player: Player = PLAYERS[name]
    bridged = play(player, stage.home.bridged(name), stage.scenario)
    assert bridged["opening"]["protocolVersion"] == ("2026-07-28" if player.is_modern else "2025-11-25")
    assert_same(bridged, play(player, stage.home.direct(f"{name}-direct"), stage.scenario))
    stage.server.check(comparable(bridged))
