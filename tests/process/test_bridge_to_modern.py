"""`hearth bridge --to` a modern server that is strict about everything that a client has to do."""

import pytest

from process.remote_bridge import KEY, META, bridge_to, text_of
from support.kernel import until
from support.sites.legacy import LegacySite
from support.sites.modern import ModernSite


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_discovers_lists_and_calls(streams: bool) -> None:
    with ModernSite(streams=streams) as site, bridge_to(site.url) as bridge:
        assert bridge.ask("server/discover", _modern=True)["result"]["supportedVersions"] == ["2026-07-28"]
        assert bridge.ask("tools/list", _modern=True)["result"]["tools"][0]["name"] == "locate"
        assert text_of(bridge.call_modern("echo", text="hi")) == "hi"
        read = bridge.ask("resources/read", _modern=True, uri="file:///ä ö")
        assert read["result"]["contents"][0]["text"] == "read"
        assert bridge.leave() == []
        assert bridge.stderr() == ""
        # No session, and so nothing to give back.
        assert {request.method for request in site.requests} == {"POST"}


@pytest.mark.parametrize("region", ["eu", "  spaces ", "größe", "=?base64?eA==?=", ""])
def test_an_argument_that_a_tool_wants_in_a_header_is_there(region: str) -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        bridge.ask("tools/list", _modern=True)
        assert text_of(bridge.call_modern("locate", region=region)) == region
        assert text_of(bridge.call_modern("locate")) == "None"
        assert len(site.seen("tools/list")) == 1


def test_a_header_of_which_nobody_was_told_is_learned_by_the_refusal() -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        assert text_of(bridge.call_modern("locate", region="eu")) == "eu"
        site.header = "Zone"
        assert text_of(bridge.call_modern("locate", region="us")) == "us"
        assert [len(site.seen(method)) for method in ("tools/list", "tools/call")] == [2, 4]


def test_a_cancelled_request_is_a_stream_that_is_closed() -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        id = bridge.begin("tools/call", _modern=True, name="hang", arguments={})
        bridge.next_called("notifications/message")
        bridge.cancel(id)
        until(lambda: site.closed, "the stream was closed")
        # The id is free again.
        bridge.send(
            {"jsonrpc": "2.0", "id": id, "method": "tools/call",
             "params": {"name": "echo", "arguments": {"text": "on"}, "_meta": META}},
        )  # fmt: skip
        assert text_of(bridge.answer_to(id)) == "on"
        assert bridge.leave() == []
        # No notification went up: the site would have complained.


def test_errors_of_the_server_are_answers() -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        assert bridge.ask("nothing/known", _modern=True)["error"]["code"] == -32601
        refused = bridge.ask("tools/call", name="forbid", arguments={"status": 400}, _modern=True)["error"]
        assert refused == {"code": -32000, "message": "who are you?"}
        lost = bridge.call_modern("lose")["error"]
        assert lost["code"] == -32603 and "may or may not have run" in lost["message"]
        assert len(site.seen("tools/call")) == 2


def test_a_version_that_the_server_does_not_know_is_told_with_those_that_it_does() -> None:
    with ModernSite(supported=("2027-01-01",)) as site, bridge_to(site.url) as bridge:
        error = bridge.ask("server/discover", _modern=True)["error"]
        assert (error["code"], error["data"]["supported"]) == (-32022, ["2027-01-01"])


def test_a_client_that_finds_no_modern_server_falls_back() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        assert bridge.ask("server/discover", _modern=True)["error"]["code"] == -32000
        bridge.open()
        assert text_of(bridge.call("echo", text="legacy")) == "legacy"


def test_both_eras_on_one_bridge() -> None:
    with ModernSite(dual=True) as site, bridge_to(site.url) as bridge:
        assert text_of(bridge.call_modern("echo", text="modern")) == "modern"
        bridge.open()
        assert text_of(bridge.call("echo", text="legacy")) == "legacy"
        assert text_of(bridge.call_modern("echo", text="modern again")) == "modern again"
        bridge.leave()
        assert len(site.deleted) == 1


def test_a_subscription_stays_open_and_is_ended_by_the_client() -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        id = bridge.begin("subscriptions/listen", _modern=True, notifications={"toolsListChanged": True})
        bridge.next_called("notifications/subscriptions/acknowledged")
        site.tell("notifications/tools/list_changed", _meta={f"{KEY}subscriptionId": id})
        assert bridge.next_called("notifications/tools/list_changed")["params"]["_meta"][f"{KEY}subscriptionId"] == id
        assert text_of(bridge.call_modern("echo", text="beside it")) == "beside it"
        bridge.cancel(id)
        until(lambda: site.closed, "the stream was closed")
        assert bridge.leave() == []


def test_a_subscription_that_the_server_ends_is_over_for_the_client() -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        id = bridge.begin("subscriptions/listen", _modern=True, notifications={})
        bridge.next_called("notifications/subscriptions/acknowledged")
        site.hang_up(properly=True)
        assert bridge.answer_to(id)["result"]["resultType"] == "complete"


def test_a_subscription_that_broke_is_opened_again_and_tells_what_may_have_been_missed() -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        site.honoured = {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]}
        id = bridge.begin("subscriptions/listen", _modern=True, notifications={"toolsListChanged": True})
        bridge.next_called("notifications/subscriptions/acknowledged")
        site.hang_up(properly=False)
        assert bridge.next_called("notifications/tools/list_changed")["params"]["_meta"] == {f"{KEY}subscriptionId": id}
        assert bridge.next_called("notifications/resources/updated")["params"]["uri"] == "file:///a"
        until(lambda: site.listens, "it is open again")
        # Also when the server was away for a while.
        site.close()
        site.open()
        bridge.next_called("notifications/tools/list_changed")
        bridge.next_called("notifications/resources/updated")
        assert bridge.leave() == []
