"""200 streams of events, one of which nobody reads: the others do not notice, it is dropped, and nothing of it stays.

That the others are not delayed is shown without a clock: each of them is told everything while the daemon still holds
what the one has not read.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from support.daemon import Scratch, server
from support.http.event_streams import Audience, OldWatcher, Pinner, Watcher, got, listening
from support.kernel import until

STREAMS = 200
MIB = 1 << 20
# What may wait for one reader; far above what the daemon itself grows by from one moment to the next.
LIMIT_BYTES = 32 * MIB
ANSWER_BYTES = 2 * MIB
# More than the kernel and the transport take for somebody who does not read.
BALLAST_BYTES, BALLAST_ROUNDS = 4096, 110
DROPPED = "its connection is dropped"


class House:
    """A daemon with a board."""

    def __init__(self, scratch: Scratch, **settings: object) -> None:
        scratch.configure({"bulletin": server("bulletin", isolation="shared")}, **settings)
        self.scratch = scratch
        self.daemon = scratch.start()
        self.pid = self.daemon.pid
        self.pinner = scratch.own(Pinner(scratch))
        self.pin = self.pinner.pin

    def sockets(self) -> int:
        """The open sockets of the daemon; it watches its config with another file from some moment on."""
        count = 0
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            # Some are closed in the meantime.
            with suppress(FileNotFoundError):
                count += os.readlink(f"/proc/{self.pid}/fd/{name}").startswith("socket:")
        return count

    def memory(self) -> int:
        """The bytes that are the daemon's alone."""
        with open(f"/proc/{self.pid}/smaps_rollup") as file:
            return int(re.findall(r"^Pss:\s+(\d+) kB", file.read(), re.MULTILINE)[0]) * 1024

    @property
    def is_quiet(self) -> bool:
        """Whether nobody was dropped yet."""
        return DROPPED not in self.scratch.logged()


@pytest.fixture
def house(scratch: Scratch) -> Iterator[House]:
    yield House(scratch, outbound_limit=LIMIT_BYTES, idle_timeout=1)


def test_others_are_told_everything_while_the_answers_to_one_that_does_not_read_pile_up(house: House) -> None:
    # Whatever is loaded and made once is there before anything is weighed.
    house.pin()
    sockets_before = house.sockets()
    others = Audience(house.scratch, got, listening, OldWatcher, count=STREAMS - 1)
    others.all_told(house.pin())
    sockets_without, memory_before = house.sockets(), house.memory()
    stalled = OldWatcher(house.scratch)
    rounds = 0
    while house.is_quiet:
        rounds += 1
        stalled.post("tools/call", {"name": "bulletin__long", "arguments": {"bytes": ANSWER_BYTES}}, rounds + 1)
        # The server answers in order: when they are told, the long answer has come before it.
        others.all_told(house.pin())
        assert rounds <= 2 * LIMIT_BYTES // ANSWER_BYTES, "nobody was dropped"
        if rounds == LIMIT_BYTES // ANSWER_BYTES:
            # All of it is held for the one, and that is allowed.
            assert house.is_quiet and house.memory() > memory_before + LIMIT_BYTES * 3 // 4
    assert rounds > LIMIT_BYTES // ANSWER_BYTES
    assert re.search(
        r"the HTTP client with pid \d+ does not read \(outbound_limit\); " + DROPPED, house.scratch.logged()
    )
    # Nobody missed anything, nobody was told twice.
    assert [watcher.numbers for watcher in others.watchers] == [list(range(2, rounds + 3))] * (STREAMS - 1)
    until(lambda: house.sockets() == sockets_without, "its connection is closed")
    # A quarter of what was held may stay with the allocator.
    until(lambda: house.memory() < memory_before + LIMIT_BYTES // 4, "the memory of what it had not read returns")
    others.all_told(house.pin())
    others.close()
    until(lambda: house.sockets() == sockets_before, "all connections are closed")
    house.pinner.close()
    # A stream that were forgotten about would hold it.
    assert house.daemon.wait() == 0


@pytest.mark.parametrize("kind", [got, listening])
def test_one_that_reads_nothing_for_a_while_is_dropped_however_little_waits_for_it(
    scratch: Scratch, kind: Callable[[Scratch], Watcher]
) -> None:
    house = House(scratch, http_request_timeout=2, idle_timeout=1)
    house.pin()
    sockets_before = house.sockets()
    others = Audience(scratch, kind, count=STREAMS - 1)
    stalled = kind(scratch)
    sockets_with = house.sockets()
    first = house.pin()
    for _ in range(BALLAST_ROUNDS):
        others.all_told(house.pin(BALLAST_BYTES))
    until(lambda: others.all_told(house.pin()) or not house.is_quiet, "it is dropped")
    last = house.pin()
    others.all_told(last)
    assert re.search(r"with pid \d+ has read nothing for 2 s \(http_request_timeout\); " + DROPPED, scratch.logged())
    assert [watcher.numbers for watcher in others.watchers] == [list(range(first, last + 1))] * (STREAMS - 1)
    until(lambda: house.sockets() == sockets_with - 1, "its connection is closed")
    # What had gone out before is still there for it, and then the end.
    with pytest.raises((AssertionError, ConnectionError)):
        while True:
            stalled.read()
    assert stalled.numbers == list(range(first, first + len(stalled.numbers)))
    stalled.close()
    others.close()
    until(lambda: house.sockets() == sockets_before, "all connections are closed")
    house.pinner.close()
    assert house.daemon.wait() == 0
