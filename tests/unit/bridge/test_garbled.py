"""Lines that are not JSON, as standard error shows them."""

import pytest

from hearth.bridge.garbled import SHOWN_CHARACTERS, described


def test_a_line_is_shown_as_it_is() -> None:
    assert described(b"Debugger listening on port 9229").endswith(": Debugger listening on port 9229")


def test_a_long_line_is_cut() -> None:
    shown = described(b"word " * 1000)
    assert shown.endswith(" …")
    assert len(shown) < SHOWN_CHARACTERS + 80


@pytest.mark.parametrize(
    "line",
    [
        'token=s3cr3tvalue', 'API_KEY: "hunter2secret"', "Authorization: Bearer hunter2secret",
        "password hunter2secret",
        "export GITHUB_TOKEN=ghp_hunter2secretABCDEFGH0123", "got ghp_hunter2secretABCDEFGH0123 from the vault",
        "x" * 190 + " token=hunter2secret",
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_masked(line: str) -> None:
    shown = described(line.encode())
    assert "hunter2" not in shown and "s3cr3t" not in shown
    assert "***" in shown or "…" in shown


def test_no_control_character_reaches_the_terminal() -> None:
    assert described("a\x1b[31mb\x9b\u202ec".encode()).isprintable()


def test_bytes_that_are_no_text_are_shown_as_replaced() -> None:
    assert described(b"\xff\xfe").isprintable()
