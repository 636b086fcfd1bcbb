"""The core of the degraded daemon, which works when nothing else of Hearth can be imported."""

import ast
import sys
from pathlib import Path

import pytest

from hearth.daemon.degraded import core, posix
from hearth.daemon.degraded.core import Frames, Lines, encode_frame
from hearth.wire import frames


@pytest.mark.parametrize("module", [core, posix])
def test_core_and_last_resort_need_nothing_but_the_standard_library(module: object) -> None:
    tree = ast.parse(Path(str(getattr(module, "__file__"))).read_text(encoding="utf-8"))  # noqa: B009
    found = {name.name for node in tree.body if isinstance(node, ast.Import) for name in node.names}
    found |= {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert found - sys.stdlib_module_names - {"collections.abc", "hearth.daemon.degraded.core"} == set()


def test_its_frames_are_those_of_the_protocol() -> None:
    assert (core.PROTOCOL_VERSION, core.MESSAGE_LIMIT_BYTES) == (frames.PROTOCOL_VERSION, frames.MESSAGE_LIMIT_BYTES)
    assert encode_frame({"type": "mcp"}, b"payload") == frames.encode(b'{"type": "mcp"}', b"payload")
    sent = frames.encode(b"{}") + frames.encode(b'{"seq": 1}', b"x" * 70000)
    for size in (1, 5, 7, len(sent)):
        decoder = Frames()
        found = [frame for at in range(0, len(sent), size) for frame in decoder.receive(sent[at : at + size])]
        assert found == [(b"{}", b""), (b'{"seq": 1}', b"x" * 70000)]
    for prefix in ("00000004 0001", "00000004 0003", "0f000000 0002"):
        with pytest.raises(ValueError, match="a frame of"):
            Frames().receive(bytes.fromhex(prefix))


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
