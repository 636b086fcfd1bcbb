"""What is kept of streams that have ended: for those who come back, within limits, and not for ever."""

from pathlib import Path

from hearth.daemon.http import http_messages
from hearth.daemon.http.session_store import ClientIdentity, SessionJournal, SessionRecord, SessionStore
from hearth.daemon.http.sink import REPLAYED, HttpSink
from hearth.daemon.http.streams import SESSION_LIMIT_BYTES, STREAMS_LIMIT, TOTAL_LIMIT_BYTES, Total
from hearth.wire import json

LIMIT = 64 * 1024 * 1024
LINE = b'{"jsonrpc":"2.0","id":5,"method":"logging/setLevel"}'


def answered(sink: HttpSink, payload: bytes = b"{}", is_read: bool = True) -> int:
    """The tag of a request that has its answer, which was read."""
    tag = sink.begin()
    stream = sink.stream(tag)
    assert stream is not None
    stream.attach(reader := object())
    sink.answer(tag, payload)
    if is_read:
        stream.take(reader)
    return tag


def test_what_was_read_to_its_end_is_forgotten_when_nobody_came_back_for_it() -> None:
    sink = HttpSink(LIMIT, resumable=True)
    read, unread = answered(sink), answered(sink, is_read=False)
    sink.sweep()
    assert sink.stream(read) and sink.stream(unread)
    late = answered(sink)
    sink.sweep()
    assert sink.stream(read) is None
    assert sink.stream(unread) and sink.stream(late)


def test_of_many_that_have_ended_the_last_are_kept() -> None:
    sink = HttpSink(LIMIT, resumable=True)
    tags = [answered(sink, is_read=False) for _ in range(STREAMS_LIMIT + 3)]
    assert [tag for tag in tags if sink.stream(tag)] == tags[3:]


def test_large_answers_are_kept_within_limits_and_the_last_whatever_its_size() -> None:
    sink = HttpSink(LIMIT, resumable=True)
    first, second = (answered(sink, b"x" * (SESSION_LIMIT_BYTES * 2 // 3), is_read=False) for _ in range(2))
    assert sink.stream(first) is None and sink.stream(second)
    third = answered(sink, b"x" * (SESSION_LIMIT_BYTES * 2), is_read=False)
    assert sink.stream(second) is None and sink.stream(third)


def sharing(count: int) -> tuple[Total, list[HttpSink]]:
    """Sessions of one daemon."""
    total = Total()
    return total, [HttpSink(LIMIT, True, total=total) for _ in range(count)]


def test_all_sessions_together_keep_so_much_and_the_oldest_of_who_has_most_goes_first() -> None:
    total, (modest, greedy, *others) = sharing(8)
    part = TOTAL_LIMIT_BYTES // 8
    small = answered(modest, b"x" * 10, is_read=False)
    kept = [answered(greedy, b"x" * part, is_read=False) for _ in range(2)]
    for each in others:
        answered(each, b"x" * part, is_read=False)
    assert total.size == 10 + 7 * part
    # It has most by now, and its oldest makes room; nobody else loses anything.
    assert greedy.stream(kept[0]) is None and greedy.stream(kept[1])
    assert modest.stream(small) and all(each.stream(1) for each in others)


def test_what_has_just_ended_is_kept_whatever_the_others_keep() -> None:
    total, (one, other) = sharing(2)
    first = answered(one, b"x" * TOTAL_LIMIT_BYTES, is_read=False)
    last = answered(other, b"x" * (TOTAL_LIMIT_BYTES + 1), is_read=False)
    assert one.stream(first) is None and other.stream(last)
    assert total.size == TOTAL_LIMIT_BYTES + 1


def test_what_is_not_kept_any_more_takes_nothing_from_the_others() -> None:
    total, (one, two, three, four) = sharing(4)
    one.forget(answered(one, b"x" * 100))
    stream = two.stream(answered(two, b"x" * 100))
    assert stream and total.size == 100
    two.abandon(stream)
    answered(three, b"x" * 100)
    three.sweep()
    three.sweep()
    assert total.size == 0
    answered(four, b"x" * 100, is_read=False)
    late = four.begin()
    four.end_all()
    # The session is over when its last call ends.
    four.answer(late, b"x" * 100)
    assert total.size == 0 and not total._keepers


def test_nothing_is_kept_nor_does_anything_make_room_for_clients_who_cannot_come_back() -> None:
    total = Total()
    legacy = HttpSink(LIMIT, resumable=True, total=total)
    kept = answered(legacy, b"x" * 1000, is_read=False)
    modern = HttpSink(2 * TOTAL_LIMIT_BYTES, resumable=False, total=total)
    answered(modern, b"x" * TOTAL_LIMIT_BYTES, is_read=False)
    assert legacy.stream(kept) and total.size == 1000


def test_what_its_client_cannot_come_back_for_is_not_kept() -> None:
    sink = HttpSink(LIMIT, resumable=True)
    tag = sink.begin()
    in_flight, ended = sink.stream(tag), sink.stream(answered(sink, is_read=False))
    assert in_flight and ended
    sink.abandon(in_flight)
    sink.abandon(ended)
    assert sink.stream(tag) and sink.stream(ended.number) is None
    sink.answer(tag, b"{}")
    assert sink.stream(tag) is None


def test_at_the_end_every_request_is_told_that_it_gets_no_answer_and_nothing_else_is() -> None:
    sink = HttpSink(LIMIT, resumable=True)
    streams = []
    for line in (LINE, b'{"jsonrpc":"2.0","id":6,"result":{}}', b'{"jsonrpc":"2.0","method":"notifications/x"}'):
        tag = sink.begin()
        sink.carry(tag, json.parse(line))
        streams.append(sink.stream(tag))
    tag = sink.begin()
    sink.carry_batch(tag, json.parse_batch(b"[%b,%b]" % (LINE, line)))
    sink.end_all()
    told = [stream.only for stream in (*streams, sink.stream(tag)) if stream]
    assert told[0] and told[0].startswith(b'{"jsonrpc":"2.0","id":5,"error":{"code":-32603,')
    assert told[1:] == [None, None, b"[%b]" % told[0]]


def test_an_event_id_of_another_life_is_not_taken_for_its_own() -> None:
    one, other = HttpSink(LIMIT, resumable=True), HttpSink(LIMIT, resumable=True)
    place = http_messages.parse_event_id(one.name(one.general).decode() + "-1")
    assert place is not None and one.is_own(place) and not other.is_own(place)


def test_lines_that_the_hub_wants_kept_are_and_those_that_are_replayed_not_again(tmp_path: Path) -> None:
    kept = SessionStore(str(tmp_path / "sessions"), 60)
    sink = HttpSink(LIMIT, True, SessionJournal(kept, "id", SessionRecord(ClientIdentity(1), {})))
    tag = sink.begin()
    sink.carry(tag, json.parse(LINE))
    sink.answer(tag, b"{}", keep="logLevel")
    sink.answer(REPLAYED, b"{}", keep="initialize")
    sink.keep_line(REPLAYED, "initialized", b"{}")
    found = kept.read("id")
    assert found and found.lines == {"logLevel": LINE}
    sink.finish(sink.begin(), drop="logLevel")
    found = kept.read("id")
    assert found and found.lines == {}


def test_the_one_stream_of_the_oldest_clients_ends_with_the_last_answer_that_is_due_on_it() -> None:
    sink = HttpSink(LIMIT, resumable=True)
    sink.is_single = True
    first, second, notice = sink.begin(), sink.begin(), sink.begin()
    sink.answer(first, b"{}")
    sink.end_standing()
    sink.finish(notice)
    assert not sink.general.ended
    sink.answer(second, b"{}")
    assert sink.general.ended
    # Where each request has a stream of its own nothing is due on this one.
    sink = HttpSink(LIMIT, resumable=True)
    sink.begin()
    sink.end_standing()
    assert sink.general.ended
