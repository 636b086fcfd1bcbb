"""What the bridge says itself: the right id, as it was written, or none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.bridge import replies
from hearth.bridge.replies import SHOWN_CHARACTERS, Literal, described

SENTENCE = 'no daemon at "/run/x"; type `hearth doctor` – bitte'


def failure(line: bytes) -> object:
    answer = replies.failure(line, SENTENCE)
    return None if answer is None else json.loads(answer)


@pytest.mark.parametrize(
    "id", ["1", "0", "-7", "1.0", "1e3", "123456789012345678901234567890", '"one"', '"a\\"b"', '"\\ud800"', '""']
)
def test_a_request_is_refused_under_its_own_id(id: str) -> None:
    answer = replies.failure(f'{{"jsonrpc":"2.0","id":{id},"method":"x"}}'.encode(), SENTENCE)
    assert answer is not None
    assert answer.decode().startswith(f'{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,')
    assert json.loads(answer)["error"]["message"] == SENTENCE


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"notifications/x"}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":null,"method":"x"}',
        b"[]",
        b'[{"jsonrpc":"2.0","method":"x"}]',
    ],
)
def test_what_wants_no_answer_gets_none(line: bytes) -> None:
    assert failure(line) is None


@pytest.mark.parametrize("line", [b"hello", b"{", b'{"id":1,}', b'{"id":1} x', b'{"id":\xff}', b"", b"nul", b'{"a" 1}'])
def test_bad_json_is_told_without_an_id(line: bytes) -> None:
    answer = failure(line)
    assert isinstance(answer, dict)
    assert (answer["error"]["code"], "id" in answer) == (-32700, False)


def test_a_batch_is_refused_as_a_batch() -> None:
    answer = failure(b'[{"id":1,"method":"x"},{"method":"y"},{"id":"2","method":"z"}]')
    assert isinstance(answer, list)
    assert [item["id"] for item in answer] == [1, "2"]


def test_what_is_no_object_is_an_invalid_request() -> None:
    answer = failure(b"17")
    assert isinstance(answer, dict) and answer["error"]["code"] == -32600


def test_deep_nesting_does_not_hide_the_id() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    for line in (b'{"id":7,"method":"x","params":' + deep + b"}", b'{"method":"x","params":' + deep + b',"id":7}'):
        answer = failure(line)
        assert isinstance(answer, dict) and answer["id"] == 7


def test_what_may_have_run_is_said_to_be_in_doubt() -> None:
    answer = replies.failure(b'{"id":1,"method":"x"}', "It is gone.", in_doubt=True)
    assert answer is not None and b"It is gone. It had been handed" in answer


def test_a_withdrawal_names_the_question() -> None:
    message = json.loads(replies.withdrawal('hearth-"d"-1'))
    assert message["method"] == "notifications/cancelled"
    assert message["params"]["requestId"] == 'hearth-"d"-1'


@pytest.mark.parametrize(
    ("head", "tail", "found"),
    [
        ('{"jsonrpc":"2.0","id":5,"method":"x","params":{"te', "", "5"),
        ('{ "id" : "a b" , "method":"x', "", "a b"),
        ('{"params":{"id":6,"text":"xxxx', 'xx"},"jsonrpc":"2.0","id":7}', "7"),
        ('{"params":{"id":6,"text":"xxxx', 'xx"}, "id" : "seven" , "jsonrpc":"2.0" } ', "seven"),
        ('{"params":{"text":"xxxx', 'xx","id":8}}', None),
        ('{"params":{"text":"xxxx', 'xx\\"id\\":8}"}}', None),
        ('{"params":{"id":9},"method":"xxxx', 'xx"}', None),
        ('{"id":12', "", None),
        ('["id",1,"xxx', "x]", None),
        ("nonsense", "nonsense", None),
        ("", "", None),
        ('{"id":null,"x":"', 'x"}', None),
        ('{"id":{"id":1},"x":"', 'x"}', None),
    ],
)
def test_the_id_of_a_message_that_was_skipped_is_found_at_its_ends(head: str, tail: str, found: str | None) -> None:
    assert replies.find_id(head.encode(), tail.encode()) == found


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_whatever_the_ends_are_looking_for_an_id_raises_nothing(head: bytes, tail: bytes) -> None:
    replies.find_id(b"{" + head, tail + b"}")
    replies.failure(head, SENTENCE)
    replies.refusal_in(tail)


def test_a_number_stays_a_number_and_text_stays_text() -> None:
    assert isinstance(replies.find_id(b'{"id":5,"x":1', b""), Literal)
    assert not isinstance(replies.find_id(b'{"id":"5","x":1', b""), Literal)


def test_an_answer_that_is_too_large_is_told_to_the_daemon_that_asked() -> None:
    to_client, to_daemon = replies.too_large(b'{"jsonrpc":"2.0","id":"hearth-d-1","result":{"x":"', b'x"}}', 10)
    assert to_client is None and to_daemon is not None
    assert json.loads(to_daemon)["id"] == "hearth-d-1"


def test_a_request_that_is_too_large_is_told_to_the_client() -> None:
    to_client, to_daemon = replies.too_large(b'{"method":"x","params":"', b'","id":4}', 10)
    assert to_daemon is None and to_client is not None
    answer = json.loads(to_client)
    assert (answer["id"], answer["error"]["code"]) == (4, -32600)


# --- lines that are not JSON, as standard error shows them


def test_a_line_is_shown_as_it_is() -> None:
    assert described(b"Debugger listening on port 9229").endswith(": Debugger listening on port 9229")


def test_a_long_line_is_cut() -> None:
    shown = described(b"word " * 1000)
    assert shown.endswith(" …")
    assert len(shown) < SHOWN_CHARACTERS + 80


@pytest.mark.parametrize(
    "line",
    [
        'token=s3cr3tvalue', 'API_KEY: "hunter2secret"', "Authorization: Bearer hunter2secret",
        "password hunter2secret",
        "export GITHUB_TOKEN=ghp_hunter2secretABCDEFGH0123", "got ghp_hunter2secretABCDEFGH0123 from the vault",
        "x" * 190 + " token=hunter2secret",
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_masked(line: str) -> None:
    shown = described(line.encode())
    assert "hunter2" not in shown and "s3cr3t" not in shown
    assert "***" in shown or "…" in shown


def test_no_control_character_reaches_the_terminal() -> None:
    assert described("a\x1b[31mb\x9b\u202ec".encode()).isprintable()


def test_bytes_that_are_no_text_are_shown_as_replaced() -> None:
    assert described(b"\xff\xfe").isprintable()
