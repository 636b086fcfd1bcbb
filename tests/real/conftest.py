"""What the files with the scenario share."""

from collections.abc import Iterator
from functools import cache

import pytest

from support.real.board import SERVERS, scenario
from support.real.clients import PLAYERS, Player, play
from support.real.home import RealHome
from support.real.scenario.python_client import Document


@pytest.fixture(scope="module", params=PLAYERS, ids=lambda player: f"{player.package}-{player.mode}")
def player(request: pytest.FixtureRequest) -> Player:
    """A client."""
    return request.param


@pytest.fixture(scope="module")
def home(player: Player) -> Iterator[RealHome]:
    """A daemon for all plays of one client.

    Not for those of all: a call that one client has cancelled keeps what a shared process logs from the others, for as
    long as the process may go on with that call.
    """
    with RealHome(SERVERS) as place:
        yield place


@pytest.fixture(scope="module")
def direct(player: Player) -> Document:
    """What the client sees without Hearth."""
    return _seen_without(player)


@cache
def _seen_without(player: Player) -> Document:
    with RealHome(SERVERS) as place:
        return play(player, place.direct("board"), scenario())
