"""What a server says on its stderr, bytes in, lines kept: long ones, secret ones, and far too many."""

import asyncio
from collections import deque

import pytest

from hearth.masking import Mask
from hearth.upstreams import stderr
from hearth.upstreams.stderr import Flood, Stderr

SECRET = "s3cr3t-" + "k" * 40


class Kept:
    """A reader, and what it keeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ring: deque[str] = deque(maxlen=stderr.RING_LINES)
        self.lines: list[str] = []
        self.endings = 0
        monkeypatch.setattr(stderr.FILES, "append", lambda name, lines: self.lines.extend(lines))
        self.reader = Stderr("it", 42, self.ring, Mask([SECRET]), self._ended)

    def _ended(self) -> None:
        self.endings += 1

    @property
    def texts(self) -> list[str]:
        """Without time and pid."""
        return [line.split("] ", 1)[1] for line in self.lines]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    return Kept(monkeypatch)


class Transport:
    """Notes whether it is read from."""

    reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return False


def test_lines_are_kept_with_time_and_pid_however_they_arrive(kept: Kept) -> None:
    for piece in (b"one\ntw", b"o\n", b"\nthr", b"ee"):
        kept.reader.data_received(piece)
    assert kept.texts == ["one", "two", ""]
    kept.reader.connection_lost(None)
    assert (kept.texts, list(kept.ring), kept.endings) == (["one", "two", "", "three"], ["one", "two", "", "three"], 1)
    assert kept.lines[0][4:5] == "-" and kept.lines[0].endswith(" [42] one")


def test_a_line_without_end_is_cut_and_the_next_one_is_whole(kept: Kept) -> None:
    for _ in range(20):
        kept.reader.data_received(b"x" * 1000)
    kept.reader.data_received(b"\nnext\n")
    assert kept.texts == ["x" * stderr.LINE_CHARACTERS + "…", "next"]
    assert list(kept.ring) == ["x" * stderr.RING_CHARACTERS, "next"]


def test_what_a_terminal_would_obey_is_taken_out(kept: Kept) -> None:
    kept.reader.data_received(b"\x1b[31;1mred\x1b[0m\t\x1b]0;title\x07 \xff\r\n")
    assert kept.texts == ["red\t ]0;title  \N{REPLACEMENT CHARACTER}"]


@pytest.mark.parametrize("before", range(stderr._RAW_BYTES - 60, stderr._RAW_BYTES + 10, 7))
def test_no_part_of_a_secret_is_left_where_a_line_is_cut(kept: Kept, before: int) -> None:
    # Those that are hidden make the line shorter than it was.
    first = (SECRET + " ") * 50
    line = first + "x" * (before - len(first)) + SECRET + "y" * 9000
    kept.reader.data_received(line.encode() + b"\n")
    (text,) = kept.texts
    assert "s3cr3t" not in text and "kkk" not in text


def test_a_secret_in_colours_is_one(kept: Kept) -> None:
    kept.reader.data_received(f"token={SECRET[:9]}\x1b[1m{SECRET[9:]}\n".encode())
    assert kept.texts == ["token=***"]


async def test_of_a_flood_the_beginning_and_the_end_are_kept_and_the_rest_is_counted(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stderr, "FLOOD_SECONDS", 0.01)
    total = stderr.BURST_LINES * 3
    lines = [b"%d" % number for number in range(total)]
    for first in range(0, total, 1000):
        kept.reader.data_received(b"\n".join(lines[first : first + 1000]) + b"\n")
    while not any("left out" in text for text in kept.texts):
        await asyncio.sleep(0.005)
    (notice,) = [text for text in kept.texts if "left out" in text]
    assert (kept.texts[0], kept.texts[-1]) == ("0", str(total - 1))
    assert int(notice.split()[1]) + len(kept.texts) - 1 == total
    assert kept.ring[-1] == str(total - 1)


async def test_the_last_words_are_kept_of_one_that_ends_in_a_flood(kept: Kept) -> None:
    kept.reader.data_received(b"noise\n" * stderr.BURST_LINES * 2)
    kept.reader.data_received(b"Traceback: it was the disk\nbye")
    kept.reader.connection_lost(None)
    assert kept.texts[-2:] == ["Traceback: it was the disk", "bye"]
    assert list(kept.ring)[-2:] == ["Traceback: it was the disk", "bye"]


async def test_one_that_is_faster_than_anybody_reads_is_slowed_down_and_read_on(kept: Kept) -> None:
    transport = Transport()
    kept.reader.connection_made(transport)  # type: ignore[arg-type]
    sent = 0
    while transport.reading:
        # Not a single line's end.
        kept.reader.data_received(b"x" * 65536)
        sent += 65536
    assert sent < 2 * stderr.FLOOD_READ_BYTES
    while not transport.reading:
        await asyncio.sleep(0.005)
    kept.reader.data_received(b"the end of that line\nanother\n")
    assert kept.texts[-1] == "another"


@pytest.mark.parametrize("cut", range(1, 60, 3))
async def test_half_a_secret_is_not_kept_at_the_edge_of_a_flood(kept: Kept, cut: int) -> None:
    """The end of a flood begins in the midst of a secret, in a line that goes on after it."""
    kept.reader.data_received(b"noise\n" * stderr.BURST_LINES * 2)
    kept.reader.data_received(SECRET.encode() + b"z" * (stderr.FLOOD_END_BYTES - cut))
    kept.reader._end_flood()
    kept.reader.data_received(b" still that line\nnext\n")
    assert "kkk" not in "".join(kept.texts)
    assert kept.texts[-1] == "next"


def test_a_small_flood_is_kept_whole() -> None:
    flood = Flood()
    flood.add(b"a\nb")
    flood.add(b"c\nd")
    assert flood.end() == ([b"a", b"bc"], b"d", False)
