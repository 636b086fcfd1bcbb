"""A client's pipes as a transport: nothing is lost, nobody waits for a reader who does not come."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from hearth.daemon.stdio_connection import StdioTransport
from hearth.host.stdio import Streams

BOUND_SECONDS = 20.0
# More than a pipe holds.
MUCH = bytes(range(256)) * 4096


class Recorder(asyncio.Protocol):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.received = b""
        self.said: list[str] = []
        self.lost = asyncio.Event()
        self.resumed = asyncio.Event()
        self.problem: Exception | None = None

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        self.said.append("eof")
        return False

    def pause_writing(self) -> None:
        self.said.append("pause")

    def resume_writing(self) -> None:
        self.said.append("resume")
        self.resumed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.said.append("lost")
        self.problem = exc
        self.lost.set()


class Ends:
    """The client's ends of two pipes, and what has the others."""

    def __init__(self) -> None:
        input, self.input = os.pipe()
        self.output, output = os.pipe()
        self.streams = Streams(input, output)

    def read_all(self) -> bytes:
        found = b""
        while data := os.read(self.output, 1 << 16):
            found += data
        return found


@pytest.fixture
def ends() -> Iterator[Ends]:
    found = Ends()
    yield found
    for descriptor in (found.input, found.output):
        try:
            os.close(descriptor)
        except OSError:
            # The test has.
            pass


def begun(ends: Ends) -> tuple[StdioTransport, Recorder]:
    transport, recorder = StdioTransport(ends.streams), Recorder()
    transport.begin(recorder)
    return transport, recorder


async def bounded(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), BOUND_SECONDS)


async def test_what_was_sent_is_received_and_the_end_closes_what_is_answered(ends: Ends) -> None:
    transport, recorder = begun(ends)
    assert await asyncio.to_thread(os.write, ends.input, MUCH) == len(MUCH)
    transport.write(b"answer")
    os.close(ends.input)
    await bounded(recorder.lost)
    assert (recorder.received, recorder.said, recorder.problem) == (MUCH, ["eof", "lost"], None)
    assert ends.read_all() == b"answer"


async def test_a_slow_reader_is_told_of_and_gets_everything(ends: Ends) -> None:
    transport, recorder = begun(ends)
    transport.set_write_buffer_limits(high=1000)
    transport.write(MUCH)
    transport.write(MUCH)
    assert recorder.said == ["pause"]
    assert transport.get_write_buffer_size() > 0
    reading = asyncio.get_running_loop().run_in_executor(None, ends.read_all)
    await bounded(recorder.resumed)
    transport.close()
    assert transport.is_closing()
    transport.write(b"too late")
    await bounded(recorder.lost)
    assert await reading == MUCH + MUCH
    assert recorder.said == ["pause", "resume", "lost"]
    assert transport.get_write_buffer_size() == 0


async def test_whoever_aborts_does_not_wait_for_a_reader(ends: Ends) -> None:
    transport, recorder = begun(ends)
    transport.write(MUCH)
    transport.abort()
    await bounded(recorder.lost)
    # The thread that waits for a reader learns of it with the first one.
    assert len(await asyncio.to_thread(ends.read_all)) < len(MUCH)


async def test_a_reader_that_left_ends_it_and_says_why(ends: Ends) -> None:
    transport, recorder = begun(ends)
    os.close(ends.output)
    transport.write(b"x")
    await bounded(recorder.lost)
    assert isinstance(recorder.problem, BrokenPipeError)
    # What still comes is nobody's.
    os.write(ends.input, b"late")
    os.close(ends.input)
    transport.abort()
    await asyncio.sleep(0)
    assert (recorder.received, recorder.said.count("lost")) == (b"", 1)


async def test_what_nobody_handles_waits_in_the_pipe_and_not_in_memory(ends: Ends) -> None:
    _transport, recorder = begun(ends)
    os.set_blocking(ends.input, False)
    sent = 0
    # The loop does not run, so nothing is handled.
    with pytest.raises(BlockingIOError):
        while True:
            sent += os.write(ends.input, MUCH)
    os.close(ends.input)
    await bounded(recorder.lost)
    assert len(recorder.received) == sent
