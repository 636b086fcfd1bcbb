"""Who makes room when there are too many sessions over HTTP, and in which order."""

from pathlib import Path
from typing import Any, cast

import pytest

from hearth.config import Config
from hearth.daemon.http.session_store import ClientIdentity, SessionStore
from hearth.daemon.http.sessions import TTL_SECONDS, HttpSession, HttpSessions
from hearth.errors import Refused
from hearth.hub.hub import Hub

WHO = ClientIdentity(1000)
MOST = 6


class Room:
    """For a few sessions. Time passes with everything that is done."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        hub = Hub(Config(), str(folder / "learned.json"), "d1")
        kept = SessionStore(str(folder / "sessions"), TTL_SECONDS)
        self.sessions = HttpSessions(hub, lambda: (MOST, 1024 * 1024), lambda: self.now, kept)
        self._ids: dict[str, str] = {}

    def open(self, *names: str) -> None:
        for name in names:
            self.now += 1
            self._ids[name], _ = self.sessions.open_legacy(WHO)

    def find(self, name: str) -> HttpSession:
        found = self.sessions.find(self._ids[name], WHO)
        assert found, f"{name} had to make room"
        return found

    def use(self, *names: str) -> None:
        """A request of each, which is answered."""
        for name in names:
            self.now += 1
            found = self.find(name)
            found.use()
            found.begin()
            found.done()

    @property
    def here(self) -> str:
        return "".join(name for name, id in self._ids.items() if self.sessions.find(id, WHO))


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_those_only_opened_go_first_and_then_those_that_were_idle_longest(room: Room) -> None:
    room.open(*"abcd")
    room.use(*"dba")
    room.open(*"ef")
    left = []
    for newcomer in "123456":
        before = room.here
        room.open(newcomer)
        room.use(newcomer)
        left += [name for name in before if name not in room.here]
    # Of c, e and f only the opening is known: the longest ago first. Of the others, d was used longest ago.
    assert left == list("cefdba")


def test_a_flood_of_openings_takes_the_place_of_openings_only(room: Room) -> None:
    room.open(*"ab")
    room.use(*"ab")
    room.open(*(f"flood {number}" for number in range(50)))
    assert room.find("a") and room.find("b")
    assert room.here.endswith("".join(f"flood {number}" for number in range(46, 50)))


def test_a_stream_that_is_open_is_never_taken_away_for_an_opening(room: Room) -> None:
    room.open(*"abcdef")
    room.use(*"bcdef")
    for name in "ab":
        room.find(name).begin()
    room.open("1")
    assert room.here == "abdef1"
    for name in "def1":
        room.find(name).begin()
    with pytest.raises(Refused, match="max_connections"):
        room.open("2")


def test_a_call_in_flight_goes_last(room: Room) -> None:
    room.open(*"abcdef")
    # Its client's connection broke, and it may come back for the answer.
    room.find("a").session.open["call"] = cast(Any, None)
    room.use(*"bcdef")
    room.open(*"12345")
    assert room.here == "acdef5"
