"""A conversation with a child process: messages out, messages in."""

import sys

import pytest

from hearth.stdio_client import ClientError, Conversation

# Says something that is no message, then one, and ends with its input.
SPEWING = """
import sys
for line in ("starting...", "[1]", '{"jsonrpc": "2.0", "method": "hello"}'):
    print(line, flush=True)
sys.stdin.read()
"""


def test_what_is_no_message_is_passed_over() -> None:
    talk = Conversation("it", [sys.executable, "-I", "-S", "-c", SPEWING], {})
    try:
        arrived = talk.receive(20)
        assert arrived is not None
        assert arrived[1]["method"] == "hello"
        talk.hang_up()
        with pytest.raises(ClientError, match="it lost its process"):
            talk.receive(20)
    finally:
        assert talk.leave() == 0
        assert talk.process.stdout
        talk.process.stdout.close()
