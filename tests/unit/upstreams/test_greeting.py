"""What is taken from a server's answer to its greeting."""

import pytest

from hearth.mcp import eras
from hearth.upstreams.handshake import Greeting
from hearth.wire import json


@pytest.mark.parametrize(
    ("result", "has_tools", "announces"),
    [
        (b'{"capabilities":{"tools":{"listChanged":true}}}', True, True),
        (b'{"capabilities":{"tools":{}}}', True, False),
        (b'{"capabilities":{"tools":{"listChanged":"yes"}}}', True, False),
        (b'{"capabilities":{"prompts":{}}}', False, False),
        # Decided by an error, or a server that says nothing of itself: asking costs nothing, not asking may.
        (b"{}", True, True),
        (b'{"capabilities":{}}', True, True),
    ],
)
def test_tools_are_asked_for_unless_the_server_says_that_it_has_none(
    result: bytes, has_tools: bool, announces: bool
) -> None:
    greeting = Greeting(eras.MODERN, json.split(result))
    assert (greeting.has_tools, greeting.announces_tools) == (has_tools, announces)


def test_instructions_are_kept() -> None:
    assert Greeting(eras.LEGACY, json.split(b'{"instructions":"be kind"}')).instructions == "be kind"
