"""Sessions that fall silent, come back, leave, and never get what belongs to another."""

import json
from pathlib import Path

import pytest

from support.clients import Closed, FramesClient, Message, text_of
from support.daemon import Scratch, noted, server
from support.kernel import until

# Short enough for a test, long enough for a busy machine to send one in time.
HEARTBEAT_SECONDS = 0.1


def session_of(scratch: Scratch, client: FramesClient) -> Message | None:
    sessions = scratch.status()["sessions"]
    return next((item for item in sessions if item["id"] == client.session["sessionId"]), None)


def falls_silent(scratch: Scratch, client: FramesClient) -> None:
    def silent() -> bool:
        found = session_of(scratch, client)
        return found is not None and not found["active"]

    until(silent, "the session counts as silent")


def counted(scratch: Scratch) -> Path:
    """A counting server in the config; returns its ledger."""
    ledger = scratch.home / "ledger"
    scratch.serve({"count": server("counting", ledger)}, heartbeat_interval=HEARTBEAT_SECONDS)
    return ledger


def test_the_interval_of_heartbeats_is_told_to_the_bridge(scratch: Scratch) -> None:
    scratch.serve(heartbeat_interval=HEARTBEAT_SECONDS)
    assert scratch.frames().session["heartbeatSeconds"] == HEARTBEAT_SECONDS


def test_ownership_moves_on_from_a_session_without_heartbeats_to_one_that_has_them(scratch: Scratch) -> None:
    scratch.serve(heartbeat_interval=HEARTBEAT_SECONDS)
    stopped, lively = scratch.frames(), scratch.frames()

    def moved() -> bool:
        lively.heartbeat()
        return bool(scratch.status()["owner"] == lively.session["sessionId"])

    until(moved, "the lively session is the owner")
    assert lively.receive_type("ownerChanged")[0]["isOwner"] is True
    changed, _ = stopped.receive_type("ownerChanged")
    while changed["isOwner"]:
        changed, _ = stopped.receive_type("ownerChanged")
    assert changed["sessionId"] == lively.session["sessionId"]


def test_heartbeats_alone_keep_a_session_active(scratch: Scratch) -> None:
    scratch.serve(heartbeat_interval=HEARTBEAT_SECONDS)
    silent, lively = scratch.frames(), scratch.frames()

    def one_is_silent() -> bool:
        lively.heartbeat()
        found = session_of(scratch, silent)
        return found is not None and not found["active"]

    until(one_is_silent, "the other one counts as silent")
    found = session_of(scratch, lively)
    assert found is not None
    assert found["active"] is True


def test_a_silent_session_that_speaks_again_is_active_and_does_not_take_the_ownership_back(scratch: Scratch) -> None:
    first = scratch.serve(heartbeat_interval=HEARTBEAT_SECONDS).frames()
    scratch.lines().initialized()
    falls_silent(scratch, first)
    first.heartbeat()

    def back() -> bool:
        found = session_of(scratch, first)
        return found is not None and bool(found["active"])

    until(back, "the session is active again")
    found = session_of(scratch, first)
    assert found is not None
    assert found["isOwner"] is False


def test_what_is_owed_to_a_silent_session_arrives_once_when_it_reads_again(scratch: Scratch) -> None:
    counted(scratch)
    stopped = scratch.frames().initialized()
    ids = [stopped.begin_call("count__once", key=f"k{number}", delay=900 + number) for number in range(5)]
    falls_silent(scratch, stopped)
    # The calls go on, and their answers are kept.
    until(lambda: (session_of(scratch, stopped) or {}).get("inFlight") == 0, "all calls are answered")
    assert [text_of(stopped.answer_to(id)) for id in ids] == [f"once k{number}" for number in range(5)]
    assert stopped.ask("ping")["result"] == {}
    assert [message for message in stopped.aside if "method" not in message] == []


def test_the_end_of_a_connection_ends_the_session_and_cancels_its_calls_upstream(scratch: Scratch, wire: str) -> None:
    ledger = counted(scratch)
    client = scratch.lines() if wire == "lines" else scratch.frames()
    client.begin_call("count__once", key="gone", delay=60_000)
    noted(ledger, "once gone")
    client.close()
    noted(ledger, "cancelled gone")
    until(lambda: scratch.status()["sessions"] == [], "the session is gone")


def test_a_bridge_that_says_goodbye_gets_its_pending_answers_first(scratch: Scratch) -> None:
    ledger = counted(scratch)
    client = scratch.frames()
    client.begin_call("count__once", key="late", delay=300)
    client.send_frame({"type": "goodbye"})
    assert text_of(client.answer_to(1)) == "once late"
    with pytest.raises(Closed):
        client.receive_frame()
    assert "cancelled late" not in ledger.read_text()


def test_a_client_of_lines_whose_input_has_ended_gets_its_pending_answers_first(scratch: Scratch) -> None:
    counted(scratch)
    client = scratch.lines()
    client.begin_call("count__once", key="a", delay=200)
    client.begin_call("count__once", key="b", delay=100)
    client.stream.end_input()
    assert [client.receive()["id"], client.receive()["id"]] == [2, 1]
    with pytest.raises(Closed):
        client.receive()


def test_the_wait_for_pending_answers_is_bounded(scratch: Scratch, wire: str) -> None:
    ledger = scratch.home / "ledger"
    scratch.serve({"count": server("counting", ledger)}, eof_timeout=0.2)
    client = scratch.lines() if wire == "lines" else scratch.frames()
    client.begin_call("count__once", key="never", delay=60_000)
    noted(ledger, "once never")
    if isinstance(client, FramesClient):
        client.send_frame({"type": "goodbye"})
    else:
        client.stream.end_input()
    with pytest.raises(Closed):
        while True:
            client.receive()
    noted(ledger, "cancelled never")


# --- resuming


def test_a_resumed_session_keeps_its_id_and_replaces_the_former_connection(scratch: Scratch) -> None:
    scratch.start()
    former = scratch.frames()
    resume = {key: former.session[key] for key in ("sessionId", "secret")}
    again = scratch.frames(resume=resume)
    assert again.session["sessionId"] == former.session["sessionId"]
    with pytest.raises(Closed):
        while True:
            former.receive_frame()
    (only,) = scratch.status()["sessions"]
    assert only["isOwner"] is True


def test_a_session_cannot_be_taken_over_without_its_secret(scratch: Scratch) -> None:
    scratch.start()
    former = scratch.frames()
    thief = scratch.frames(resume={"sessionId": former.session["sessionId"], "secret": "guess"})
    assert thief.session["sessionId"] != former.session["sessionId"]
    assert thief.session["isOwner"] is False
    assert former.ask("ping")["result"] == {}


@pytest.mark.parametrize("mark", ["resent", "replay"])
def test_a_resent_or_replayed_call_runs_only_where_the_tool_is_safe_to_repeat(scratch: Scratch, mark: str) -> None:
    ledger = counted(scratch)
    client = scratch.frames()
    for number, tool in enumerate(("read", "put", "once"), 1):
        params = {"name": f"count__{tool}", "arguments": {"key": tool}}
        client.send_line(_request(number, "tools/call", params), **{mark: True})
    assert [text_of(client.answer_to(number)) for number in (1, 2)] == ["read read", "put put"]
    assert "may or may not have run" in client.answer_to(3)["error"]["message"]
    assert "once once" not in ledger.read_text()


@pytest.mark.parametrize("mark", ["resent", "replay"])
def test_lines_that_another_daemon_admitted_do_not_count_against_the_rate_limit(scratch: Scratch, mark: str) -> None:
    client = scratch.serve(rate_limit=0.001, rate_burst=0).frames()
    for number in (1, 2, 3):
        client.send_line(_request(number, "ping", {}), **{mark: True})
        assert client.answer_to(number)["result"] == {}
    assert "result" in client.ask("ping", id=4)
    assert "rate_limit" in client.ask("ping", id=5)["error"]["message"]


def test_replayed_lines_are_taken_and_the_promised_notice_follows(scratch: Scratch) -> None:
    scratch.start()
    client = scratch.frames(resume={"sessionId": "of-a-dead-daemon", "secret": "s"})
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    client.send_line(_request(1, "initialize", hello), replay=True)
    client.send_line(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', replay=True)
    assert client.answer_to(1)["result"]["protocolVersion"] == "2025-11-25"
    assert client.next_called("notifications/tools/list_changed")
    assert client.session["sessionId"] == "of-a-dead-daemon"


def test_the_answer_to_initialize_and_the_initialized_line_are_marked_to_be_kept(scratch: Scratch) -> None:
    scratch.start()
    client = scratch.frames().initialized()
    assert client.receive_type("ack")[0]["keep"] == {"initialized": 2}
    answer = next(header for header in client.headers if header.get("re") == 1)
    assert answer["keep"] == "initialize"


def test_a_session_that_is_for_one_server_sees_its_tools_under_their_own_names(scratch: Scratch) -> None:
    client = scratch.serve({"one": server("echo"), "two": server("big")}).frames(server="one")
    assert client.tools() == ["add", "echo"]
    assert text_of(client.call("echo", text="plain")) == "plain"
    assert client.call("seen")["error"]["code"] == -32602
    assert scratch.upstream("two")["pids"] == []


def test_a_server_that_is_not_there_is_refused_with_those_that_are(scratch: Scratch) -> None:
    scratch.serve({"one": server("echo"), "two": server("big")})
    client = scratch.control()
    client.send_frame({"type": "hello", "protocol": 1, "server": "three"})
    refusal, _ = client.receive_type("error")
    assert "there is no server 'three'" in refusal["message"]
    assert "one, two" in refusal["message"]


# --- nothing is mixed up


@pytest.fixture(scope="module")
def counting(shared: Scratch) -> Scratch:
    """One daemon for what leaves no trace in it."""
    counted(shared)
    return shared


def test_two_sessions_with_the_same_ids_and_tokens_get_their_own_answers_and_progress(counting: Scratch) -> None:
    first, second = counting.lines(), counting.frames()
    for number in range(20):
        for name, client in (("first", first), ("second", second)):
            meta = {"progressToken": number}
            client.begin_call("count__read", id=number, meta=meta, key=f"{name}{number}", delay=150, steps=2)
    for name, client in (("first", first), ("second", second)):
        answers: dict[int, str] = {}
        progress: dict[int, list[float]] = {}
        while len(answers) < 20:
            message = client.receive()
            if message.get("method") == "notifications/progress":
                token = message["params"]["progressToken"]
                assert token not in answers
                progress.setdefault(token, []).append(message["params"]["progress"])
            elif "result" in message:
                answers[message["id"]] = text_of(message)
        assert answers == {number: f"read {name}{number}" for number in range(20)}
        assert progress == {number: [1, 2] for number in range(20)}


@pytest.mark.parametrize(("id", "same"), [("7", "7"), ('"a"', r'"\u0061"'), ("1", "1.0")])
def test_an_id_that_is_still_in_flight_is_refused_and_the_first_call_goes_on(
    counting: Scratch, wire: str, id: str, same: str
) -> None:
    client = counting.lines() if wire == "lines" else counting.frames()
    params = '{"name":"count__once","arguments":{"key":"k","delay":%d}}'
    call = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":' + params + "}"
    client.send_line((call % (id, 150)).encode())
    client.send_line((call % (same, 0)).encode())
    refused = client.receive()
    assert refused["error"]["code"] == -32600
    assert "still in flight" in refused["error"]["message"]
    assert text_of(client.receive()) == "once k"
    client.send_line((call % (same, 0)).encode())
    assert text_of(client.receive()) == "once k"


def test_a_number_and_a_string_are_different_ids(counting: Scratch) -> None:
    client = counting.lines()
    client.begin_call("count__read", id=1, key="number", delay=200)
    client.begin_call("count__read", id="1", key="string", delay=200)
    assert {type(message["id"]): text_of(message) for message in (client.receive(), client.receive())} == {
        int: "read number",
        str: "read string",
    }


def test_late_and_double_answers_of_a_server_are_dropped(scratch: Scratch) -> None:
    scratch.serve({"spew": server("spewing")})
    first, second = scratch.lines(), scratch.frames()
    for number in range(1, 21):
        first.begin_call("spew__echo", id=number, text=f"first {number}")
        second.begin_call("spew__echo", id=number, text=f"second {number}")
    for name, client in (("first", first), ("second", second)):
        answers = [client.receive() for _ in range(20)]
        assert [text_of(answer) for answer in answers] == [f"{name} {number}" for number in range(1, 21)]
        assert client.ask("ping", id="end")["result"] == {}
        assert client.aside == []


def test_garbage_on_a_server_s_output_is_logged_a_few_times_and_no_more(scratch: Scratch) -> None:
    client = scratch.serve({"spew": server("spewing")}).lines()
    for number in range(10):
        client.call("spew__echo", text=str(number))
    assert 1 <= scratch.logged().count("not MCP on its stdout") <= 10


def _request(id: int, method: str, params: Message) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
