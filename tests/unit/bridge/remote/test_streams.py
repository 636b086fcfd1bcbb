"""Pauses between connections, and what a client may have missed between them."""

import json
from typing import Any

from hearth.bridge.remote.asking import missed
from hearth.bridge.remote.messages import Message, read
from hearth.bridge.remote.streams import LONGEST_PAUSE_SECONDS, LONGEST_RETRY_SECONDS, pause
from hearth.bridge.replies import Literal


def test_pauses_grow_to_the_longest() -> None:
    assert 0 < pause(0, None) < 1
    assert LONGEST_PAUSE_SECONDS / 2 <= pause(1000, None) <= LONGEST_PAUSE_SECONDS


def test_the_server_has_a_say_within_bounds() -> None:
    assert pause(5, 2000) == 2.0
    assert pause(5, 0) == 0.01
    assert pause(0, 10**9) == LONGEST_RETRY_SECONDS


def test_a_server_that_is_gone_has_none() -> None:
    assert LONGEST_PAUSE_SECONDS / 2 <= pause(1000, 0) <= LONGEST_PAUSE_SECONDS
    assert pause(1000, 10**9) == LONGEST_RETRY_SECONDS


def acknowledgement(**notifications: Any) -> Message:
    [found], _ = read(json.dumps({"method": "x", "params": {"notifications": notifications}}).encode())
    return found


def test_what_was_honoured_may_have_been_missed() -> None:
    found = missed(
        acknowledgement(toolsListChanged=True, promptsListChanged=False, resourceSubscriptions=["a", 7]), Literal("1")
    )
    tag = {"io.modelcontextprotocol/subscriptionId": 1}
    assert [json.loads(line) for line in found] == [
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": tag}},
        {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"_meta": tag, "uri": "a"}},
    ]


def test_nothing_honoured_is_nothing_missed() -> None:
    assert missed(acknowledgement(), "s") == []
