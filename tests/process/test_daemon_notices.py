"""What is said besides answers, in both eras: progress, cancellation, changes of what is offered, subscriptions."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from support.clients import PREFIX, Client, FramesClient, Message, modern, text_of
from support.daemon import Scratch, server
from support.eras import CHANGED, Speaker, opened, received
from support.kernel import is_gone, pids_at_home, until
from support.scripted_daemon import BridgeProcess

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"

# Which of the servers that keep what they received.


@pytest.fixture(params=["old", "new"])
def upstream(request: pytest.FixtureRequest) -> str:
    return request.param


# --- progress


@pytest.mark.parametrize("token", ["mine", 7, "7", 0])
def test_progress_of_a_legacy_server_comes_under_the_client_s_own_token(
    both: Scratch, wire: str, era: str, token: object
) -> None:
    speaker, other = Speaker(opened(both, wire), era), both.lines()
    speaker.begin_call(
        "count__read", 1, arguments={"key": "p", "delay": 60, "steps": 2}, _meta={"progressToken": token}
    )
    assert text_of(speaker.client.answer_to(1)) == "read p"
    notices = [message for message in speaker.client.aside if message.get("method") == "notifications/progress"]
    assert [notice["params"]["progress"] for notice in notices] == [1, 2]
    assert {json.dumps(notice["params"]["progressToken"]) for notice in notices} == {json.dumps(token)}
    assert other.ask("ping")["result"] == {}
    assert other.aside == []


def test_progress_of_a_modern_server_comes_under_the_client_s_own_token(both: Scratch, speaker: Speaker) -> None:
    other = Speaker(both.lines(), speaker.era)
    other.begin_call("new__wait", 1, _meta={"progressToken": "t"})
    assert other.client.next_called("notifications/progress")["params"] == {"progressToken": "t", "progress": 1}
    speaker.begin_call("new__wait", 1, _meta={"progressToken": "t"})
    assert speaker.client.next_called("notifications/progress")["params"] == {"progressToken": "t", "progress": 1}
    for one in (speaker, other):
        one.cancel(1)
        assert one.ask("tools/list")["result"]["tools"]
        assert one.client.aside == []


# --- cancellation


def test_a_cancelled_call_is_withdrawn_upstream_and_nothing_more_is_sent_for_it(
    both: Scratch, wire: str, era: str, upstream: str
) -> None:
    speaker = Speaker(opened(both, wire), era)
    tool = "old__hold" if upstream == "old" else "new__wait"
    speaker.begin_call(tool, "c", arguments={"mark": f"{wire}{era}"})

    def sent() -> Message | None:
        calls = [message for message in received(both, upstream) if message.get("method") == "tools/call"]
        return calls[-1] if calls and calls[-1]["params"].get("arguments") == {"mark": f"{wire}{era}"} else None

    call = until(sent, "the server has the call")
    assert call is not None
    number = call["id"]
    speaker.cancel("c")

    def withdrawn() -> bool:
        last = received(both, upstream)[-1]
        return bool(last.get("method") == "notifications/cancelled" and last["params"]["requestId"] == number)

    until(withdrawn, "the server is told")
    assert received(both, upstream)[-1]["params"]["reason"] == "not needed"
    # The id is free again, and its one answer is that of the second request.
    speaker.begin_call("old__echo", "c")
    assert text_of(speaker.client.answer_to("c")) == "heard"
    assert speaker.client.aside == []
    if isinstance(speaker.client, FramesClient):
        done = [seq for header in speaker.client.headers for seq in header.get("done", [])]
        assert len(done) == len(set(done))


def test_an_answer_that_comes_after_the_cancel_is_dropped(both: Scratch) -> None:
    client = both.lines()
    client.begin_call("count__read", id=1, key="late", delay=50)
    client.notify("notifications/cancelled", {"requestId": 1})
    assert text_of(client.call("count__read", key="other", delay=300)) == "read other"
    assert client.aside == []


def test_a_cancel_of_nothing_and_one_of_another_session_s_call_do_nothing(both: Scratch) -> None:
    first, second = both.lines(), both.frames()
    first.begin_call("count__read", id=1, key="mine", delay=300)
    second.notify("notifications/cancelled", {"requestId": 1})
    second.notify("notifications/cancelled", {"requestId": "none"})
    second.notify("notifications/cancelled", {})
    assert second.ask("ping", id="p")["result"] == {}
    assert text_of(first.answer_to(1)) == "read mine"


# --- changes of the list


def grow(client: Client, upstream: str, name: str) -> None:
    if upstream == "old":
        client.call("change__grow", name=name)
    else:
        client.call("new__grow")


def test_a_legacy_client_hears_of_a_change_by_a_notification(both: Scratch, wire: str, upstream: str) -> None:
    client, other = opened(both, wire), both.lines()
    client.initialize()
    before = client.tools()
    grow(other, upstream, f"leaf-{wire}")
    assert client.next_called(CHANGED) == {"jsonrpc": "2.0", "method": CHANGED}
    assert len(client.tools()) == len(before) + 1


def test_a_modern_client_hears_of_a_change_on_its_subscription(both: Scratch, wire: str, upstream: str) -> None:
    client, other = opened(both, wire), both.lines()
    client.ask("tools/list", modern())
    client.begin("subscriptions/listen", modern(notifications={"toolsListChanged": True}), id="sub")
    acknowledged = client.receive()
    assert acknowledged["method"] == ACKNOWLEDGED
    assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
    assert acknowledged["params"]["_meta"] == {f"{PREFIX}subscriptionId": "sub"}
    grow(other, upstream, f"twig-{wire}")
    assert client.next_called(CHANGED)["params"]["_meta"] == {f"{PREFIX}subscriptionId": "sub"}


def test_each_subscription_gets_its_own_notice_and_a_cancelled_one_gets_none(both: Scratch) -> None:
    client, other = both.lines(), both.lines()
    client.ask("tools/list", modern())
    for id in (1, "two", 3):
        client.begin("subscriptions/listen", modern(notifications={"toolsListChanged": True}), id=id)
        assert client.next_called(ACKNOWLEDGED)["params"]["_meta"][f"{PREFIX}subscriptionId"] == id
    client.notify("notifications/cancelled", {"requestId": "two"})
    grow(other, "old", "branch")
    heard = [client.next_called(CHANGED)["params"]["_meta"][f"{PREFIX}subscriptionId"] for _ in range(2)]
    assert heard == [1, 3]
    assert client.ask("server/discover", modern(), id="end")["result"]
    assert client.aside == []


@pytest.mark.parametrize(
    ("wanted", "honoured"),
    [
        ({"promptsListChanged": True}, {"promptsListChanged": True}),
        ({"resourcesListChanged": True, "madeUp": True}, {"resourcesListChanged": True}),
        ({"madeUp": True}, {}),
        ({"toolsListChanged": False}, {}),
    ],
)
def test_what_was_not_asked_for_is_not_honoured_and_not_told(both: Scratch, wanted: Message, honoured: Message) -> None:
    client, other = both.lines(), both.lines()
    client.ask("tools/list", modern())
    client.begin("subscriptions/listen", modern(notifications=wanted), id=1)
    assert client.next_called(ACKNOWLEDGED)["params"]["notifications"] == honoured
    other.begin("subscriptions/listen", modern(notifications={"toolsListChanged": True}), id="witness")
    other.next_called(ACKNOWLEDGED)
    grow(other, "old", f"root-{len(wanted)}-{next(iter(wanted))}")
    other.next_called(CHANGED)
    assert client.ask("server/discover", modern(), id="end")["result"]
    assert client.aside == []


def test_a_second_subscription_under_an_id_in_use_is_refused(both: Scratch) -> None:
    client = both.lines()
    for _ in range(2):
        client.begin("subscriptions/listen", modern(notifications={"toolsListChanged": True}), id=1)
    client.next_called(ACKNOWLEDGED)
    assert client.answer_to(1)["error"]["code"] == -32600


def test_a_subscription_without_a_wish_is_bad_params(both: Scratch) -> None:
    assert both.lines().ask("subscriptions/listen", modern())["error"]["code"] == -32602


def test_a_bridge_keeps_a_subscription_until_it_is_cancelled(both: Scratch) -> None:
    client = both.frames()
    client.begin("subscriptions/listen", modern(notifications={"toolsListChanged": True}), id=1)
    client.next_called(ACKNOWLEDGED)
    client.notify("notifications/cancelled", {"requestId": 1})
    client.ask("server/discover", modern(), id="end")
    while not any("drop" in header for header in client.headers):
        client.receive_frame()
    (key,) = next(header["keep"] for header in client.headers if isinstance(header.get("keep"), dict))
    assert [header["drop"] for header in client.headers if "drop" in header] == [[key]]


def test_a_subscription_that_is_cancelled_and_wanted_again_in_one_breath_is_kept(both: Scratch) -> None:
    client = both.frames()
    wish = modern(notifications={"toolsListChanged": True})
    client.begin("subscriptions/listen", wish, id=1)
    client.next_called(ACKNOWLEDGED)
    client.ask("server/discover", modern(), id="before")
    pid = both.status()["pid"]
    # The daemon reads both lines at once when it goes on.
    os.kill(pid, signal.SIGSTOP)
    try:
        client.notify("notifications/cancelled", {"requestId": 1})
        client.begin("subscriptions/listen", wish, id=1)
    finally:
        os.kill(pid, signal.SIGCONT)
    client.next_called(ACKNOWLEDGED)
    while not any(client.seq in header.get("done", ()) for header in client.headers):
        client.receive_frame()
    last = next(header for header in reversed(client.headers) if header.get("keep") or header.get("drop"))
    assert (list(last["keep"].values()), last.get("drop", [])) == ([client.seq], [])


def test_a_burst_of_notices_about_nothing_tells_nobody(both: Scratch) -> None:
    client, other = both.lines(), both.lines()
    client.initialize()
    client.tools()
    other.call("change__burst", count=50)
    # The next real change is the first that is told.
    grow(other, "old", "blossom")
    client.next_called(CHANGED)
    assert "change__blossom" in client.tools()
    assert [message for message in client.aside if message.get("method") == CHANGED] == []


def test_a_client_that_never_asked_for_the_list_is_not_told_of_changes(both: Scratch) -> None:
    client, other = both.lines(), both.lines()
    client.initialize()
    other.initialize()
    other.tools()
    grow(other, "old", "moss")
    other.next_called(CHANGED)
    assert client.ask("ping")["result"] == {}
    assert client.aside == []


ON_SUB = {f"{PREFIX}subscriptionId": "sub"}


def request(id: object, method: str, **params: object) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": modern(**params)}


def listen(**wanted: bool) -> Message:
    return request("sub", "subscriptions/listen", notifications=wanted or {"toolsListChanged": True})


@pytest.fixture
def started(scratch: Scratch) -> Scratch:
    """A daemon with a server that changes."""
    scratch.serve({"change": server("changing")})
    return scratch


def test_a_replayed_subscription_is_told_of_a_change_at_once_and_not_acknowledged_again(started: Scratch) -> None:
    client = started.frames()
    client.send_line(json.dumps(listen()).encode(), replay=True)
    heard = client.receive()
    assert (heard["method"], heard["params"]["_meta"]) == (CHANGED, ON_SUB)
    assert client.ask("server/discover", modern(), id="end")["result"]
    assert client.aside == []
    (key,) = next(header["keep"] for header in client.headers if "keep" in header)
    assert "sub" in key


def test_a_replayed_subscription_to_nothing_is_told_nothing(started: Scratch) -> None:
    client = started.frames()
    client.send_line(json.dumps(listen(madeUp=True)).encode(), replay=True)
    assert client.ask("server/discover", modern(), id="end")["result"]
    assert client.aside == []


def test_a_replayed_subscription_is_told_of_later_changes_too(started: Scratch) -> None:
    client, other = started.frames(), started.lines()
    other.tools()
    client.send_line(json.dumps(listen()).encode(), replay=True)
    client.next_called(CHANGED)
    other.call("change__grow", name="later")
    assert client.next_called(CHANGED)["params"]["_meta"] == ON_SUB


def test_a_subscription_that_is_sent_again_is_acknowledged(started: Scratch) -> None:
    client = started.frames()
    client.send_line(json.dumps(listen()).encode(), resent=True)
    heard = client.receive()
    assert (heard["method"], heard["params"]["_meta"]) == (ACKNOWLEDGED, ON_SUB)
    assert client.ask("server/discover", modern(), id="end")["result"]
    assert client.aside == []


def test_a_subscriber_that_never_listed_is_told_of_changes(started: Scratch, wire: str) -> None:
    client = started.lines() if wire == "lines" else started.frames()
    client.send(listen())
    client.next_called(ACKNOWLEDGED)
    other = started.lines()
    other.tools()
    client.next_called(CHANGED)
    other.call("change__grow", name="twig")
    assert client.next_called(CHANGED)["params"]["_meta"] == ON_SUB


def test_a_subscriber_that_never_listed_is_told_of_a_server_that_a_reload_adds(started: Scratch) -> None:
    client = started.frames()
    client.send(listen())
    client.next_called(ACKNOWLEDGED)
    started.reconfigure({"change": server("changing"), "echo": server("echo")})
    assert client.next_called(CHANGED)["params"]["_meta"] == ON_SUB
    tools = client.ask("tools/list", modern())["result"]["tools"]
    assert "echo__echo" in [tool["name"] for tool in tools]


# --- with the real bridge


@pytest.fixture
def bridge(started: Scratch) -> Iterator[BridgeProcess]:
    """A bridge; the daemons that it starts go with it."""
    opened = BridgeProcess(started.home, environment=started.environment())
    try:
        yield opened
    finally:
        opened.close()
        if pids_at_home(str(started.home)):
            started.control().control("shutdown")
            until(lambda: not pids_at_home(str(started.home)), "the last daemon has gone")


def next_called(bridge: BridgeProcess, method: str) -> Message:
    """The next message, which must be that notification: nothing else has any business here."""
    message: Message = bridge.read()
    assert message.get("method") == method, message
    return message


def test_a_bridge_carries_a_subscription_over_the_death_of_its_daemon(started: Scratch, bridge: BridgeProcess) -> None:
    bridge.send(request(1, "tools/list"))
    assert "result" in bridge.read()
    bridge.send(listen())
    next_called(bridge, ACKNOWLEDGED)
    pid = started.status()["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(pid), "the daemon is dead")
    assert next_called(bridge, CHANGED)["params"]["_meta"] == ON_SUB
    bridge.send(request(2, "tools/list"))
    # The first list of the new daemon is a change, too, and may be told before it is given.
    while (message := bridge.read()).get("id") != 2:
        assert message["method"] == CHANGED
    started.lines().call("change__grow", name="twig")
    assert next_called(bridge, CHANGED)["params"]["_meta"] == ON_SUB
