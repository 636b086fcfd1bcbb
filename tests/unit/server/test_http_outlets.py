"""What is kept of streams that have ended: for those who come back, within limits, and not for ever."""

from pathlib import Path

from hearth.server.http import event_ids
from hearth.server.http.kept import Book, KeptSessions, Record
from hearth.server.http.outlets import FINISHED_LIMIT, FINISHED_LIMIT_BYTES, REPLAYED, HttpOutlet
from hearth.server.http.who import Who
from hearth.wire import json

LIMIT = 64 * 1024 * 1024
LINE = b'{"jsonrpc":"2.0","id":5,"method":"logging/setLevel"}'


def answered(outlet: HttpOutlet, payload: bytes = b"{}", is_read: bool = True) -> int:
    """The tag of a request that has its answer, which was read."""
    tag = outlet.begin()
    stream = outlet.stream(tag)
    assert stream is not None
    stream.attach(reader := object())
    outlet.answer(tag, payload)
    if is_read:
        stream.take(reader)
    return tag


def test_what_was_read_to_its_end_is_forgotten_when_nobody_came_back_for_it() -> None:
    outlet = HttpOutlet(LIMIT, resumable=True)
    read, unread = answered(outlet), answered(outlet, is_read=False)
    outlet.sweep()
    assert outlet.stream(read) and outlet.stream(unread)
    late = answered(outlet)
    outlet.sweep()
    assert outlet.stream(read) is None
    assert outlet.stream(unread) and outlet.stream(late)


def test_of_many_that_have_ended_the_last_are_kept() -> None:
    outlet = HttpOutlet(LIMIT, resumable=True)
    tags = [answered(outlet, is_read=False) for _ in range(FINISHED_LIMIT + 3)]
    assert [tag for tag in tags if outlet.stream(tag)] == tags[3:]


def test_large_answers_are_kept_within_limits_and_the_last_whatever_its_size() -> None:
    outlet = HttpOutlet(LIMIT, resumable=True)
    first, second = (answered(outlet, b"x" * (FINISHED_LIMIT_BYTES * 2 // 3), is_read=False) for _ in range(2))
    assert outlet.stream(first) is None and outlet.stream(second)
    third = answered(outlet, b"x" * (FINISHED_LIMIT_BYTES * 2), is_read=False)
    assert outlet.stream(second) is None and outlet.stream(third)


def test_what_its_client_cannot_come_back_for_is_not_kept() -> None:
    outlet = HttpOutlet(LIMIT, resumable=True)
    tag = outlet.begin()
    in_flight, ended = outlet.stream(tag), outlet.stream(answered(outlet, is_read=False))
    assert in_flight and ended
    outlet.abandon(in_flight)
    outlet.abandon(ended)
    assert outlet.stream(tag) and outlet.stream(ended.number) is None
    outlet.answer(tag, b"{}")
    assert outlet.stream(tag) is None


def test_at_the_end_every_request_is_told_that_it_gets_no_answer_and_nothing_else_is() -> None:
    outlet = HttpOutlet(LIMIT, resumable=True)
    streams = []
    for line in (LINE, b'{"jsonrpc":"2.0","id":6,"result":{}}', b'{"jsonrpc":"2.0","method":"notifications/x"}'):
        tag = outlet.begin()
        outlet.carry(tag, json.parse(line))
        streams.append(outlet.stream(tag))
    tag = outlet.begin()
    outlet.carry_batch(tag, json.parse_batch(b"[%b,%b]" % (LINE, line)))
    outlet.end_all()
    told = [stream.only for stream in (*streams, outlet.stream(tag)) if stream]
    assert told[0] and told[0].startswith(b'{"jsonrpc":"2.0","id":5,"error":{"code":-32603,')
    assert told[1:] == [None, None, b"[%b]" % told[0]]


def test_an_event_id_of_another_life_is_not_taken_for_its_own() -> None:
    one, other = HttpOutlet(LIMIT, resumable=True), HttpOutlet(LIMIT, resumable=True)
    place = event_ids.parse(one.name(one.general).decode() + "-1")
    assert place is not None and one.is_own(place) and not other.is_own(place)


def test_lines_that_the_hub_wants_kept_are_and_those_that_are_replayed_not_again(tmp_path: Path) -> None:
    kept = KeptSessions(str(tmp_path / "sessions"), 60)
    record = Record(Who(1), {})
    outlet = HttpOutlet(LIMIT, True, Book(kept, "id", record))
    tag = outlet.begin()
    outlet.carry(tag, json.parse(LINE))
    outlet.answer(tag, b"{}", keep="logLevel")
    outlet.answer(REPLAYED, b"{}", keep="initialize")
    outlet.keep_line(REPLAYED, "initialized", b"{}")
    found = kept.read("id")
    assert found and found.lines == {"logLevel": LINE}
    outlet.finish(outlet.begin(), drop="logLevel")
    found = kept.read("id")
    assert found and found.lines == {}
