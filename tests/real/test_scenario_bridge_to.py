"""The same scenario and clients through `hearth bridge --to`, on the HTTP of another daemon than the bridge's own."""

import sys
from pathlib import Path

import pytest

from support.daemon import Scratch
from support.real.board import scenario
from support.real.clients import Command, Player, play
from support.real.comparison import assert_same
from support.real.home import RealHome
from support.real.scenario.python_client import Document
from support.scripted_daemon import SCRIPT

pytestmark = pytest.mark.real


def test_a_client_sees_what_it_sees_without(home: RealHome, player: Player, direct: Document) -> None:
    address = f"unix:{home.on_socket().socket}:/mcp/board"
    words = [sys.executable, "-I", "-S", str(Path(SCRIPT)), "--to", address]
    with Scratch() as own:
        own.configure()
        own.start()
        found = play(player, Command(words, own.environment(), str(home.scratch.home)), scenario())
    assert_same(found, direct)
    assert found["opening"]["protocolVersion"] == direct["opening"]["protocolVersion"]
