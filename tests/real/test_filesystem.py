"""The filesystem server follows its client's folders: each client has its own, at the same time, under one entry."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.real.clients import PYTHON_AUTO, PYTHON_LEGACY, Player, play
from support.real.home import RealHome
from support.real.installation import node_server
from support.real.scenario.python_client import Document
from support.real.servers import call, text

pytestmark = pytest.mark.real
PLAYERS = {"auto": PYTHON_AUTO, "legacy": PYTHON_LEGACY}


@pytest.fixture
def home() -> Iterator[RealHome]:
    """The server without any folder in its config: it takes what the client has."""
    command, *words = node_server("filesystem")
    with RealHome({"files": {"command": command, "args": words}}) as place:
        yield place


def scenario(own: Path, other: Path) -> dict[str, Any]:
    """What a client that works in a folder does there, and tries elsewhere."""
    return {
        "patience_seconds": 20,
        "answers": {"roots/list": {"roots": [{"uri": own.as_uri(), "name": own.name}]}},
        "steps": [
            # The server asks for the folders when it has started, and may be called before it knows.
            {**call("allowed", "list_allowed_directories"), "until": str(own)},
            call("own", "read_text_file", path=str(own / "note.txt")),
            call("other", "read_text_file", path=str(other / "note.txt")),
        ],
    }


def folders(home: RealHome) -> tuple[Path, Path]:
    """Two projects."""
    found = home.folder("first"), home.folder("second")
    for folder in found:
        (folder / "note.txt").write_text(f"in {folder.name}")
    return found


def assert_own_only(seen: Document, own: Path, other: Path) -> None:
    """The client saw its own folder, and nothing of the other one."""
    steps = seen["steps"]
    assert str(own) in text(steps["allowed"])
    assert str(other) not in text(steps["allowed"])
    assert text(steps["own"]) == f"in {own.name}"
    assert steps["other"]["result"]["isError"]


@pytest.mark.parametrize("name", PLAYERS)
def test_two_clients_one_after_the_other_see_their_own_folders_only(home: RealHome, name: str) -> None:
    first, second = folders(home)
    for own, other in ((first, second), (second, first)):
        assert_own_only(play(PLAYERS[name], home.bridged("files", own), scenario(own, other)), own, other)


@pytest.mark.timeout(120)
async def test_clients_of_both_eras_at_the_same_time_see_their_own_folders_only(home: RealHome) -> None:
    first, second = folders(home)
    plays = [(PYTHON_AUTO, first, second), (PYTHON_LEGACY, second, first)]

    def one(player: Player, own: Path, other: Path) -> Document:
        return play(player, home.bridged("files", own), scenario(own, other))

    performed = await asyncio.gather(*(asyncio.to_thread(one, *words) for words in plays))
    for (_, own, other), seen in zip(plays, performed, strict=True):
        assert_own_only(seen, own, other)
