"""JSON and events as HTTP carries them, byte for byte."""

import pytest

from hearth.daemon.http import http_messages
from hearth.daemon.http.streams import StreamMessage
from hearth.mcp import versions


def test_an_event_has_an_id_where_its_stream_can_be_resumed() -> None:
    message = StreamMessage(7, b'{"a":1}')
    assert http_messages.event(message, b"e-1") == b'event: message\nid: e-1-7\ndata: {"a":1}\n\n'
    assert http_messages.event(message, None) == b'event: message\ndata: {"a":1}\n\n'


@pytest.mark.parametrize("payload", [b'{\n"a":1}', b'{\r"a":1}', b'{"a":\r\n1}'])
def test_a_message_is_one_line_of_its_event(payload: bytes) -> None:
    lines = http_messages.event(StreamMessage(1, payload), None).split(b"\n")
    assert len(lines) == 4 and lines[1].startswith(b"data: {") and b"\r" not in lines[1]


def test_a_client_is_told_where_it_is_and_when_to_come_back_without_data() -> None:
    assert http_messages.priming(b"e-1", 3, 1000) == b"id: e-1-3\nretry: 1000\ndata:\n\n"


def test_nobody_on_the_way_collects_or_changes_events() -> None:
    assert dict(http_messages.EVENT_STREAM) == {
        b"content-type": b"text/event-stream",
        b"cache-control": b"no-cache, no-transform",
        b"x-accel-buffering": b"no",
    }


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (versions.METHOD_NOT_FOUND, 404),
        (versions.HEADER_MISMATCH, 400),
        (versions.MISSING_CAPABILITY, 400),
        (versions.UNSUPPORTED_VERSION, 400),
        (-32602, 200),
        (-32603, 200),
    ],
)
def test_the_status_of_a_modern_answer_is_that_of_its_error(code: int, status: int) -> None:
    assert http_messages.status_of(b'{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":""}}' % code) == status


def test_a_result_that_speaks_of_errors_is_none() -> None:
    assert http_messages.status_of(b'{"jsonrpc":"2.0","id":1,"result":{"error":{"code":-32601}}}') == 200
