"""`hearth bridge --to` a legacy server that is strict about everything that a client has to do."""

import asyncio
import json
import signal
import threading

import pytest

from process.remote_bridge import bridge_to
from support.clients import text_of
from support.daemon import Scratch
from support.kernel import until
from support.sites.legacy import LegacySite, told
from support.sites.web import Reply, Request


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("gives_sessions", [True, False])
def test_a_client_lists_and_calls(streams: bool, gives_sessions: bool) -> None:
    with LegacySite(streams=streams, gives_sessions=gives_sessions) as site, bridge_to(site.url) as bridge:
        assert bridge.open()["serverInfo"]["name"] == "hearth"
        assert "echo" in [tool["name"] for tool in bridge.ask("tools/list")["result"]["tools"]]
        assert text_of(bridge.call("echo", text="héllo\n")) == "héllo\n"
        assert bridge.leave() == []
        until(lambda: len(site.deleted) == gives_sessions, "the session was given back")
        assert bridge.stderr() == ""


def test_everything_may_be_written_at_once() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        bridge.send(
            {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            *({"jsonrpc": "2.0", "id": id, "method": "tools/list"} for id in ("b", 3, "3")),
        )
        assert {(type(message["id"]), message["id"]) for message in bridge.leave()} == {
            (str, "a"), (str, "b"), (int, 3), (str, "3"),
        }  # fmt: skip


def test_a_socket_is_as_good_as_a_port() -> None:
    with Scratch() as scratch:
        path = str(scratch.home / "site.sock")
        with LegacySite(unix=path, path="/elsewhere?key=1") as site, bridge_to(site.url, scratch=scratch) as bridge:
            bridge.open()
            assert text_of(bridge.call("echo", text="over a socket")) == "over a socket"
            assert site.requests[0].headers["host"] == "localhost"
            [session] = scratch.status()["sessions"]
            assert session["server"] == session["to"]["name"] == f"to:unix:{path}"


def test_progress_and_messages_come_in_order_and_before_the_answer() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        bridge.begin("tools/call", name="report", arguments={}, _meta={"progressToken": "t"})
        found = [bridge.read() for _ in range(3)]
        assert [message.get("method") for message in found] == ["notifications/message", "notifications/progress", None]


def test_the_client_is_asked_and_its_answer_goes_up() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        id = bridge.begin("tools/call", name="ask", arguments={})
        question = bridge.next_called("elicitation/create")
        result = {"action": "accept", "content": {"name": "Ada"}}
        bridge.send({"jsonrpc": "2.0", "id": question["id"], "result": result})
        assert text_of(bridge.answer_to(id)) == "hello Ada"


def test_what_no_request_is_the_reason_of_comes_by_its_own_stream_also_when_that_broke() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        bridge.ask("tools/list")
        until(lambda: site.listening, "the stream is open")
        site.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, id="first")
        bridge.next_called("notifications/tools/list_changed")
        site.break_listeners()
        until(lambda: len(site.seen("GET")) == 2 and site.listening, "the stream is open again")
        assert site.seen("GET")[1].headers["last-event-id"] == "first"
        site.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        bridge.next_called("notifications/tools/list_changed")


def test_a_server_without_that_stream_is_not_asked_again() -> None:
    with LegacySite(listens=False) as site, bridge_to(site.url) as bridge:
        bridge.open()
        until(lambda: site.seen("GET"), "it was asked for")
        assert text_of(bridge.call("echo", text="all the same")) == "all the same"
        bridge.leave()
        assert len(site.seen("GET")) == 1


def test_a_client_that_begins_anew_leaves_no_session_behind() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        bridge.call("echo", text="x")
        bridge.open()
        assert text_of(bridge.call("echo", text="y")) == "y"
        bridge.leave()
        until(lambda: sorted(site.deleted) == sorted(site.sessions_given), "every session was given back")


def test_a_lost_session_is_renewed_once_for_all_who_notice() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        assert bridge.ask("logging/setLevel", level="debug")["result"] == {}
        bridge.ask("tools/list")
        site.expire()
        ids = [bridge.begin("tools/call", name="echo", arguments={"text": str(number)}) for number in range(20)]
        assert [text_of(bridge.answer_to(id)) for id in ids] == [str(number) for number in range(20)]
        assert len(site.seen("initialize")) == 2
        assert len(site.sessions) == 1 and len(told(site, "notifications/initialized")) == 1
        # The level is set in the new session, too.
        assert site.seen("initialize")[1] in site.requests[: site.requests.index(site.seen("logging/setLevel")[-1])]
        # The client had its answer to `initialize`; it is told that the lists may be others now.
        bridge.next_called("notifications/tools/list_changed")
        assert [message for message in bridge.leave() if "result" in message] == []


def test_a_server_that_wants_a_session_by_400_gets_one() -> None:
    with LegacySite(to_strangers=400) as site, bridge_to(site.url) as bridge:
        bridge.open()
        bridge.call("echo", text="x")
        site.unknown_status = 400
        site.expire()
        assert text_of(bridge.call("echo", text="again")) == "again"
        assert len(site.seen("initialize")) == 2


def test_a_session_that_is_lost_for_good_is_an_error_and_the_bridge_goes_on() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        site.refuses_sessions = True
        site.expire()
        answer = bridge.call("echo", text="x")
        assert answer["error"]["code"] == -32603 and "HTTP 503" in answer["error"]["message"]
        site.refuses_sessions = False
        assert text_of(bridge.call("echo", text="back")) == "back"


def test_a_session_that_is_lost_at_once_again_is_said_to_be_that() -> None:
    class Losing(LegacySite):
        """Keeps no session for longer than the handshake."""

        async def serve(self, request: Request, reply: Reply) -> None:
            if b'"tools/call"' in request.body:
                await reply.send(404)
            else:
                await super().serve(request, reply)

    with Losing() as site, bridge_to(site.url) as bridge:
        bridge.open()
        assert "lost the session again" in bridge.call("echo", text="x")["error"]["message"]
        assert len(site.seen("initialize")) == 2


def test_whoever_waited_for_a_new_session_may_find_that_one_lost_as_well() -> None:
    class Forgetful(LegacySite):
        """Is slow to begin another session, and loses that one, too."""

        def __init__(self) -> None:
            super().__init__()
            self.may_begin = threading.Event()
            self.may_begin.set()

        async def serve(self, request: Request, reply: Reply) -> None:
            if b'"initialize"' in request.body:
                while not self.may_begin.is_set():
                    await asyncio.sleep(0.01)
            if b'"waiting"' in request.body and len(self.seen("initialize")) == 2:
                self.expire()
            await super().serve(request, reply)

    with Forgetful() as site, bridge_to(site.url) as bridge:
        bridge.open()
        assert text_of(bridge.call("echo", text="x")) == "x"
        site.expire()
        site.may_begin.clear()
        first = bridge.begin("tools/call", name="echo", arguments={"text": "first"})
        until(lambda: len(site.seen("initialize")) == 2, "another session is begun")
        second = bridge.begin("tools/call", name="echo", arguments={"text": "waiting"})
        # By its answer the line before it has long been read.
        bridge.ask("ping")
        site.may_begin.set()
        assert text_of(bridge.answer_to(second)) == "waiting"
        # Which has been lost once already, and may have come too late again.
        bridge.answer_to(first)
        assert len(site.seen("initialize")) == 3


def test_a_stream_that_broke_is_taken_up_where_it_was() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        assert text_of(bridge.call("drop")) == "resumed"
        assert len([message for message in bridge.aside if message["method"] == "notifications/message"]) == 2
        assert text_of(bridge.call("poll")) == "polled"
        assert len(site.seen("tools/call")) == 2


def test_a_call_whose_stream_is_lost_is_not_sent_again() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        site.names.append("silent")
        bridge.open()
        answer = bridge.call("lose")
        assert answer["error"]["code"] == -32603 and "may or may not have been done" in answer["error"]["message"]
        assert len(site.seen("tools/call")) == 1
        assert "may or may not have been done" in bridge.call("silent")["error"]["message"]


@pytest.mark.parametrize("is_on_socket", [True, False])
def test_a_call_whose_connection_breaks_before_the_answer_is_in_doubt_and_not_sent_again(is_on_socket: bool) -> None:
    class Vanishing(LegacySite):
        """Takes a call and breaks the connection."""

        async def _tool_vanish(self, session: object, message: object, reply: Reply) -> None:
            reply.break_off()

    with Scratch() as scratch:
        place = str(scratch.home / "site.sock") if is_on_socket else None
        with Vanishing(unix=place) as site, bridge_to(site.url, scratch=scratch) as bridge:
            site.names.append("vanish")
            bridge.open()
            assert "may or may not have been done" in bridge.call("vanish")["error"]["message"]
            assert len(site.seen("tools/call")) == 1


def test_a_cancelled_request_is_told_to_the_server_and_gets_no_answer() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        id = bridge.begin("tools/call", name="hang", arguments={})
        bridge.next_called("notifications/message")
        bridge.cancel(id)
        until(lambda: site.withdrawn, "the server was told")
        [withdrawn] = site.withdrawn
        assert withdrawn["reason"] == "enough"
        assert text_of(bridge.call("echo", text="on")) == "on"
        assert bridge.leave() == []


def test_answers_in_an_array_are_messages_like_others() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        assert text_of(bridge.call("batch")) == "batched"
        assert bridge.next_called("notifications/message")


def test_what_is_no_message_is_not_passed_on() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        assert text_of(bridge.call("garbage")) == "after all"
        assert bridge.aside == []


def test_refusals_are_answers() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        site.names += ["refuse", "answer", "page"]
        bridge.open()
        assert bridge.call("refuse", status=400)["error"] == {"code": -32602, "message": "not like this"}
        for status, words in (
            (502, "cannot reach it"),
            (405, "no MCP at this address; check the address after --to"),
            (418, "no MCP at this address; check the address after --to"),
            (401, "--header 'Authorization"),
            (403, "--header"),
        ):
            answer = bridge.call("answer", status=status)
            assert answer["error"]["code"] == -32603
            assert f"HTTP {status}" in answer["error"]["message"] and words in answer["error"]["message"]
            assert "secret words" not in json.dumps(answer) and "entry" not in json.dumps(answer)
        assert "text/html" in bridge.call("page")["error"]["message"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_whoever_is_told_to_end_gives_its_session_back(number: signal.Signals) -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        bridge.call("echo", text="x")
        bridge.child.send_signal(number)
        assert bridge.wait() == -number
        until(lambda: len(site.deleted) == 1, "the session was given back")


def test_what_is_pending_at_the_end_of_the_input_is_delivered() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        ids = [bridge.begin("tools/call", name="poll", arguments={}) for _ in range(40)]
        rest = bridge.leave()
        assert sorted(message["id"] for message in rest if "result" in message) == ids
        # Each of their streams was taken up once, on a connection of its own, and said two things.
        assert len(rest) == 2 * len(ids)
        assert len([request for request in site.seen("GET") if "last-event-id" in request.headers]) == len(ids)
        until(lambda: len(site.deleted) == 1, "the session was given back")


def test_what_never_comes_is_given_up_a_while_after_the_end_of_the_input() -> None:
    with LegacySite() as site, bridge_to(site.url, extra={"HEARTH_BRIDGE_EOF_GRACE": "0.3"}) as bridge:
        bridge.open()
        id = bridge.begin("tools/call", name="hang", arguments={})
        bridge.next_called("notifications/message")
        [answer] = bridge.leave()
        assert answer["id"] == id and "input ended" in answer["error"]["message"]
        until(lambda: len(site.deleted) == 1, "the session was given back")
