"""`hearth bridge --to` a modern server that is strict about everything that a client has to do."""

import pytest

from process.remote_bridge import bridge_to
from support.clients import ENVELOPE, text_of
from support.conformance.revisions import SUBSCRIPTION_KEY
from support.kernel import until
from support.sites.legacy import LegacySite
from support.sites.modern import ModernSite


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_discovers_lists_and_calls(streams: bool) -> None:
    with ModernSite(streams=streams) as site, bridge_to(site.url) as bridge:
        assert bridge.ask("server/discover", _modern=True)["result"]["supportedVersions"] == ["2026-07-28"]
        listed = [tool["name"] for tool in bridge.ask("tools/list", _modern=True)["result"]["tools"]]
        assert sorted(listed) == ["echo", "hang", "locate", "report"]
        assert text_of(bridge.call_modern("echo", text="hi")) == "hi"
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
        # The first list told of it; the refusal makes for a second.
        assert [len(site.seen(method)) for method in ("tools/list", "tools/call")] == [2, 3]


def test_a_cancelled_request_is_a_stream_that_is_closed() -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        id = bridge.begin("tools/call", _modern=True, name="hang", arguments={})
        until(lambda: site.seen("tools/call"), "the call is there")
        bridge.cancel(id)
        until(lambda: site.closed, "the stream was closed")
        # The id is free again.
        bridge.send(
            {"jsonrpc": "2.0", "id": id, "method": "tools/call",
             "params": {"name": "echo", "arguments": {"text": "on"}, "_meta": ENVELOPE}},
        )  # fmt: skip
        assert text_of(bridge.answer_to(id)) == "on"
        assert bridge.leave() == []
        # No notification went up: the site would have complained.


def test_errors_of_the_server_are_answers() -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        site.names += ["forbid", "lose"]
        assert bridge.ask("nothing/known", _modern=True)["error"]["code"] == -32601
        refused = bridge.ask("tools/call", name="forbid", arguments={"status": 400}, _modern=True)["error"]
        assert refused == {"code": -32000, "message": "who are you?"}
        lost = bridge.call_modern("lose")["error"]
        assert lost["code"] == -32603 and "may or may not have been done" in lost["message"]
        assert len(site.seen("tools/call")) == 2


def test_a_modern_client_on_a_legacy_server_needs_no_fall_back() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        assert "result" in bridge.ask("server/discover", _modern=True)
        assert text_of(bridge.call_modern("echo", text="modern")) == "modern"
        bridge.open()
        assert text_of(bridge.call("echo", text="legacy")) == "legacy"


def test_both_eras_on_one_bridge() -> None:
    with ModernSite(dual=True) as site, bridge_to(site.url) as bridge:
        assert text_of(bridge.call_modern("echo", text="modern")) == "modern"
        bridge.open()
        assert text_of(bridge.call("echo", text="legacy")) == "legacy"
        assert text_of(bridge.call_modern("echo", text="modern again")) == "modern again"
        bridge.leave()
        until(lambda: sorted(site.deleted) == sorted(site.sessions_given), "every session was given back")


def test_a_subscription_stays_open_and_is_ended_by_the_client() -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        bridge.ask("tools/list", _modern=True)
        id = bridge.begin("subscriptions/listen", _modern=True, notifications={"toolsListChanged": True})
        bridge.next_called("notifications/subscriptions/acknowledged")
        until(lambda: site.listens, "the server is listened to")
        site.names.append("new")
        site.tell("notifications/tools/list_changed", _meta={SUBSCRIPTION_KEY: site.listens[0].number})  # type: ignore[attr-defined]
        assert bridge.next_called("notifications/tools/list_changed")["params"]["_meta"][SUBSCRIPTION_KEY] == id
        assert text_of(bridge.call_modern("echo", text="beside it")) == "beside it"
        bridge.cancel(id)
        assert text_of(bridge.call_modern("echo", text="after it")) == "after it"
        assert bridge.leave() == []
        until(lambda: site.closed, "the stream was closed")


@pytest.mark.parametrize("properly", [True, False])
def test_a_subscription_outlives_the_servers_stream_and_tells_what_was_missed(properly: bool) -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        bridge.ask("tools/list", _modern=True)
        id = bridge.begin("subscriptions/listen", _modern=True, notifications={"toolsListChanged": True})
        bridge.next_called("notifications/subscriptions/acknowledged")
        until(lambda: site.listens, "the server is listened to")
        site.names.append("new")
        site.hang_up(properly)
        assert bridge.next_called("notifications/tools/list_changed")["params"]["_meta"] == {SUBSCRIPTION_KEY: id}
        assert "new" in [tool["name"] for tool in bridge.ask("tools/list", _modern=True)["result"]["tools"]]
        bridge.cancel(id)
        assert bridge.leave() == []
