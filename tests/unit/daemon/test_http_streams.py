"""The messages of one stream: each once, in order, for whoever reads it next; bounded where nobody does."""

import asyncio
from collections import deque
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from hearth.daemon.http.streams import CONGESTED_BYTES, KEPT_BYTES, Stream, StreamMessage

LIMIT = 1024 * 1024


def taken(stream: Stream, reader: object) -> list[bytes]:
    return [message.payload for message in stream.take(reader)]


def read(resumable: bool = True, limit: int = LIMIT) -> tuple[Stream, object]:
    stream, reader = Stream(1, limit, resumable), object()
    stream.attach(reader)
    return stream, reader


def test_a_reader_gets_each_message_once() -> None:
    stream, reader = read()
    stream.add(b"a")
    stream.add(b"b")
    assert taken(stream, reader) == [b"a", b"b"]
    assert taken(stream, reader) == []
    stream.add(b"c")
    stream.end()
    assert not stream.is_over(reader)
    assert taken(stream, reader) == [b"c"]
    assert stream.is_over(reader)
    stream.add(b"late")
    assert taken(stream, reader) == []


def test_who_is_replaced_gets_nothing_more() -> None:
    stream, former = read()
    newer = object()
    stream.attach(newer)
    stream.add(b"a")
    assert taken(stream, former) == [] and stream.is_over(former)
    # That it leaves changes nothing for its successor.
    stream.detach(former)
    assert taken(stream, newer) == [b"a"]


def test_a_stream_with_nothing_but_an_answer_is_known_as_such() -> None:
    stream, _ = read()
    assert stream.only is None
    stream.add_answer(b"a")
    assert stream.only == b"a" and stream.ended
    more, _ = read()
    more.add(b"progress")
    more.add_answer(b"a")
    assert more.only is None


def test_what_comes_before_an_answer_is_not_taken_for_it_when_there_is_none() -> None:
    stream, reader = read()
    stream.add_notice(b"progress", None)
    # The request is cancelled before anybody has looked.
    stream.end()
    assert stream.only is None
    assert taken(stream, reader) == [b"progress"] and stream.is_over(reader)


class Watched(deque[StreamMessage]):
    """Counts how often a message is looked at."""

    looks = 0

    def __iter__(self) -> Iterator[StreamMessage]:
        return self._watched(super().__iter__())

    def __reversed__(self) -> Iterator[StreamMessage]:
        return self._watched(super().__reversed__())

    def _watched(self, messages: Iterator[StreamMessage]) -> Iterator[StreamMessage]:
        for message in messages:
            self.looks += 1
            yield message


def test_what_is_kept_is_not_looked_at_for_what_is_new() -> None:
    stream, reader = read()
    watched = stream._messages = Watched()
    for number in range(1000):
        stream.add(b"%d" % number)
        assert taken(stream, reader) == [b"%d" % number]
    assert (len(watched), watched.looks) == (1000, 1000)


@given(st.lists(st.binary(min_size=1, max_size=8), max_size=20), st.data())
def test_whoever_resumes_gets_exactly_what_is_behind(payloads: list[bytes], data: st.DataObject) -> None:
    stream, reader = read()
    seen: list[bytes] = []
    for payload in payloads:
        stream.add(payload)
        if data.draw(st.booleans()):
            seen += taken(stream, reader)
    last = data.draw(st.integers(0, len(payloads)))
    assert stream.has(last)
    again = object()
    stream.attach(again, last)
    assert taken(stream, again) == payloads[last:]


def test_what_was_never_there_cannot_be_resumed() -> None:
    stream, _ = read()
    stream.add(b"a")
    assert stream.has(0) and stream.has(1) and not stream.has(2)


def test_of_what_was_read_as_much_is_kept_as_may_have_been_in_flight() -> None:
    stream, reader = read()
    for _ in range(5):
        stream.add(b"x" * (KEPT_BYTES // 2))
        taken(stream, reader)
    assert not stream.has(0) and stream.has(4)


def test_what_was_taken_last_may_be_asked_for_again_whatever_its_size() -> None:
    stream, reader = read(limit=8 * KEPT_BYTES)
    stream.add(b"a")
    taken(stream, reader)
    stream.add(b"x" * (3 * KEPT_BYTES))
    stream.add(b"y")
    taken(stream, reader)
    assert stream.has(1) and not stream.has(0)
    stream.add(b"z")
    taken(stream, reader)
    assert stream.has(2) and not stream.has(1)


def test_nothing_is_left_of_a_stream_that_ended_with_that_message() -> None:
    stream, _ = read()
    stream.add(b"a")
    assert not stream.is_through(1)
    stream.end()
    assert stream.is_through(1) and not stream.is_through(0)


def test_a_stream_that_cannot_be_resumed_keeps_nothing() -> None:
    stream, reader = read(resumable=False)
    stream.add(b"a")
    taken(stream, reader)
    assert not stream.has(0)


def test_a_reader_that_is_too_far_behind_loses_the_stream() -> None:
    stream, reader = read(limit=10)
    told: list[bool] = []
    stream.on_overflow = lambda: told.append(True)
    # One is always taken, whatever its size.
    stream.add(b"x" * 50)
    assert told == []
    stream.add(b"y")
    assert told == [True] and stream.overflowed and stream.is_over(reader)
    assert taken(stream, reader) == []
    newer = object()
    stream.attach(newer)
    # Nothing of it is held for somebody who may never come.
    assert stream.size == 0 and not stream.has(0)
    stream.add(b"z")
    assert taken(stream, newer) == [b"z"]


def test_of_notices_a_slow_reader_gets_the_newest_of_each_topic() -> None:
    stream, reader = read()
    stream.add(b"x" * (CONGESTED_BYTES + 1))
    stream.add_notice(b"dropped", None)
    for number in range(3):
        stream.add_notice(b"tools %d" % number, "tools")
        stream.add_notice(b"prompts %d" % number, "prompts")
    assert taken(stream, reader)[1:] == [b"tools 2", b"prompts 2"]
    stream.add_notice(b"kept", None)
    assert taken(stream, reader) == [b"kept"]


@given(st.lists(st.sampled_from(["answer", "tools", "prompts", "plain", "take", "attach", "resume"]), max_size=60))
def test_whatever_happens_no_answer_is_lost_but_with_the_stream(steps: list[str]) -> None:
    stream, reader = read(limit=200)
    owed: list[bytes] = []
    for number, step in enumerate(steps):
        if step == "answer":
            stream.add(b"answer %d" % number + b"." * 40)
            owed = [] if stream.overflowed else [*owed, b"answer %d" % number + b"." * 40]
        elif step == "take":
            assert [payload for payload in taken(stream, reader) if payload.startswith(b"answer")] == owed
            owed = []
        elif step == "attach":
            reader = object()
            stream.attach(reader)
        elif step == "resume":
            if stream.has(stream.taken):
                reader = object()
                stream.attach(reader, stream.taken)
        else:
            stream.add_notice(f"{step} {number}".encode(), None if step == "plain" else step)
            owed = [] if stream.overflowed else owed


async def test_waiting_ends_with_news_or_with_time() -> None:
    stream, reader = read()
    waiting = asyncio.create_task(stream.wait(60))
    await asyncio.sleep(0)
    stream.add(b"a")
    await waiting
    assert taken(stream, reader) == [b"a"]
    await stream.wait(0.001)
    assert not stream.waiting


async def take_over(stream: Stream, reader: object, seconds: float) -> None:
    """As a request does that resumes a stream: nothing happens between the two."""
    stream.attach(reader)
    await stream.wait(seconds)


async def test_who_is_replaced_while_it_waits_takes_no_news_from_its_successor() -> None:
    stream, _ = read()
    former = asyncio.create_task(stream.wait(60))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(take_over(stream, newer := object(), 60))
    await former
    assert not waiting.done()
    stream.add(b"a")
    async with asyncio.timeout(10):
        await waiting
    assert taken(stream, newer) == [b"a"]


async def test_time_passes_for_each_of_two_who_wait() -> None:
    stream, _ = read()
    former = asyncio.create_task(stream.wait(60))
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await take_over(stream, object(), 0.001)
        await former
