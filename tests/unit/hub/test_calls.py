"""One request, one answer: whatever comes first, and nothing after it."""

from outlets import Kept, session

from hearth.errors import UpstreamError
from hearth.hub.calls import Call, Listen, unrepeatable
from hearth.hub.sessions import Session
from hearth.mcp import eras
from hearth.wire import json
from hearth.wire.json import Raw


def opened(id: bytes = b"1") -> tuple[Call, Session, Kept]:
    member, outlet = session()
    call = Call(member, 7, id, json.id_key(id), resent=False)
    # As `send` notes it.
    call._upstream_era = eras.LEGACY
    member.open[call.key] = call
    return call, member, outlet


def answer(body: bytes) -> json.Message:
    return json.parse(b'{"jsonrpc":"2.0","id":3,%b}' % body)


def test_the_first_answer_is_given_and_later_ones_are_dropped() -> None:
    call, member, outlet = opened()
    call.answered(answer(b'"result":{"a":1}'))
    call.answered(answer(b'"result":{"a":2}'))
    call.failed(UpstreamError("late"))
    assert outlet.said == [("answer", 7, b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}')]
    assert member.open == {}


def test_a_cancelled_call_has_no_answer() -> None:
    call, _, outlet = opened()
    call.cancel()
    call.answered(answer(b'"result":{}'))
    assert outlet.said == [("finish", 7)]
    assert not call.is_open


def test_a_cancel_after_the_answer_does_nothing() -> None:
    call, _, outlet = opened()
    call.close(b"{}")
    call.cancel()
    assert outlet.said == [("answer", 7, b"{}")]


def test_a_second_call_under_the_same_id_is_not_closed_by_the_first_one_s_answer() -> None:
    first, member, outlet = opened()
    first.cancel()
    second = Call(member, 8, b"1", 1, resent=False)
    member.open[second.key] = second
    first.answered(answer(b'"result":{}'))
    assert second.is_open
    assert outlet.heard("answer") == []


def test_an_error_of_the_server_is_relayed_with_the_client_s_id() -> None:
    call, _, outlet = opened(b'"x"')
    call.answered(answer(b'"error":{"code":-32602,"message":"no","data":{"k":1}}'))
    ((_, _, payload),) = outlet.said
    assert payload == b'{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"no","data":{"k":1}}}'


def test_a_result_that_cannot_be_translated_is_an_error() -> None:
    call, _, outlet = opened()
    call._upstream_era = eras.MODERN
    call.answered(answer(b'"result":{"resultType":"input_required"}'))
    ((_, _, payload),) = outlet.said
    assert isinstance(payload, bytes)
    assert json.loads(payload)["error"]["code"] == -32603


def test_progress_goes_out_under_the_client_s_token_while_the_call_is_open() -> None:
    call, _, outlet = opened()
    call.progressed({"progressToken": Raw(b"9"), "progress": Raw(b"1")})
    assert outlet.said == []
    call.progress_token = Raw(b'"mine"')
    call.progressed({"progressToken": Raw(b"9"), "progress": Raw(b"0.5")})
    ((_, payload, topic),) = outlet.said
    assert isinstance(payload, bytes)
    assert (json.loads(payload)["params"], topic) == ({"progressToken": "mine", "progress": 0.5}, None)
    call.close(b"{}")
    call.progressed({"progressToken": Raw(b"9"), "progress": Raw(b"1")})
    assert len(outlet.said) == 2


def test_a_subscription_tags_everything_with_its_id() -> None:
    member, outlet = session()
    listen = Listen(member, b'"s1"', tools=True)
    listen.acknowledge()
    listen.tools_changed()
    listen.complete()
    payloads = [item[1] for item in outlet.said]
    found = [json.loads(payload) for payload in payloads if isinstance(payload, bytes)]
    assert [message.get("method") for message in found] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        None,
    ]
    metas = [(message.get("params") or message["result"])["_meta"] for message in found]
    assert metas == [{eras.SUBSCRIPTION_ID_KEY: "s1"}] * 3
    assert found[2]["id"] == "s1"


def test_notices_of_different_subscriptions_are_different_topics() -> None:
    member, outlet = session()
    for id in (b"1", b'"1"'):
        Listen(member, id, tools=True).tools_changed()
    assert len({item[2] for item in outlet.said}) == 2


def test_a_subscription_that_did_not_ask_for_tools_hears_nothing_of_them() -> None:
    member, outlet = session()
    Listen(member, b"1", tools=False).tools_changed()
    assert outlet.said == []


def test_the_refusal_to_run_twice_names_the_tool_and_says_why() -> None:
    words = str(unrepeatable("pay"))
    assert "'pay'" in words
    assert "may or may not have run" in words


def test_the_key_of_a_subscription_fits_into_a_header_whatever_its_client_calls_it() -> None:
    member, _ = session()
    keys = [Listen(member, b'"%b"' % (b"x" * size), tools=True).keep for size in (1, 5000, 5001)]
    assert all(len(key) < 300 for key in keys)
    assert len(set(keys)) == 3
