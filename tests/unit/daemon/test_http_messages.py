"""Who is let in over HTTP, by its headers alone; JSON and events as HTTP carries them, byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.daemon.http import http_messages
from hearth.daemon.http.streams import StreamMessage
from hearth.mcp import versions


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"/mcp", None),
        (b"/mcp?next=http://a.example/", None),
        (b"*", None),
        (b"http://a.example/mcp", "a.example"),
        (b"HTTP://A.example:80", "A.example:80"),
        (b"http://a.example?x=/", "a.example"),
        (b"http:///mcp", "http:///mcp"),
    ],
)
def test_the_host_of_a_whole_address_is_found(target: bytes, host: str | None) -> None:
    assert http_messages.target_host(target) == host


def test_a_whole_address_without_a_host_is_nobody_s() -> None:
    assert http_messages.refused_address({"host": http_messages.target_host(b"http:///mcp") or ""})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "localhost"},
        {"host": "LOCALHOST:1"},
        {"host": "127.0.0.1:3847"},
        {"host": "[::1]:3847"},
        {"host": ""},
        {"host": "localhost:"},
        {"host": "localhost:65535"},
        {"host": "[0:0:0:0:0:0:0:1]"},
        {"origin": "http://localhost:5173"},
        {"origin": "https://127.0.0.1"},
        {"origin": "http://[::1]:80", "host": "localhost"},
        {"origin": "http://localhost:5173", "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin"},
    ],
)
def test_this_machine_is_let_in(headers: dict[str, str]) -> None:
    assert http_messages.refused_address(headers) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "example.com"},
        {"host": "localhost.example.com"},
        {"host": "localhost@example.com"},
        {"host": "127.0.0.1.nip.io"},
        {"host": "localhost, example.com"},
        {"host": "localhost:port"},
        {"host": "[::1"},
        {"host": "[::1]x"},
        {"host": "[::1%25eth0]"},
        {"host": "[127.0.0.1]"},
        {"host": "[1:2]"},
        {"host": "localhost:65536"},
        {"host": "localhost:-1"},
        {"host": "localhost:+80"},
        {"host": "localhost:٣"},
        {"host": "localhost#"},
        {"host": "localhost?"},
        {"host": "localhost/"},
        {"host": "localhost\\"},
        {"host": "local\thost"},
        {"host": "local\rhost"},
        {"host": " localhost"},
        {"host": "localhost "},
        {"host": "@localhost"},
        {"host": "//localhost"},
        {"host": "http://localhost"},
        {"host": "%6cocalhost"},
        {"host": "localhost."},
        {"host": ":80"},
        {"origin": "http://localhost#"},
        {"origin": "http://local\thost"},
        {"origin": "http:///localhost"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://example.com"},
        {"origin": "http://localhost.example.com"},
        {"origin": "http://localhost@example.com"},
        {"origin": "http://example.com/localhost"},
        {"origin": "http://localhost/path"},
        {"origin": "file://localhost"},
        {"origin": "localhost"},
        {"origin": "http://localhost, http://example.com"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://example.com", "sec-fetch-site": "same-origin"},
    ],
)
def test_anything_else_is_not(headers: dict[str, str]) -> None:
    assert http_messages.refused_address(headers)


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.2:3847", "127.0.0.2"),
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7:3847", "::ffff:192.0.2.7"),
        ("[2001:DB8::1]:3847", "2001:db8:0::1"),
        ("[fe80::1]", "fe80::1%eth0"),
    ],
)
def test_the_address_that_it_arrived_at_is_let_in_as_a_host_only(host: str, own: str) -> None:
    assert http_messages.refused_address({"host": host}, own=own) is None
    assert http_messages.refused_address({"host": host})
    assert http_messages.refused_address({"host": host, "origin": f"http://{host}"}, own=own)


@pytest.mark.parametrize(
    "host", ["192.0.2.8", "rebound.example", "192.0.2.7.nip.io", "192.0.2.7@example.com", "3221225991", "[::]"]
)
def test_any_other_host_is_not(host: str) -> None:
    assert http_messages.refused_address({"host": host}, own="192.0.2.7")
    assert http_messages.refused_address({"host": host}, own="")


@given(st.text(max_size=40))
def test_no_host_makes_it_fail(text: str) -> None:
    http_messages.refused_address({"host": text, "origin": text}, own="127.0.0.2")


@pytest.mark.parametrize(
    ("accept", "kinds", "is_taken"),
    [
        (None, (http_messages.JSON, http_messages.EVENTS), True),
        ("*/*", (http_messages.JSON, http_messages.EVENTS), True),
        ("application/json, text/event-stream", (http_messages.JSON, http_messages.EVENTS), True),
        ("Application/JSON;q=0.5 , text/*", (http_messages.JSON, http_messages.EVENTS), True),
        ("application/json", (http_messages.JSON, http_messages.EVENTS), False),
        ("text/event-stream", (http_messages.EVENTS,), True),
        ("application/json, text/event-stream;q=0", (http_messages.JSON, http_messages.EVENTS), False),
        ("", (http_messages.EVENTS,), False),
    ],
)
def test_what_a_client_takes(accept: str | None, kinds: tuple[str, ...], is_taken: bool) -> None:
    assert http_messages.accepts(accept, *kinds) is is_taken


@pytest.mark.parametrize(
    ("content_type", "wrong"),
    [
        ("application/json", None),
        ("Application/Json; charset=UTF-8", None),
        ('application/json; Charset="Utf-8"', None),
        ("application/json;charset=utf8;", None),
        ("application/json; profile=x; charset=utf-8", None),
        ("application/json; profile=x", None),
        ("application/json; charset=iso-8859-1", "the charset 'iso-8859-1'"),
        ('application/json; profile=x; charset="UTF-16"', "the charset 'UTF-16'"),
        ("application/json; charset=", "the charset ''"),
        ("text/plain", "must be application/json"),
        ("text/plain; charset=utf-8", "must be application/json"),
        ("application/jsonp", "must be application/json"),
        ("", "must be application/json"),
    ],
)
def test_of_what_is_not_json_in_utf_8_it_is_said_what_is_wrong(content_type: str, wrong: str | None) -> None:
    said = http_messages.refused_type(content_type)
    assert said is None if wrong is None else wrong in str(said)


def test_an_answer_is_shared_with_the_one_origin_that_asked() -> None:
    assert dict(http_messages.shared_with("https://app.example")) == {
        b"access-control-allow-origin": b"https://app.example",
        b"access-control-expose-headers": b"Mcp-Session-Id, Retry-After, WWW-Authenticate",
    }


def test_a_browser_that_asks_first_is_told_all_that_it_may_send() -> None:
    told = dict(http_messages.preflight({"access-control-request-headers": "authorization, mcp-method"}))
    assert told[b"access-control-allow-headers"] == b"authorization, mcp-method"
    assert told[b"access-control-allow-methods"] == b"GET, POST, DELETE, OPTIONS"
    # It need not ask again for each request.
    assert told[b"access-control-max-age"] == b"86400"
    assert b"access-control-allow-headers" not in dict(http_messages.preflight({}))


def test_a_header_that_is_repeated_has_both_values() -> None:
    assert http_messages.headers_of([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]) == {"a": "1, 3", "b": "2"}


# --- responses


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
