"""The end of a log."""

import io

import pytest

from hearth.cli.daemon.logs import BLOCK_BYTES, last_lines


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10])
def test_the_last_lines_are_the_last_lines(count: int) -> None:
    lines = [b"one\n", b"two\n", b"three\n"]
    assert last_lines(io.BytesIO(b"".join(lines)), count) == b"".join(lines[-count:] if count else [])


def test_a_last_line_without_its_end_counts_as_a_line() -> None:
    assert last_lines(io.BytesIO(b"one\ntwo\nthr"), 2) == b"two\nthr"


def test_lines_that_cross_blocks_are_whole() -> None:
    long = b"x" * BLOCK_BYTES
    assert last_lines(io.BytesIO(b"first\n" + long + b"\nlast\n"), 2) == long + b"\nlast\n"


def test_the_file_is_left_at_its_end() -> None:
    file = io.BytesIO(b"one\ntwo\n")
    last_lines(file, 1)
    assert file.read() == b""
