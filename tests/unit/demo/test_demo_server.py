"""The demo server's conversation, in both eras, with a clock that the test moves."""

import json
import math
from typing import Any

import pytest

from hearth.demo.server import CAPABILITIES_KEY, MODERN_VERSION, VERSION_KEY, DemoConversation

MODERN = {"_meta": {VERSION_KEY: MODERN_VERSION, CAPABILITIES_KEY: {}}}


class Talk:
    """A conversation and its clock."""

    def __init__(self, initialized: bool = False) -> None:
        self.conversation = DemoConversation()
        self.now = 100.0
        if initialized:
            self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})

    def send(self, line: bytes) -> list[dict[str, Any]]:
        self.conversation.receive_line(line, self.now)
        return self.said()

    def said(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.conversation.data_to_send().splitlines()]

    def ask(self, method: str, request_id: object = 1, **params: Any) -> list[dict[str, Any]]:
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        return self.send(json.dumps(message).encode())

    def pass_time(self, seconds: float) -> list[dict[str, Any]]:
        self.now += seconds
        self.conversation.advance(self.now)
        return self.said()

    def cancel(self, request_id: object) -> None:
        params = {"requestId": request_id}
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode())


def code(answers: list[dict[str, Any]]) -> int | None:
    (answer,) = answers
    return answer.get("error", {}).get("code")


@pytest.mark.parametrize(
    ("asked", "answered"),
    [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("2025-03-26", "2025-11-25"), ("1999", "2025-11-25")],
)
def test_initialize_echoes_a_version_that_is_spoken_and_offers_the_newest_otherwise(asked: str, answered: str) -> None:
    (answer,) = Talk().ask("initialize", protocolVersion=asked)
    assert answer["result"]["protocolVersion"] == answered


@pytest.mark.parametrize(
    ("method", "before", "after", "modern"),
    [
        ("ping", None, None, -32601),
        ("tools/list", -32600, None, None),
        ("server/discover", -32602, -32602, None),
        ("resources/list", -32600, -32601, -32601),
        ("initialize", -32602, -32600, -32601),
    ],
)
def test_each_method_belongs_to_its_era(method: str, before: int | None, after: int | None, modern: int | None) -> None:
    assert code(Talk().ask(method)) == before
    assert code(Talk(initialized=True).ask(method)) == after
    assert code(Talk().ask(method, **MODERN)) == modern


def test_modern_results_carry_what_their_revision_requires_and_legacy_ones_do_not() -> None:
    (modern,) = Talk().ask("tools/list", **MODERN)
    (legacy,) = Talk(initialized=True).ask("tools/list")
    assert {"resultType", "ttlMs", "cacheScope", "tools", "_meta"} == modern["result"].keys()
    assert {"tools"} == legacy["result"].keys()


def test_another_modern_version_is_refused_with_what_is_supported() -> None:
    (answer,) = Talk().ask("tools/list", _meta={VERSION_KEY: "2027-01-01", CAPABILITIES_KEY: {}})
    assert answer["error"]["code"] == -32022
    assert answer["error"]["data"] == {"requested": "2027-01-01", "supported": [MODERN_VERSION]}


def test_a_modern_request_without_capabilities_is_refused() -> None:
    assert code(Talk().ask("tools/list", _meta={VERSION_KEY: MODERN_VERSION})) == -32602


def test_both_eras_count_on_one_counter() -> None:
    talk = Talk(initialized=True)
    (legacy,) = talk.ask("tools/call", name="count")
    (modern,) = talk.ask("tools/call", name="count", **MODERN)
    assert [answer["result"]["content"][0]["text"] for answer in (legacy, modern)] == ["1", "2"]


def test_a_slow_call_tells_its_progress_and_then_answers_once() -> None:
    talk = Talk(initialized=True)
    assert (
        talk.ask("tools/call", 7, name="slow", arguments={"seconds": 2, "steps": 2}, _meta={"progressToken": "t"}) == []
    )
    (progress,) = talk.pass_time(1.0)
    assert progress["params"] == {"progressToken": "t", "progress": 1, "total": 2}
    *_, answer = talk.pass_time(1.0)
    assert answer["id"] == 7
    assert talk.pass_time(100.0) == []
    assert talk.conversation.next_due() == math.inf


def test_a_cancelled_call_says_nothing_more_and_its_id_is_free() -> None:
    talk = Talk(initialized=True)
    talk.ask("tools/call", 7, name="slow", arguments={"seconds": 2})
    talk.cancel(7)
    assert talk.pass_time(10.0) == []
    assert code(talk.ask("ping", 7)) is None


def test_an_id_that_is_still_open_is_refused_and_1_is_not_the_string_1() -> None:
    talk = Talk(initialized=True)
    talk.ask("tools/call", 1, name="slow")
    assert code(talk.ask("ping", 1)) == -32600
    assert code(talk.ask("ping", "1")) is None


def test_a_subscription_is_acknowledged_with_nothing_and_ends_by_cancellation() -> None:
    talk = Talk()
    (acknowledged,) = talk.ask("subscriptions/listen", "s", notifications={"toolsListChanged": True}, **MODERN)
    assert acknowledged["params"]["notifications"] == {}
    assert code(talk.ask("tools/list", "s", **MODERN)) == -32600
    talk.cancel("s")
    assert code(talk.ask("tools/list", "s", **MODERN)) is None


@pytest.mark.parametrize("arguments", [{"a": 1}, {"a": 1, "b": "2"}, {"a": True, "b": 1}, {"a": 10**400, "b": 0.5}])
def test_arguments_that_do_not_fit_are_a_result_that_the_model_can_read(arguments: dict[str, Any]) -> None:
    (answer,) = Talk(initialized=True).ask("tools/call", name="add", arguments=arguments)
    assert answer["result"]["isError"] is True


@pytest.mark.parametrize(
    "arguments", [{"seconds": 61}, {"seconds": -1}, {"steps": 0}, {"steps": 1.5}, {"steps": 1e999}]
)
def test_a_slow_call_that_would_not_end_is_refused(arguments: dict[str, Any]) -> None:
    (answer,) = Talk(initialized=True).ask("tools/call", name="slow", arguments=arguments)
    assert answer["result"]["isError"] is True


def test_an_unknown_tool_and_a_made_up_cursor_are_errors() -> None:
    talk = Talk(initialized=True)
    assert code(talk.ask("tools/call", name="nope")) == -32602
    assert code(talk.ask("tools/call", name=["add"])) == -32602
    assert code(talk.ask("tools/list", cursor="")) == -32602


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_line_that_is_not_json_is_answered_without_an_id(line: bytes) -> None:
    (answer,) = Talk().send(line)
    assert answer == {"jsonrpc": "2.0", "error": {"code": -32700, "message": "this line is not JSON"}}


@pytest.mark.parametrize("line", [b"[]", b"1", b'{"jsonrpc":"2.0","id":1}', b'{"id":true,"method":"ping"}'])
def test_a_message_that_is_not_json_rpc_is_answered_without_an_id(line: bytes) -> None:
    (answer,) = Talk().send(line)
    assert answer["error"]["code"] == -32600
    assert "id" not in answer


def test_a_stray_answer_is_not_answered() -> None:
    assert Talk().send(b'{"jsonrpc":"2.0","id":5,"result":{}}') == []
