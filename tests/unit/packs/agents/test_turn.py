"""Room for turns: who has some, and when it is given back. The agents are fakes: real ones have processes."""

from types import SimpleNamespace
from typing import Any

import pytest

from hearth.errors import Refused
from hearth.packs.agents.turn import TurnRoom


def agent(id: str, turn: object = None, is_closed: bool = False) -> Any:
    return SimpleNamespace(id=id, turn=turn, is_closed=is_closed)


def test_a_turn_has_room_until_it_ends() -> None:
    room, one = TurnRoom(lambda: 1), agent("a1")
    with room.hold(one):
        assert len(room) == 1
        one.turn = "the first"
    assert len(room) == 1
    with pytest.raises(Refused, match="max_running"), room.hold(agent("a2")):
        pass
    room.leave("a1")
    assert len(room) == 0


def test_a_prompt_for_an_agent_that_is_being_killed_takes_no_room() -> None:
    room = TurnRoom(lambda: 1)
    dying = agent("a1", turn="one that ends with its process", is_closed=True)
    with pytest.raises(Refused, match="closed"), room.hold(dying):
        raise Refused("the agent is closed")
    assert len(room) == 0


def test_no_other_turn_takes_the_room_of_one_that_is_being_replaced() -> None:
    room, one = TurnRoom(lambda: 1), agent("a1", turn="the first")
    with room.hold(one):
        pass
    with room.hold(one):
        # The first turn has ended, and the second has not begun.
        room.leave("a1")
        with pytest.raises(Refused, match="max_running"), room.hold(agent("a2")):
            pass
    assert len(room) == 1


def test_two_prompts_that_wait_for_one_agent_hold_its_room_together() -> None:
    room, one = TurnRoom(lambda: 1), agent("a1")
    with room.hold(one):
        with pytest.raises(Refused, match="no such mode"), room.hold(one):
            raise Refused("no such mode")
        assert len(room) == 1
    assert len(room) == 0
