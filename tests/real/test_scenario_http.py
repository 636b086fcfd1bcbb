"""The same scenario and clients over HTTP: on a port with its token, on the Unix socket, and by HTTP+SSE."""

import pytest

from support.real.board import SERVERS, assert_same_among_others, prefixed, scenario
from support.real.clients import PYTHON_LEGACY, TYPESCRIPT_V1, TYPESCRIPT_V2_LEGACY, Player, play
from support.real.comparison import assert_same
from support.real.home import RealHome
from support.real.scenario.python_client import Document

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", SERVERS)
def test_on_a_port_a_client_sees_what_it_sees_without(
    home: RealHome, player: Player, direct: Document, name: str
) -> None:
    found = play(player, home.on_port(f"/mcp/{name}"), scenario())
    assert_same(found, direct)
    assert found["opening"]["protocolVersion"] == direct["opening"]["protocolVersion"]


def test_on_the_socket_it_is_the_same(home: RealHome, player: Player, direct: Document) -> None:
    assert_same(play(player, home.on_socket("/mcp/board"), scenario()), direct)
    # The very first client is answered before the server has said anything.
    opening = play(player, home.on_socket("/mcp/board"), {**scenario(), "steps": []})["opening"]
    for key in ("protocolVersion", "instructions"):
        assert opening[key] == direct["opening"][key]
    assert set(opening["capabilities"]) == set(direct["opening"]["capabilities"])


# The modern era has no such wire.
@pytest.mark.parametrize("player", [PYTHON_LEGACY, TYPESCRIPT_V1, TYPESCRIPT_V2_LEGACY], indirect=True)
def test_by_the_wire_of_the_oldest_clients_it_is_the_same(home: RealHome, player: Player, direct: Document) -> None:
    found = play(player, home.on_port("/sse"), prefixed(scenario(), "board__"))
    assert_same_among_others(found, direct, "board__")
