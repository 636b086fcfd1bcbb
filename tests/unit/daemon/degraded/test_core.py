"""What somebody says whom nobody can serve."""

from hearth.daemon.degraded.core import Lines


def test_lines_are_whole_wherever_what_comes_is_cut() -> None:
    said = b"first\n\nsecond\nrest"
    for size in range(1, len(said) + 1):
        lines = Lines()
        found = [line for at in range(0, len(said), size) for line in lines.receive(said[at : at + size])]
        assert (found, lines.rest(), lines.size) == ([b"first", b"", b"second"], b"rest", 4)


def test_a_long_line_is_not_joined_again_with_each_piece() -> None:
    lines, piece = Lines(), b"x" * 1024
    # Joined each time, this would be copied ten thousand times over.
    for _ in range(32 * 1024):
        assert lines.receive(piece) == []
    assert lines.size == 32 * 1024 * 1024
    assert [len(line) for line in lines.receive(b"\n")] == [lines.size + 32 * 1024 * 1024]
