"""Flow control: who does not read loses its own notices and then its own connection, and delays nobody else."""

import json
import os
import signal
from pathlib import Path

import pytest

from support.clients import Closed, FramesClient, text_of
from support.daemon import Scratch, noted, pids_of, server
from support.eras import opened
from support.kernel import BOUND_SECONDS, until


def test_a_client_that_does_not_read_loses_its_connection_and_the_log_says_why(scratch: Scratch, wire: str) -> None:
    scratch.serve({"big": server("big")}, outbound_limit=1_000_000)
    stuck, lively = opened(scratch, wire), scratch.lines()
    lively.call("big__seen")
    for _ in range(10):
        stuck.begin_call("big__big", bytes=300_000)
    until(lambda: "its connection is dropped" in scratch.logged(), "the stuck connection is dropped")
    # Others were served all the while, and are.
    assert len(text_of(lively.call("big__big", bytes=300_000))) == 300_000
    assert "outbound_limit 1000000" in scratch.logged()
    assert len(scratch.status()["sessions"]) == 1
    with pytest.raises(Closed):
        while True:
            stuck.receive()


def test_one_answer_beyond_the_limit_is_delivered_to_whoever_reads(scratch: Scratch) -> None:
    client = scratch.serve({"big": server("big")}, outbound_limit=4096).lines()
    assert len(text_of(client.call("big__big", bytes=5_000_000))) == 5_000_000


def test_a_client_that_does_not_read_loses_progress_but_no_answer(scratch: Scratch) -> None:
    ledger = scratch.home / "ledger"
    scratch.serve({"count": server("counting", ledger), "big": server("big")})
    stuck, other = scratch.lines(), scratch.lines()
    stuck.begin_call("big__big", id="big", bytes=3_000_000)
    assert stuck.stream.has_data(BOUND_SECONDS)
    # More than the kernel takes is waiting by the time the progress comes.
    stuck.begin_call("count__read", id="slow", meta={"progressToken": 1}, key="k", delay=500, steps=200)
    noted(ledger, "read k")
    assert text_of(other.call("count__read", key="after", delay=700)) == "read after"
    assert len(text_of(stuck.answer_to("big"))) == 3_000_000
    assert text_of(stuck.answer_to("slow")) == "read k"
    assert len([message for message in stuck.aside if message.get("method") == "notifications/progress"]) < 200


def test_of_notices_on_one_topic_a_slow_reader_gets_the_newest_when_it_reads_again(scratch: Scratch) -> None:
    scratch.serve({"change": server("changing"), "big": server("big")})
    stuck, other = scratch.lines(), scratch.lines()
    for client in (stuck, other):
        client.initialize()
        client.tools()
    stuck.begin_call("big__big", id="big", bytes=3_000_000)
    assert stuck.stream.has_data(BOUND_SECONDS)
    for number in range(5):
        other.call("change__grow", name=f"leaf{number}")
        other.next_called("notifications/tools/list_changed")
    stuck.answer_to("big")
    stuck.next_called("notifications/tools/list_changed")
    assert stuck.ask("ping", id="end")["result"] == {}
    assert [message for message in stuck.aside if message.get("method")] == []
    assert "change__leaf4" in stuck.tools()


def test_a_client_that_sends_and_does_not_read_its_refusals_is_dropped_too(scratch: Scratch) -> None:
    stuck = scratch.serve(outbound_limit=100_000).lines()
    stuck.stream.socket.setblocking(True)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        while True:
            stuck.stream.send(b"{}\n" * 10_000 if stuck.aside else b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            stuck.aside.append({})
    until(lambda: "its connection is dropped" in scratch.logged(), "the reason is logged")


# --- servers that do not read

# Calls of 60 kB each: more than the pipe (256 KiB) and the queue's limit in these tests hold together.
FILLING = 10


def stop(pid: int) -> None:
    """Have a server read nothing more. One that waits for its input may take a last piece after the signal was sent:
    there would be room in its full queue again."""
    os.kill(pid, signal.SIGSTOP)
    stat = Path(f"/proc/{pid}/stat")
    until(lambda: stat.read_text().rpartition(") ")[2].startswith("T"), "the server stands still")


def deaf(scratch: Scratch) -> None:
    scratch.serve(
        {"deaf": server("deaf", "tools/list"), "echo": server("echo")}, upstream_queue_limit=100_000, drain_timeout=0.1
    )


def test_a_server_that_does_not_read_is_named_in_an_immediate_error(scratch: Scratch) -> None:
    deaf(scratch)
    client, other = scratch.lines(), scratch.frames()
    assert client.tools() == ["deaf__echo", "echo__add", "echo__echo"]
    filling = [client.begin_call("deaf__echo", text="x" * 60_000) for _ in range(FILLING)]
    refused = client.call("deaf__echo", text="y")
    assert refused["error"]["code"] == -32603
    assert "server 'deaf' does not read its input" in refused["error"]["message"]
    assert "upstream_queue_limit" in refused["error"]["message"]
    # The client's own connection was not paused, nor anybody else's.
    assert text_of(client.call("echo__echo", text="still here")) == "still here"
    assert text_of(other.call("echo__echo", text="me too")) == "me too"
    assert set(filling) - {message.get("id") for message in client.aside}
    # It would not notice the end of its input either.
    os.kill(pids_of(scratch, "deaf")[0], signal.SIGKILL)


def test_cancels_go_past_the_full_queue_of_a_server(scratch: Scratch) -> None:
    """A stopped recording server: what it finds in its input afterwards shows what was queued."""
    record = scratch.home / "record"
    client = scratch.serve({"rec": server("recording", record)}, upstream_queue_limit=100_000).lines()
    pid = json.loads(text_of(client.call("rec__about")))["pid"]
    stop(pid)
    held = [client.begin_call("rec__hold", text="x" * 60_000) for _ in range(FILLING)]
    assert "does not read its input" in client.call("rec__hold", text="y")["error"]["message"]
    failed = {message["id"] for message in client.aside if "error" in message}
    for id in held:
        client.notify("notifications/cancelled", {"requestId": id, "reason": "enough"})
    assert client.ask("ping", id="sync")["result"] == {}
    os.kill(pid, signal.SIGCONT)
    wanted = len(set(held) - failed)
    assert wanted >= 2
    until(lambda: record.read_bytes().count(b"notifications/cancelled") == wanted, "every cancel has arrived")
    assert record.read_bytes().count(b'"reason":"enough"') == wanted


def test_a_deaf_server_s_queue_has_room_again_when_it_reads(scratch: Scratch) -> None:
    client = scratch.serve({"rec": server("recording", scratch.home / "record")}, upstream_queue_limit=100_000).frames()
    pid = json.loads(text_of(client.call("rec__about")))["pid"]
    stop(pid)
    for _ in range(FILLING):
        client.begin_call("rec__echo", text="x" * 60_000)
    assert "error" in client.call("rec__echo", text="y")
    os.kill(pid, signal.SIGCONT)
    until(lambda: "result" in client.call("rec__echo", text="again"), "the server takes calls again")


def test_a_silent_server_delays_only_who_calls_it(scratch: Scratch) -> None:
    scratch.serve(
        {"silent": server("silent", start_timeout=0.8), "echo": server("echo")}, list_timeout=0.2, drain_timeout=0.1
    )
    waiting, other = scratch.lines(), scratch.lines()
    other.call("echo__echo", text="")
    assert other.tools() == ["echo__add", "echo__echo"]
    id = waiting.begin_call("silent__x")
    assert text_of(other.call("echo__echo", text="quick")) == "quick"
    assert "server 'silent' did not answer within 0.8 s" in waiting.answer_to(id)["error"]["message"]


@pytest.mark.parametrize("tool", ["die", "abort", "half"])
def test_a_server_that_dies_in_a_call_is_an_error_that_says_so_and_is_started_again(
    scratch: Scratch, tool: str
) -> None:
    starts = scratch.home / "starts"
    scratch.serve({"dying": server("dying", starts)})
    client: FramesClient = scratch.frames()
    refused = client.call(f"dying__{tool}")
    assert refused["error"]["code"] == -32603
    assert "server 'dying' ended" in refused["error"]["message"]
    assert text_of(client.call("dying__echo", text="alive")) == "alive"
    assert len(starts.read_text().split()) == 2
    assert scratch.upstream("dying")["restarts"] == 1


def test_a_server_that_cannot_be_started_is_an_error_with_its_last_words(scratch: Scratch) -> None:
    client = scratch.serve({"dying": server("dying", "--on", "start"), "none": {"command": "/no/such/program"}}).lines()
    assert "died at the start" in client.call("dying__echo")["error"]["message"]
    refused = client.call("none__echo")["error"]["message"]
    assert "server 'none' could not be started: its command '/no/such/program' does not exist" in refused
    states = {item["name"]: item["state"] for item in scratch.status()["upstreams"]}
    assert states == {"dying": "failed", "none": "failed"}
    assert client.tools() == []


def test_a_server_that_exits_when_asked_for_the_modern_era_is_started_again_in_the_old_way(scratch: Scratch) -> None:
    scratch.serve({"old": server("dying", "--on", "server/discover")})
    assert text_of(scratch.lines().call("old__echo", text="hello")) == "hello"
    assert scratch.upstream("old")["era"] == "legacy"
