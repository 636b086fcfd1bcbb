"""JSON-RPC messages over raw bytes: what is forwarded is what came in, and what is refused names the right id."""

import json as standard

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import MessageError
from hearth.wire import json, scan
from hearth.wire.json import Kind, Raw, dumps, join, loads, one_line, parse, parse_batch, split

from .documents import NOTIFICATION, REQUEST, RESPONSE, damaged, documents, nested, objects, refusal, request_with


def raw(fields: json.Fields) -> dict[str, bytes]:
    return {key: bytes(value) for key, value in fields.items()}


# --- kinds


@pytest.mark.parametrize(
    ("line", "kind", "own_id", "method"),
    [
        (REQUEST, Kind.REQUEST, b"1", "tools/call"),
        (NOTIFICATION, Kind.NOTIFICATION, None, "notifications/initialized"),
        (RESPONSE, Kind.RESPONSE, b'"a"', None),
        (b'{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}', Kind.RESPONSE, b"3", None),
    ],
)
def test_a_message_is_told_by_its_fields(line: bytes, kind: Kind, own_id: bytes, method: str) -> None:
    message = parse(line)
    assert (message.kind, message.id, message.method) == (kind, own_id, method)
    assert join(message.fields) == line


def test_params_result_and_error_are_the_bytes_that_came() -> None:
    assert parse(request_with(b'{ "b":1.50, "a":2e0 }')).params == b'{ "b":1.50, "a":2e0 }'
    assert parse(RESPONSE).result == b'{"content":[]}'
    assert parse(b'{"jsonrpc":"2.0","id":1,"error":{"code":-1}}').error == b'{"code":-1}'
    assert parse(NOTIFICATION).params is None


def test_unknown_fields_survive() -> None:
    line = b'{"jsonrpc":"2.0","method":"x","trace":{"a":[1,2]},"z":null}'
    assert join(parse(line).fields) == line


def test_a_value_that_is_kept_does_not_keep_its_line() -> None:
    own_id = parse(request_with(b'"' + b"x" * 1000 + b'"')).id
    assert type(own_id) is bytes and own_id == b"7"


def test_an_error_with_a_null_id_is_a_response_and_starts_no_quarrel() -> None:
    message = parse(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}')
    assert message.kind is Kind.RESPONSE and message.id == b"null"


@pytest.mark.parametrize(
    ("line", "code", "own_id"),
    [
        (b"", -32700, None),
        (b"hello", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x"', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x"}}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":01}}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":[1}}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":NaN}', -32700, None),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"x"}', -32700, None),
        (b"1", -32600, None),
        (b'"text"', -32600, None),
        (b"{}", -32600, None),
        (b'{"id":1,"method":"x"}', -32600, b"1"),
        (b'{"jsonrpc":"1.0","id":1,"method":"x"}', -32600, b"1"),
        (b'{"jsonrpc":2.0,"id":1,"method":"x"}', -32600, b"1"),
        (b'{"jsonrpc":"2.0","id":"a","method":5}', -32600, b'"a"'),
        (b'{"jsonrpc":"2.0","id":5}', -32600, b"5"),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":[1],"result":{}}', -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"result":{}}', -32600, None),
        (b'{"jsonrpc":"2.0","result":{}}', -32600, None),
    ],
)
def test_what_is_no_message_is_refused_with_its_id(line: bytes, code: int, own_id: bytes | None) -> None:
    error = refusal(line)
    assert (error.rpc_code, error.id) == (code, own_id)


def test_an_escaped_version_and_method_are_read() -> None:
    assert parse(rb'{"jsonrpc":"\u0032.0","id":1,"method":"tools\/call"}').method == "tools/call"


# --- the traps


@pytest.mark.parametrize("own_id", [b"1", b"-3", b"1.5", b"1e3", b'""', b'"a\\u0062"', b"9" * 40, b"1" * 5000])
def test_numbers_and_strings_as_ids_are_kept_as_written(own_id: bytes) -> None:
    message = parse(request_with(b"{}", own_id))
    assert message.id == own_id
    assert parse(join(message.fields)).id == own_id


def test_integers_beyond_64_bits_are_forwarded_digit_by_digit() -> None:
    line = request_with(b'{"n":%b,"m":-%b}' % (b"1234567890" * 30, b"9" * 19))
    assert join(parse(line).fields) == line


@pytest.mark.parametrize(
    "text", [rb'"\ud83d"', rb'"\ude00"', rb'"\ud83d\ud83d\ude00"', rb'"a\ud83dx\uDE00\\ud83d"', rb'{"\ud800":"\udfff"}']
)
def test_lone_surrogates_are_forwarded_as_written(text: bytes) -> None:
    line = request_with(b'{"name":"echo","text":%b}' % text)
    message = parse(line)
    assert join(message.fields) == line
    assert raw(split(message.fields["params"])) == {"name": b'"echo"', "text": text}


def test_a_lone_surrogate_as_id_or_method_is_answered_to_that_id() -> None:
    message = parse(rb'{"jsonrpc":"2.0","id":"\ud83d","method":"x\ud83d"}')
    assert message.id == rb'"\ud83d"'
    assert message.method == "x\ufffd"


def test_a_key_with_a_lone_surrogate_is_re_emitted() -> None:
    fields = split(rb'{"\ud83d":1,"a":2}')
    assert list(fields) == ["\ud83d", "a"]
    assert join(fields) == rb'{"\ud83d":1,"a":2}'


def test_the_words_used_for_hiding_surrogates_are_forwarded_too() -> None:
    line = request_with(rb'{"text":"\ud83d%b"}' % b"\x7fhearth lone surrogate:d83d")
    assert join(parse(line).fields) == line


def test_a_key_that_spells_those_words_is_told_from_a_surrogate() -> None:
    document = rb'{"\u007fhearth lone surrogate:d83d":1,"a":"\ud83d","\ud83d":2}'
    assert list(split(document)) == ["\x7fhearth lone surrogate:d83d", "a", "\ud83d"]


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_deep_nesting_is_forwarded(depth: int) -> None:
    line = request_with(nested(depth))
    message = parse(line)
    assert message.id == b"7"
    assert join(message.fields) == line
    assert raw(split(message.fields["params"])) == {"a": b"[" * depth + b"]" * depth}


def test_nesting_beyond_reason_is_refused_with_its_id() -> None:
    error = refusal(request_with(nested(scan.STEP_LIMIT)))
    assert (error.rpc_code, error.id) == (-32600, b"7")


def test_nesting_that_does_not_close_is_not_json() -> None:
    assert refusal(request_with(b"[" * 5_000 + b"]" * 4_999)).rpc_code == -32700


@pytest.mark.parametrize("text", [b'"\xff"', b'"\xc3"', b'"\xed\xa0\xbd"', b'{"\xff":1}', b'"\xc3\\ud800"'])
def test_invalid_utf8_is_refused_with_its_id(text: bytes) -> None:
    error = refusal(request_with(text))
    assert (error.rpc_code, error.id) == (-32600, b"7")


def test_invalid_utf8_without_an_id_to_answer_is_a_parse_error() -> None:
    assert refusal(b'{"jsonrpc":"2.0","method":"\xff"}').rpc_code == -32700
    error = refusal(b'{"jsonrpc":"2.0","id":"\xff","method":"x"}')
    assert (error.rpc_code, error.id) == (-32700, None)


def test_a_character_on_the_border_of_two_checked_pieces_is_valid() -> None:
    for shift in range(3):
        line = request_with(b'"' + b"x" * (json._UTF8_PIECE_BYTES - 60 + shift) + "é".encode() * 60 + b'"')
        assert parse(line).id == b"7"


def test_of_duplicate_keys_the_last_counts_and_is_all_that_is_forwarded() -> None:
    message = parse(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a","method":"b"}')
    assert (message.id, message.method) == (b"2", "b")
    assert join(message.fields) == b'{"jsonrpc":"2.0","id":2,"method":"b"}'
    assert raw(split(rb'{"a":1,"\u0061":2}')) == {"a": b"2"}
    assert raw(split(rb'{"a":1,"\u0061":"\ud800"}')) == {"a": rb'"\ud800"'}


def test_line_ends_between_tokens_become_spaces() -> None:
    message = parse(b'{"jsonrpc":"2.0",\r\n"id":1,"method":"x",\n"params":{"a":\r\n1,\r"b":\n"\\n"}}')
    assert message.params == b'{"a":  1, "b": "\\n"}'
    assert b"\n" not in join(message.fields) and b"\r" not in join(message.fields)


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n"])
def test_no_kind_of_line_end_is_forwarded(end: bytes) -> None:
    assert parse(request_with(b"[1,%b2]" % end)).params == b"[1,%b2]" % (b" " * len(end))


def test_a_line_end_inside_a_string_is_not_json_and_is_not_mended() -> None:
    assert refusal(b'{"jsonrpc":"2.0","id":1,"method":"a\nb"}').rpc_code == -32700
    assert refusal(b'{"jsonrpc":"2.0","id":1,"method":"\\ud800\n"}').rpc_code == -32700


# --- one level


def test_split_takes_bytes_and_raw_alike() -> None:
    assert (
        raw(split(b'{"a": [1, 2] , "b":{}}')) == {"a": b"[1, 2]", "b": b"{}"} == raw(split(Raw(b'{"a":[1, 2],"b":{}}')))
    )


@pytest.mark.parametrize("value", [b"[]", b"1", b"null", b"", b"{", b'{"a"}', b'{"a":}', b"{,}", b'{"a":1,}', b"{}x"])
def test_split_refuses_what_is_no_object(value: bytes) -> None:
    assert refusal(value, split).rpc_code == -32602


def test_join_takes_bytes_and_raw_in_one_object_and_leaves_it_as_it_is() -> None:
    fields: dict[str, Raw | bytes] = {"jsonrpc": Raw(b'"2.0"'), "id": b"7", "result": b'{"a" : 1}'}
    assert join(fields) == b'{"jsonrpc":"2.0","id":7,"result":{"a" : 1}}'
    assert type(fields["id"]) is bytes
    assert join({}) == b"{}"
    assert join({'a"\\é': b"1"}) == '{"a\\"\\\\é":1}'.encode()


def test_loads_and_dumps_never_fail_on_a_lone_surrogate() -> None:
    assert loads(rb'{"name":"a\ud83d","b":["\ude00"]}') == {"name": "a\ufffd", "b": ["\ufffd"]}
    assert dumps({"name": "a\ud83d", "b": ("\ude00",)}) == '{"name":"a\ufffd","b":["\ufffd"]}'.encode()


def test_loads_reads_what_msgspec_finds_out_of_range() -> None:
    assert loads(b"[1e999,-1e999]") == [float("inf"), float("-inf")]
    assert loads(b"123456789012345678901234567890") == 123456789012345678901234567890


@pytest.mark.parametrize("value", [b"", b"NaN", b"{", b"[" * 200_000 + b"]" * 200_000, b"1" * 5000, b'"\xff"'])
def test_loads_refuses_the_rest_with_a_typed_error(value: bytes) -> None:
    with pytest.raises(MessageError):
        loads(value)


# --- properties


@given(documents())
def test_any_json_as_params_is_forwarded_byte_for_byte(document: bytes) -> None:
    line = request_with(document.strip())
    message = parse(line)
    assert join(message.fields) == one_line(line)
    assert raw(parse(join(message.fields)).fields) == raw(message.fields)


@given(objects)
def test_splitting_and_joining_an_object_keeps_its_values(document: bytes) -> None:
    fields = split(document)
    assert raw(split(join(fields))) == raw(fields)
    assert standard.loads(join(fields)) == standard.loads(document)


@given(objects)
def test_msgspec_and_the_scanner_take_an_object_apart_alike(document: bytes) -> None:
    assert raw(split(document)) == scan.members(document)


@given(st.one_of(st.binary(), damaged(), damaged(st.sampled_from([REQUEST, NOTIFICATION, RESPONSE]))))
def test_anything_is_a_message_or_a_typed_error(data: bytes) -> None:
    try:
        message = parse(data)
    except MessageError as error:
        assert error.rpc_code in (-32700, -32600)
        return
    standard.loads(join(message.fields))


@given(damaged(documents()))
def test_what_is_not_json_is_never_forwarded(document: bytes) -> None:
    line = request_with(document)
    try:
        message = parse(line)
    except MessageError:
        return
    standard.loads(line)
    standard.loads(join(message.fields))


# --- large lines that are no messages


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of whatever is scanned."""
    sizes: list[int] = []
    receive = scan.Scanner.receive_value

    def counted(scanner: scan.Scanner, data: bytes, position: int) -> int:
        sizes.append(len(data))
        return receive(scanner, data, position)

    monkeypatch.setattr(scan.Scanner, "receive_value", counted)
    return sizes


LARGE_ITEMS = b"1," * (600 * 1024)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (request_with(b"[%bx]" % LARGE_ITEMS), "invalid character (byte "),
        (request_with(b"[%b1]" % LARGE_ITEMS)[:-1], "truncated"),
        (request_with(b"[%b1]" % LARGE_ITEMS) + b"x", "trailing characters (byte "),
    ],
)
def test_a_large_line_that_is_no_json_is_not_scanned_a_second_time(line: bytes, reason: str, scans: list[int]) -> None:
    error = refusal(line)
    assert (error.rpc_code, scans) == (json.PARSE_ERROR, [])
    assert str(error).startswith("the message is not JSON: ")
    assert reason in str(error)


def test_neither_is_a_large_batch(scans: list[int]) -> None:
    with pytest.raises(MessageError, match="the message is not JSON: invalid character"):
        parse_batch(b"[%bx]" % LARGE_ITEMS)
    assert scans == []


@pytest.mark.parametrize("line", [request_with(b"[1,x]"), request_with(b"[1,1]")[:-1]])
def test_a_small_one_is_and_says_at_which_byte(line: bytes, scans: list[int]) -> None:
    assert "at byte " in str(refusal(line))
    assert scans


@pytest.mark.parametrize(
    "value",
    [
        b'[%b"\\ud83d"]' % LARGE_ITEMS,
        b"[%b%b%b]" % (LARGE_ITEMS, b"[" * 5000, b"]" * 5000),
        b'[%b"\xc3\xa9\\ud83d"]' % LARGE_ITEMS,
    ],
)
def test_a_large_line_that_msgspec_merely_does_not_like_is_a_message(value: bytes) -> None:
    assert raw(parse(request_with(value)).fields)["params"] == value


def test_a_large_value_that_is_no_object_is_told_from_what_is_no_json() -> None:
    value = b'"%b"' % (b"a" * 2 * 1024 * 1024)
    assert str(refusal(value)) == "a message must be a JSON object"
    assert refusal(value + b"x").rpc_code == json.PARSE_ERROR
