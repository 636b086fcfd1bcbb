"""Lines: any cut of the byte stream gives the same ones, and the limit holds."""

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from hearth.bridge.client_io import HEAD_BYTES, TAIL_BYTES, LineSplitter

LIMIT = 20


def split(stream: bytes, cuts: list[int], limit: int = LIMIT) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    splitter = LineSplitter(limit)
    lines: list[bytes] = []
    borders = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    for start, stop in itertools.pairwise(borders):
        lines += splitter.receive_data(stream[start:stop])
    return lines + splitter.receive_eof(), splitter.oversize


def expected(stream: bytes) -> tuple[list[bytes], list[bytes]]:
    lines = [line.removesuffix(b"\r") for line in stream.split(b"\n")]
    lines = [line for line in lines if line.strip()]
    return [line for line in lines if len(line) <= LIMIT], [line for line in lines if len(line) > LIMIT]


streams = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b" ", b"a", b'{"id":1}', b"x" * 19, b"y" * 50])).map(
    b"".join
)


@given(streams, st.lists(st.integers(0, 1000)))
@example(b"z" * 20 + b"\r\n", [])
@example(b"z" * 21 + b"\n", [])
@example(b"z" * 20 + b"\r\n", [21])
def test_any_cut_gives_the_same_lines(stream: bytes, cuts: list[int]) -> None:
    lines, skipped = split(stream, cuts)
    wanted, too_large = expected(stream)
    assert lines == wanted
    assert [head[:LIMIT] for head, _ in skipped] == [line[:LIMIT] for line in too_large]


def test_of_a_line_over_the_limit_the_first_and_the_last_bytes_are_kept() -> None:
    splitter = LineSplitter(10_000)
    line = b"first" + b"x" * 50_000 + b"last"
    for start in range(0, len(line), 999):
        assert splitter.receive_data(line[start : start + 999]) == []
    assert splitter.receive_data(b"\r\nnext\n") == [b"next"]
    [(head, tail)] = splitter.oversize
    assert (len(head), head[:6]) == (HEAD_BYTES, b"firstx")
    assert (len(tail) <= TAIL_BYTES, tail[-5:]) == (True, b"xlast")


def test_nothing_of_a_line_over_the_limit_is_collected() -> None:
    splitter = LineSplitter(1000)
    for _ in range(100):
        splitter.receive_data(b"x" * 1000)
    assert splitter._size <= 1001 and splitter._parts == []
