"""JSON that careful parsers dislike, over both wires: passed on as it came, or refused to the right id.

The recording server keeps the bytes that reached it, so that "passed on" is what the server saw.
"""

import json
from pathlib import Path

import pytest

from support.clients import Client, FramesClient, Message, text_of
from support.daemon import Scratch, server


@pytest.fixture(scope="module")
def recorded(shared: Scratch) -> Scratch:
    shared.serve({"rec": server("recording", shared.home / "record"), "big": server("big")})
    return shared


@pytest.fixture
def client(recorded: Scratch, wire: str) -> Client:
    return recorded.lines() if wire == "lines" else recorded.frames()


def last_line(scratch: Scratch) -> bytes:
    return Path(scratch.home / "record").read_bytes().splitlines()[-1]


def call_with(arguments: bytes, id: bytes = b"1", tool: bytes = b"rec__echo") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"%b","arguments":%b}}' % (
        id, tool, arguments,
    )  # fmt: skip


def assert_passed_on(scratch: Scratch, client: Client, arguments: bytes) -> None:
    client.send_line(call_with(arguments))
    assert text_of(client.answer_to(1)) == "heard"
    assert b'"arguments":' + arguments in last_line(scratch)


# --- requests


def test_lone_surrogates_reach_the_server_as_they_were_written(recorded: Scratch, client: Client) -> None:
    assert_passed_on(recorded, client, rb'{"a":"\ud800","\udfff":["\udc00\ud800"],"good":"\ud83d\ude00"}')


def test_duplicate_keys_reach_the_server_as_they_were_written(recorded: Scratch, client: Client) -> None:
    assert_passed_on(recorded, client, b'{"a":1,"a":2,"b":{"c":1,"c":2}}')


def test_a_thousandfold_nesting_reaches_the_server(recorded: Scratch, client: Client) -> None:
    assert_passed_on(recorded, client, b'{"a":%b%b}' % (b"[" * 1000, b"]" * 1000))
    assert_passed_on(recorded, client, b'{"a":' * 1000 + b"1" + b"}" * 1000)


def test_numbers_beyond_64_bits_reach_the_server_digit_by_digit(recorded: Scratch, client: Client) -> None:
    digits = b"123456789" * 50
    assert_passed_on(recorded, client, b'{"a":%b,"b":-%b,"c":1e400,"d":0.%b}' % (digits, digits, digits))


def test_text_outside_ascii_and_escapes_reach_the_server_as_they_were_written(
    recorded: Scratch, client: Client
) -> None:
    assert_passed_on(recorded, client, '{"é":"\u2028 \U0001f525 \\u0041 \\/ \\u0000"}'.encode())


def test_a_large_message_reaches_the_server_whole(recorded: Scratch, client: Client) -> None:
    assert_passed_on(recorded, client, b'{"a":"%b"}' % (b"x" * 3_000_000))


def test_spaces_between_tokens_change_nothing(recorded: Scratch, client: Client) -> None:
    client.ask("ping", id=0)
    client.send_line(
        b' \t{ "jsonrpc" : "2.0" , "id" : 1 , "method" : "tools/call" , "params" : {"name":"rec__echo"} } \t'
    )
    assert text_of(client.answer_to(1)) == "heard"


PRETTY = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rec__echo", "arguments": {"a": ["x", 2]}}},
    indent=4,
)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_pretty_printed_json_is_one_message_and_reaches_the_server_on_one_line(
    recorded: Scratch, client: Client, line_end: str
) -> None:
    for line in PRETTY.split("\n"):
        # Both a raw line and a frame of the bridge hold one line of the client.
        client.send_line((line + line_end.removesuffix("\n")).encode())
    assert text_of(client.answer_to(1)) == "heard"
    assert json.loads(last_line(recorded))["params"]["arguments"] == {"a": ["x", 2]}


def test_the_lines_of_a_pretty_printed_message_are_finished_with_it(recorded: Scratch) -> None:
    client = recorded.frames()
    for line in PRETTY.split("\n"):
        client.send_line(line.encode())
    client.answer_to(1)
    last = client.seq
    client.notify("notifications/initialized")
    while last + 1 not in (done := [seq for header in client.headers for seq in header.get("done", [])]):
        client.receive_type("ack")
    assert {header["re"] for header in client.headers if "re" in header} == {last}
    assert sorted(done) == [*range(1, last), last + 1]


def test_a_frame_that_holds_several_lines_of_one_message_is_one_message(recorded: Scratch) -> None:
    client = recorded.frames()
    client.send_line(PRETTY.replace("\n", "\r\n").encode())
    assert text_of(client.answer_to(1)) == "heard"
    assert b"\r" not in last_line(recorded)


def test_an_unfinished_message_is_ended_by_the_next_whole_one(client: Client) -> None:
    client.send_line(b'{"jsonrpc":"2.0","id":1,"method":')
    client.send_line(b'{"jsonrpc":"2.0","id":2,"method":"ping"}')
    broken, whole = client.receive(), client.receive()
    assert (broken["error"]["code"], "id" in broken) == (-32700, False)
    assert whole == {"jsonrpc": "2.0", "id": 2, "result": {}}


def finished(client: FramesClient) -> tuple[dict[int, bytes], list[int]]:
    """Which frames were answered, with what, and which are done without, once everything sent is finished."""
    answers: dict[int, bytes] = {}
    done: list[int] = []
    while len(answers) + len(done) < client.seq:
        header, payload = client.receive_frame()
        done += header.get("done", [])
        if "re" in header:
            assert header["re"] not in answers
            answers[header["re"]] = payload
    return answers, sorted(done)


def test_an_error_about_earlier_lines_does_not_take_the_place_of_the_next_answer(recorded: Scratch) -> None:
    client = recorded.frames()
    for line in (b"{", b'"jsonrpc":', b'{"jsonrpc":"2.0","id":2,"method":"ping"}'):
        client.send_line(line)
    answers, done = finished(client)
    assert (sorted(answers), done) == ([1, 3], [2])
    assert json.loads(answers[1])["error"]["code"] == -32700
    assert json.loads(answers[3])["result"] == {}


def test_a_line_that_breaks_one_message_off_and_begins_another_is_a_piece_of_that_one(recorded: Scratch) -> None:
    client = recorded.frames()
    for line in (b"{", b"{", b'"jsonrpc":"2.0","id":2,"method":"ping"}'):
        client.send_line(line)
    answers, done = finished(client)
    assert (sorted(answers), done) == ([1, 3], [2])
    assert json.loads(answers[3])["result"] == {}


@pytest.mark.parametrize(
    ("line", "id", "code"),
    [
        pytest.param(call_with(b'{"a":"\xff"}', b"7"), 7, -32600, id="invalid UTF-8"),
        pytest.param(call_with(b'{"a":"\xed\xa0\x80"}', b'"u"'), "u", -32600, id="a surrogate as UTF-8"),
        pytest.param(b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}', None, -32700, id="invalid UTF-8 in the id"),
        pytest.param(b'{"jsonrpc":"1.0","id":8,"method":"ping"}', 8, -32600, id="another JSON-RPC"),
        pytest.param(b'{"jsonrpc":"2.0","id":9,"method":7}', 9, -32600, id="a method that is no string"),
        pytest.param(b'{"jsonrpc":"2.0","id":10,"method":"tools/call","params":[1]}', 10, -32602, id="params as array"),
        pytest.param(b'{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{}}', 11, -32602, id="no tool"),
        pytest.param(call_with(b"{}", b"12", b"rec__none"), 12, -32602, id="an unknown tool"),
        pytest.param(b'{"jsonrpc":"2.0","id":13,"method":"no/such"}', 13, -32601, id="an unknown method"),
        pytest.param(b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600, id="null as id"),
        pytest.param(b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', None, -32600, id="an object as id"),
        pytest.param(b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600, id="a boolean as id"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"ping"', None, None, id="cut off"),
        pytest.param(b"[" * 100_000, None, None, id="brackets without end"),
        pytest.param(b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', None, -32700, id="NaN"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"ping"} x', None, -32700, id="something behind it"),
        pytest.param(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None, -32600, id="a batch"),
    ],
)
def test_what_cannot_be_passed_on_is_refused_to_the_right_id(
    client: Client, line: bytes, id: object, code: int | None
) -> None:
    client.send_line(b'{"jsonrpc":"2.0","id":0,"method":"ping"}')
    client.answer_to(0)
    client.send_line(line)
    client.send_line(b'{"jsonrpc":"2.0","id":"after","method":"ping"}')
    # What needs a look at the servers is answered when that was had; the order is free.
    (refused,) = [message for message in (client.receive(), client.receive()) if message.get("id") != "after"]
    assert refused["error"]["code"] == code if code else refused["error"]["code"] in (-32700, -32600)
    assert refused.get("id") == id
    assert ("id" in refused) is (id is not None)


@pytest.mark.parametrize(
    "id",
    [
        b"0", b"-1", b"1.5", b"1.0", b"1e3", b"12345678901234567890123456789", b'""', b'"1"', b'"\xc3\xa9"',
        rb'"\u0061"', rb'"\ud800"', b'"' + b"i" * 5000 + b'"',
    ],
)  # fmt: skip
def test_an_id_comes_back_as_it_was_written(recorded: Scratch, client: Client, id: bytes) -> None:
    client.send_line(call_with(b"{}", id))
    assert client.receive_line().startswith(b'{"jsonrpc":"2.0","id":' + id + b',"result":')
    # The server never sees a client's id: two clients may use the same.
    assert isinstance(json.loads(last_line(recorded))["id"], int)


def test_of_duplicate_keys_at_the_top_the_same_one_is_decided_by_and_answered_to(client: Client) -> None:
    client.send_line(b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2,"method":"no/such"}')
    answer = client.receive()
    assert (answer["id"], answer["error"]["code"]) == (2, -32601)
    assert client.ask("ping", id=1)["result"] == {}


def test_of_duplicate_tool_names_the_one_that_is_decided_by_is_the_only_one_sent(
    recorded: Scratch, client: Client
) -> None:
    # A check on the first and a call of the second would be a way around every policy.
    params = b'{"name":"rec__hold","name":"rec__echo","arguments":{}}'
    client.send_line(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params)
    assert text_of(client.answer_to(1)) == "heard"
    assert last_line(recorded).count(b'"name"') == 1
    assert json.loads(last_line(recorded))["params"]["name"] == "echo"


def test_unknown_members_of_the_params_reach_the_server(recorded: Scratch, client: Client) -> None:
    params = b'{"name":"rec__echo","task":{"ttl":1},"_meta":{"vendor/key":[1,2],"traceparent":"00-a-b-01"},"x":null}'
    client.send_line(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params)
    assert text_of(client.answer_to(1)) == "heard"
    assert json.loads(last_line(recorded))["params"] == {**json.loads(params), "name": "echo"}


def test_a_message_over_the_limit_is_refused_and_the_connection_of_lines_goes_on(scratch: Scratch) -> None:
    client = scratch.serve(message_limit=10_000).lines()
    client.ask("ping")
    client.send_line(call_with(b'{"a":"%b"}' % (b"x" * 20_000)))
    refused = client.receive()
    assert (refused["error"]["code"], "id" in refused) == (-32600, False)
    assert "message_limit" in refused["error"]["message"]
    assert client.ask("ping")["result"] == {}


def test_a_line_over_the_limit_is_refused_alone_and_the_connection_of_frames_goes_on(scratch: Scratch) -> None:
    client = scratch.serve(message_limit=10_000).frames()
    client.send_line(b"x" * 20_000)
    header, payload = client.receive_type("mcp")
    assert header["re"] == 1
    assert "message_limit" in json.loads(payload)["error"]["message"]
    assert client.ask("ping")["result"] == {}


# --- answers


@pytest.mark.parametrize(
    "result",
    [
        rb'{"content":[],"structuredContent":{"a":"\ud800"}}',
        b'{"content":[],"n":%b}' % (b"9" * 60),
        b'{"content":[],"deep":%b%b}' % (b"[" * 1000, b"]" * 1000),
        b'{"content":[],"content":[1]}',
        b'{"content":[],"unknown":{"x":1e400}}',
    ],
)
def test_a_server_s_answer_reaches_the_client_byte_for_byte(client: Client, result: bytes) -> None:
    client.begin_call("big__verbatim", id=5, json=result.decode())
    assert client.receive_line() == b'{"jsonrpc":"2.0","id":5,"result":' + result + b"}"


def test_a_pretty_printed_answer_arrives_on_one_line(client: Client) -> None:
    client.begin_call("big__pretty", id=6)
    line = client.receive_line()
    assert b"\n" not in line
    assert b"\r" not in line
    assert text_of(json.loads(line)) == "pretty"


def test_an_answer_that_is_no_utf_8_is_an_error_that_names_the_server(client: Client) -> None:
    refused = client.call("big__invalid")
    assert refused["error"]["code"] == -32603
    assert "server 'big' gave an unusable answer" in refused["error"]["message"]


def test_a_large_answer_arrives_whole(client: Client) -> None:
    assert len(text_of(client.call("big__big", bytes=5_000_000))) == 5_000_000


# --- many at once


def test_a_pipelined_crowd_of_requests_gets_one_answer_each(recorded: Scratch, client: Client) -> None:
    wanted: list[Message] = []
    for number in range(300):
        id: object = number if number % 2 else f"s{number}"
        wanted.append({"id": id})
        client.begin_call("rec__echo", id=id, n=number)
    answers = [client.receive() for _ in wanted]
    assert [answer["id"] for answer in answers] == [item["id"] for item in wanted]
    if isinstance(client, FramesClient):
        assert [header["re"] for header in client.headers if "re" in header] == list(range(1, 301))
