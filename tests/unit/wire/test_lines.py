"""Lines: any cut of the stream gives the same items, and no garbage swallows the message behind it."""

import json as standard
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import MessageError, TooLarge
from hearth.wire.json import Batch, Message, join
from hearth.wire.lines import Assembler, Item, LineDecoder

from .documents import NOTIFICATION, REQUEST, RESPONSE, chunks, damaged, documents

LIMIT = 1_000_000


def shown(items: Sequence[Item | Batch]) -> list[object]:
    """Items in a form that can be compared: messages as bytes, errors as their class and code, batches as lists."""
    return [_shown(item) for item in items]


def _shown(item: Item | Batch) -> object:
    if isinstance(item, Batch):
        return shown(item.items)
    return join(item.fields) if isinstance(item, Message) else (type(item), item.rpc_code)


def read(*pieces: bytes, limit: int = LIMIT) -> list[object]:
    decoder = LineDecoder(limit, flatten=False)
    return shown([item for piece in pieces for item in decoder.receive_data(piece)] + decoder.receive_eof())


def read_flat(*pieces: bytes) -> list[object]:
    decoder = LineDecoder(LIMIT)
    return shown([item for piece in pieces for item in decoder.receive_data(piece)] + decoder.receive_eof())


def pretty(message: bytes) -> bytes:
    return standard.dumps(standard.loads(message), indent=2).encode()


def flat(message: bytes) -> object:
    return standard.loads(message)


NOT_JSON = (MessageError, -32700)
NOT_A_MESSAGE = (MessageError, -32600)
TOO_LARGE = (TooLarge, -32600)


def test_each_line_is_a_message() -> None:
    assert read(REQUEST + b"\n" + NOTIFICATION + b"\n", RESPONSE + b"\n") == [REQUEST, NOTIFICATION, RESPONSE]


def test_messages_come_out_as_soon_as_their_line_ends() -> None:
    decoder = LineDecoder(LIMIT)
    assert decoder.receive_data(REQUEST) == []
    assert shown(decoder.receive_data(b"\n" + REQUEST)) == [REQUEST]
    assert shown(decoder.receive_data(b"\n")) == [REQUEST]
    assert decoder.receive_eof() == []


def test_the_last_line_needs_no_end() -> None:
    assert read(REQUEST + b"\n" + NOTIFICATION) == [REQUEST, NOTIFICATION]
    assert read(REQUEST + b"\r") == [REQUEST]


def test_returns_before_line_ends_and_blank_lines_mean_nothing() -> None:
    assert read(b"\r\n\n  \t\n" + REQUEST + b"\r\n\r\n\n" + NOTIFICATION + b"\r", b"\n") == [REQUEST, NOTIFICATION]


def test_a_return_inside_a_line_is_not_forwarded() -> None:
    assert read(b'{"jsonrpc":"2.0",\r"method":\r"x","a":[1,\r2]}\n') == [b'{"jsonrpc":"2.0","method":"x","a":[1, 2]}']


def test_a_pretty_printed_message_is_joined() -> None:
    [message] = read(pretty(REQUEST) + b"\n")
    assert flat(message) == flat(REQUEST)  # type: ignore[arg-type]
    assert b"\n" not in message  # type: ignore[operator]


def test_pretty_printed_messages_follow_each_other_and_others() -> None:
    stream = (
        pretty(REQUEST)
        + b"\n"
        + NOTIFICATION
        + b"\r\n"
        + pretty(RESPONSE).replace(b"\n", b"\r\n\r\n")
        + b"\n"
        + REQUEST
    )
    assert [flat(item) for item in read(stream)] == [flat(item) for item in (REQUEST, NOTIFICATION, RESPONSE, REQUEST)]  # type: ignore[arg-type]


def test_a_message_may_break_between_any_two_tokens() -> None:
    stream = b'{\n"jsonrpc"\n:\n"2.0"\n,\n"method"\n:\n"x"\n,\n"params"\n:\n[\n1\n,\n{\n}\n]\n}\n'
    assert read(stream) == [b'{"jsonrpc":"2.0","method":"x","params":[ 1 , { } ]}']


def test_a_piece_that_is_an_object_by_itself_is_still_a_piece() -> None:
    stream = b'{"jsonrpc":"2.0","method":"x","params":{"list":[\n{},\n{"id":1}\n,{"method":"y"}\n]}}\n'
    assert read(stream) == [b'{"jsonrpc":"2.0","method":"x","params":{"list":[ {}, {"id":1} ,{"method":"y"} ]}}']


def test_a_first_line_that_ends_like_a_message_may_go_on() -> None:
    assert read(b'{"params":{}\n,"jsonrpc":"2.0","method":"x"}\n') == [b'{"params":{},"jsonrpc":"2.0","method":"x"}']


def test_a_whole_message_ends_what_was_unfinished() -> None:
    assert read(b'{"jsonrpc":"2.0",\n"params":[\n' + REQUEST + b"\n" + NOTIFICATION) == [
        NOT_JSON,
        REQUEST,
        NOTIFICATION,
    ]


def test_a_pretty_printed_message_ends_what_it_does_not_fit() -> None:
    items = read(b'{"jsonrpc":"2.0",\n' + pretty(REQUEST))
    assert items[0] == NOT_JSON
    assert flat(items[1]) == flat(REQUEST)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "garbage",
    [
        b"Listening on port 3000",
        b"{ not json",
        b"[INFO] started",
        b'{"a":',
        b"[",
        b'{"unclosed',
        b"}",
        b"\xff\xfe\x00",
        b'"',
    ],
)
def test_garbage_is_one_error_and_swallows_nothing(garbage: bytes) -> None:
    items = read(REQUEST + b"\n" + garbage + b"\n" + NOTIFICATION + b"\n" + REQUEST + b"\n")
    assert items == [REQUEST, NOT_JSON, NOTIFICATION, REQUEST]


def test_json_that_is_no_message_is_an_error_of_its_own() -> None:
    assert read(b'{"a":1}\n[]\n1\n' + REQUEST) == [NOT_A_MESSAGE, NOT_A_MESSAGE, NOT_A_MESSAGE, REQUEST]


def test_what_follows_the_end_of_a_message_on_its_line_spoils_it_alone() -> None:
    assert read(b'{"jsonrpc":"2.0",\n"method":"x"} {\n' + REQUEST) == [NOT_JSON, REQUEST]


def test_an_end_in_the_middle_of_a_message_is_an_error() -> None:
    assert read(b'{"jsonrpc":"2.0",\n"id":1,') == [NOT_JSON]
    assert read(REQUEST[:-1]) == [NOT_JSON]


# --- batches

BATCH = b"[" + REQUEST + b"," + NOTIFICATION + b"]"


def test_an_array_is_a_batch_or_its_items_one_after_the_other() -> None:
    stream = RESPONSE + b"\n " + BATCH + b"\r\n[{}," + REQUEST + b",1]\n" + RESPONSE
    assert read(stream) == [
        RESPONSE, [REQUEST, NOTIFICATION], [NOT_A_MESSAGE, REQUEST, NOT_A_MESSAGE], RESPONSE,
    ]  # fmt: skip
    assert read_flat(stream) == [
        RESPONSE, REQUEST, NOTIFICATION, NOT_A_MESSAGE, REQUEST, NOT_A_MESSAGE, RESPONSE,
    ]  # fmt: skip


def test_an_empty_array_is_one_error() -> None:
    assert read(b"[]\n[\n]\n" + REQUEST) == [NOT_A_MESSAGE, NOT_A_MESSAGE, REQUEST]


def test_the_last_batch_needs_no_line_end() -> None:
    assert read(BATCH) == [[REQUEST, NOTIFICATION]]


def test_a_pretty_printed_batch_is_joined() -> None:
    (batch,) = read(pretty(BATCH) + b"\n")
    assert isinstance(batch, list)
    assert [flat(item) for item in batch] == [flat(REQUEST), flat(NOTIFICATION)]


@pytest.mark.parametrize(
    "stream",
    [
        b"[\n" + REQUEST + b",\n\n" + NOTIFICATION + b"\n]\n",
        b"[" + REQUEST + b",\r\n" + NOTIFICATION + b"\r\n]\r\n",
        b"[" + REQUEST + b"\n,\n" + NOTIFICATION + b"\n]",
        b"[\n" + REQUEST + b",\n" + NOTIFICATION + b"]",
    ],
)
def test_a_batch_may_have_each_of_its_messages_on_a_line_of_its_own(stream: bytes) -> None:
    assert read(stream + b"\n" + RESPONSE) == [[REQUEST, NOTIFICATION], RESPONSE]


def test_a_batch_that_is_never_closed_ends_with_the_message_that_does_not_fit_it() -> None:
    assert read(b"[\n" + REQUEST + b",\n" + NOTIFICATION + b"\n" + REQUEST + b"\n" + RESPONSE) == [
        NOT_JSON, REQUEST, RESPONSE,
    ]  # fmt: skip


@pytest.mark.parametrize("begun", [b"[", b"[1,", b'["a",\n{},', b'{"jsonrpc":"2.0","params":[', b'{"a":{},'])
def test_a_whole_batch_ends_what_was_unfinished(begun: bytes) -> None:
    assert read(begun + b"\n" + BATCH + b"\n" + RESPONSE) == [NOT_JSON, [REQUEST, NOTIFICATION], RESPONSE]
    assert read(begun + b"\n" + REQUEST + b"\n" + RESPONSE) == [NOT_JSON, REQUEST, RESPONSE]


def test_a_piece_that_is_an_array_by_itself_is_still_a_piece() -> None:
    stream = b'{"jsonrpc":"2.0","method":"x","params":[\n[],\n[1,{}]\n,["jsonrpc"]\n]}\n'
    assert read(stream) == [b'{"jsonrpc":"2.0","method":"x","params":[ [], [1,{}] ,["jsonrpc"] ]}']


def test_an_array_that_does_not_fit_what_was_begun_is_a_batch_of_its_own() -> None:
    assert read(b'{"a":\n1 2\n[]\n' + REQUEST) == [NOT_JSON, NOT_A_MESSAGE, REQUEST]
    assert read(b'{"a":1,\n[2]\n' + REQUEST) == [NOT_JSON, [NOT_A_MESSAGE], REQUEST]
    assert read(b'{"a":1,\n[2\n]\n' + REQUEST) == [NOT_JSON, [NOT_A_MESSAGE], REQUEST]


def test_a_batch_over_the_limit_is_passed_over_to_its_end() -> None:
    for stream in (BATCH, pretty(BATCH)):
        assert read(stream + b"\n" + REQUEST, limit=len(REQUEST)) == [TOO_LARGE, REQUEST]


def test_a_batch_in_consecutive_frames_is_one_item() -> None:
    assembler = Assembler(LIMIT, flatten=False)
    *pieces, last = pretty(BATCH).split(b"\n")
    assert [assembler.receive_line(piece) for piece in pieces] == [[]] * len(pieces)
    (batch,) = assembler.receive_line(last)
    assert isinstance(batch, Batch) and len(batch.items) == 2


# --- limits


def test_a_message_at_the_limit_passes_and_one_above_it_does_not() -> None:
    for end in (b"\n", b"\r\n", b""):
        assert read(REQUEST + end, limit=len(REQUEST)) == [REQUEST]
        assert read(REQUEST + end, limit=len(REQUEST) - 1) == [TOO_LARGE]


def test_the_return_of_a_line_end_does_not_count_wherever_the_stream_is_cut() -> None:
    assert read(REQUEST + b"\r", b"\n", limit=len(REQUEST)) == [REQUEST]
    assert read(REQUEST + b"\r", b"\r\n", limit=len(REQUEST)) == [TOO_LARGE]
    assert read(REQUEST + b"\r", b" \n", limit=len(REQUEST)) == [TOO_LARGE]


def test_a_line_over_the_limit_is_reported_once_and_passed_over() -> None:
    decoder = LineDecoder(200)
    assert shown(decoder.receive_data(b'{"jsonrpc":"' + b"x" * 200)) == [TOO_LARGE]
    for _ in range(5):
        assert decoder.receive_data(b"x" * 200) == []
    assert shown(decoder.receive_data(b"\n" + REQUEST + b"\n")) == [REQUEST]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_message_is_never_joined_without_a_line_that_was_over_the_limit(size: int) -> None:
    stream = b'{"jsonrpc":"2.0","method":"x","params":[1,\n"' + b"x" * 200 + b'",\n2]}\n' + REQUEST + b"\n"
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert read(*chunks, limit=150) == [TOO_LARGE, NOT_JSON, REQUEST]


def test_what_is_passed_over_is_not_kept() -> None:
    decoder = LineDecoder(100)
    for _ in range(50):
        decoder.receive_data(b"x" * 100)
    assert len(decoder._buffer) == 0


@pytest.mark.parametrize("size", [1, 7, 4096, 100_000])
@pytest.mark.parametrize(
    ("line", "id"),
    [
        (b'{"jsonrpc":"2.0","id":5,"result":"%b"}', b"5"),
        (b' { "id" : "a b" , "error":{"data":"%b"}}', b'"a b"'),
        (b'{"result":{"id":1,"x":"%b"},"jsonrpc":"2.0","id":5}', b"5"),
        (b'{"jsonrpc":"2.0","error":{"data":"%b"},"id":"five"}', b'"five"'),
        (b'{"result":"%b","id":-5 , "jsonrpc": "2.0" }', b"-5"),
        # Somebody else's ids, and requests.
        (b'{"jsonrpc":"2.0","result":{"x":"%b","id":5}}', None),
        (b'{"jsonrpc":"2.0","result":"%b \\"id\\":5}"}', None),
        (b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"x":"%b"}}', None),
        (b'{"method":"m","params":{"x":"%b"},"jsonrpc":"2.0","id":5}', None),
        (b'[{"jsonrpc":"2.0","id":5,"result":"%b"}]', None),
        (b"%b", None),
    ],
)
def test_of_an_answer_over_the_limit_the_id_is_told(line: bytes, id: bytes | None, size: int) -> None:
    stream = line % (b"x" * 10_000) + b"\r\n" + REQUEST
    decoder = LineDecoder(5000)
    items = [item for at in range(0, len(stream), size) for item in decoder.receive_data(stream[at : at + size])]
    found, last = items + decoder.receive_eof()
    assert isinstance(found, TooLarge) and found.id == id
    assert shown([last]) == [REQUEST]
    decoder = LineDecoder(5000)
    (found,) = [*decoder.receive_data(stream[:9000]), *decoder.receive_eof()]
    assert isinstance(found, TooLarge)


def test_of_a_spread_answer_over_the_limit_the_id_is_told_where_it_comes_first() -> None:
    decoder = LineDecoder(100)
    (found,) = decoder.receive_data(b'{\n "jsonrpc": "2.0",\n "id": 5,\n "result":\n"' + b"x" * 60 + b'",\n"y":1\n')
    assert isinstance(found, TooLarge) and found.id == b"5"


def test_a_spread_message_over_the_limit_is_reported_once_and_passed_over_to_its_end() -> None:
    large = b'{"jsonrpc":"2.0","params":[\n' + b'"xxxxxxxxxx",\n' * 50 + b"1\n]\n}\n"
    assert read(large + REQUEST + b"\n", limit=len(REQUEST)) == [TOO_LARGE, REQUEST]
    assert read(large[:-2] + REQUEST + b"\n", limit=len(REQUEST)) == [TOO_LARGE, REQUEST]
    assert read(large[:-2], limit=len(REQUEST)) == [TOO_LARGE]


def test_a_spread_message_may_have_many_more_lines_than_the_scanner_has_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hearth.wire.scan.STEP_LIMIT", 50)
    stream = b'{"jsonrpc":"2.0","method":"x","params":[\n' + b"[1],\n" * 100 + b"1]}\n"
    assert len(read(stream)) == 1
    assert isinstance(read(stream)[0], bytes)


# --- frames, each with one line of the client


def test_an_assembler_joins_the_pieces_that_come_in_consecutive_frames() -> None:
    assembler = Assembler(LIMIT)
    *pieces, last = pretty(REQUEST).split(b"\n")
    for piece in pieces:
        assert assembler.receive_line(piece) == []
        assert assembler.pending
    [message] = assembler.receive_line(last)
    assert isinstance(message, Message) and message.id == b"1"
    assert not assembler.pending


def test_an_assembler_gives_the_unfinished_up_for_a_whole_message() -> None:
    assembler = Assembler(LIMIT)
    assert assembler.receive_line(b'{"jsonrpc":') == []
    assert shown(assembler.receive_line(REQUEST)) == [NOT_JSON, REQUEST]
    assert assembler.receive_eof() == []


def test_an_assembler_takes_a_payload_with_line_ends_in_it() -> None:
    [message] = Assembler(LIMIT).receive_line(pretty(REQUEST))
    assert isinstance(message, Message)
    assert b"\n" not in join(message.fields)


def test_an_assembler_reports_the_unfinished_at_the_end() -> None:
    assembler = Assembler(LIMIT)
    assembler.receive_line(b"{")
    assert shown(assembler.receive_eof()) == [NOT_JSON]
    assert assembler.receive_eof() == []


# --- properties

_messages = st.sampled_from([REQUEST, NOTIFICATION, RESPONSE])
_texts = st.one_of(
    _messages,
    _messages.map(pretty),
    documents().map(lambda document: b'{"jsonrpc":"2.0","method":"x","params":' + document + b"}"),
    damaged(_messages.map(pretty)),
    damaged(_messages),
    st.lists(_messages, max_size=3).map(lambda messages: b"[" + b",\n".join(messages) + b"]"),
    st.sampled_from([b"", b"log line", b"{", b"[", b"}", b'{"a":1}', b"[1,"]),
)
_streams = st.lists(st.tuples(_texts, st.sampled_from([b"\n", b"\r\n", b"\n\n"])), max_size=6).map(
    lambda pairs: b"".join(text + end for text, end in pairs)
)


@given(_streams, st.sampled_from([LIMIT, 120, 40]), st.data())
def test_any_cut_of_the_stream_gives_the_same_items(stream: bytes, limit: int, data: st.DataObject) -> None:
    whole = read(stream, limit=limit)
    assert read(*data.draw(chunks(stream)), limit=limit) == whole
    assert read(*(stream[at : at + 1] for at in range(len(stream))), limit=limit) == whole


@given(st.binary(max_size=60), _messages)
def test_no_garbage_swallows_the_message_on_the_next_line(garbage: bytes, message: bytes) -> None:
    assert read(garbage + b"\n" + message + b"\n")[-1] == message


@given(_streams)
def test_nothing_above_the_limit_comes_out(stream: bytes) -> None:
    for item in read(stream, limit=100):
        assert not isinstance(item, bytes) or len(item) <= 100


@given(st.lists(_messages, max_size=5), st.lists(st.booleans(), min_size=5, max_size=5))
def test_good_messages_come_out_in_order_however_they_are_written(messages: list[bytes], is_pretty: list[bool]) -> None:
    lines = [pretty(message) if flag else message for message, flag in zip(messages, is_pretty, strict=False)]
    items = read(b"\n".join(lines))
    assert [flat(item) for item in items] == [flat(message) for message in messages]  # type: ignore[arg-type]
