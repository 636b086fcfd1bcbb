"""Characters that steer a terminal."""

import json

import pytest

from hearth import control_chars

WEAPONS = ("\x00", "\x07", "\x08", "\r", "\x1b", "\x7f", "\x85", "\x9b", "\u061c", "\u200b", "\u200e", "\u2028",
           "\u202a", "\u202e", "\u2066", "\u2069", "\ufeff")  # fmt: skip


@pytest.mark.parametrize("weapon", WEAPONS)
def test_each_is_replaced_escaped_and_kept_from_a_terminal(weapon: str) -> None:
    assert control_chars.replaced(f"a{weapon}b") == "a\ufffdb"
    assert control_chars.guarded(f"a{weapon}b") == "a\ufffdb"
    assert json.loads(control_chars.escaped(f'"a{weapon}b"')) == f"a{weapon}b"


def test_text_in_any_script_is_left_as_it_is() -> None:
    text = "naïve\tשלום 日本 🎉\n"
    assert control_chars.replaced(text) == control_chars.escaped(text) == control_chars.guarded(text) == text


def test_a_terminal_gets_the_sequences_of_the_command_line_and_no_other() -> None:
    own = "\x1b[31mhearth:\x1b[0m no\r\x1b[K\r\n\x1b[36m@@ time @@\x1b[0m"
    assert control_chars.guarded(own) == own
    assert (
        control_chars.guarded("\x1b[31mred\x1b[2J\x1b[8mhidden\rover")
        == "\x1b[31mred\ufffd[2J\ufffd[8mhidden\ufffdover"
    )
