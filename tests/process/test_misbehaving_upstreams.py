"""Servers that break every rule: their own callers get a clear error, and nobody else notices anything.

In each test a good server is called all the time, by somebody else.
"""

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.clients import PREFIX, Client, Message, modern, text_of
from support.daemon import Scratch, pids_of, server
from support.kernel import BOUND_SECONDS, is_gone, until

MEGABYTE = 1_000_000
CANCELLED = "notifications/cancelled"


class Neighbour(threading.Thread):
    """Somebody who uses another server meanwhile, one call after the other."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._over = threading.Event()
        self._served = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        number = 0
        try:
            while not self._over.is_set():
                number += 1
                assert text_of(self._client.call("good__echo", text=f"call {number}")) == f"call {number}"
                self._served.set()
            assert self._client.aside == []
        except BaseException as exc:
            self.failure = exc
            self._served.set()

    def be_served(self) -> None:
        """Return after a call that was begun and answered from now on."""
        for _ in range(2):
            self._served.clear()
            assert self._served.wait(BOUND_SECONDS), "the neighbour is held up"
        assert self.failure is None, self.failure

    def end(self) -> None:
        self.be_served()
        self._over.set()
        self.join(BOUND_SECONDS)
        assert not self.is_alive() and self.failure is None, self.failure


@contextmanager
def wicked(scratch: Scratch, entry: dict[str, object], **settings: object) -> Iterator[Neighbour]:
    """A daemon with that server as `bad`, and a neighbour who is served before, meanwhile and afterwards."""
    client = scratch.serve({"bad": entry, "good": server("echo")}, **settings).lines().initialized()
    neighbour = Neighbour(client)
    neighbour.start()
    neighbour.be_served()
    yield neighbour
    neighbour.end()


def opened(scratch: Scratch, **capabilities: Message) -> Client:
    return scratch.frames().initialized(capabilities=capabilities)


@contextmanager
def used(scratch: Scratch, entry: dict[str, object], **settings: object) -> Iterator[Client]:
    """The same, and a client of the bad server."""
    with wicked(scratch, entry, **settings):
        yield opened(scratch)


def at_work(scratch: Scratch) -> int:
    """The pid of the bad server, once it has a call; 0 before."""
    found = scratch.upstream("bad")
    busy = found["state"] == "ready" and any(item["inFlight"] for item in found["instances"])
    return int(found["pids"][0]) if busy else 0


def heard_nothing_else(client: Client) -> bool:
    """Whether nothing but answers has come, once all that is on its way is there."""
    return client.ask("ping")["result"] == {} and client.aside == []


# --- garbage, and answers that are none


def test_garbage_second_answers_and_answers_to_nothing_cost_nobody_an_answer(scratch: Scratch) -> None:
    with wicked(scratch, server("spewing")):
        clients = [opened(scratch), scratch.lines()]
        begun = [(client, client.begin_call("bad__echo", text=f"{n}"), n) for n in range(50) for client in clients]
        assert [text_of(client.answer_to(id)) for client, id, _ in begun] == [f"{n}" for _, _, n in begun]
        assert all(heard_nothing_else(client) for client in clients)
        assert pids_of(scratch, "bad")


@pytest.mark.parametrize("flood", ["yes garbage", "yes ''", "yes '{}'", "cat >/dev/null & yes null"])
def test_a_server_that_floods_its_output_with_what_is_no_message_is_ended_and_holds_nobody_up(
    scratch: Scratch, flood: str
) -> None:
    scratch.serve({"flood": {"command": "/bin/sh", "args": ["-c", flood]}, "echo": server("echo")})
    client, other = scratch.lines(), scratch.lines()
    waiting = client.begin_call("flood__x")
    for number in range(20):
        assert text_of(other.call("echo__echo", text=str(number))) == str(number)
    assert "floods its stdout with what is not MCP" in client.answer_to(waiting)["error"]["message"]


def test_notices_that_are_no_text_reach_nobody(scratch: Scratch) -> None:
    with used(scratch, server("mangling")) as client:
        assert text_of(client.call("bad__notice", text="noticed")) == "noticed"
        assert heard_nothing_else(client)


def test_questions_that_are_no_text_reach_nobody_and_are_refused(scratch: Scratch) -> None:
    with wicked(scratch, server("mangling")):
        client = opened(scratch, elicitation={}, roots={})
        # One of them has the id of the call: what is wrong with it is not taken for the call's answer.
        assert json.loads(text_of(client.call("bad__question"))) == [["mine", -32600], ["three", -32600]]
        assert heard_nothing_else(client)
        assert text_of(client.call("bad__echo", text="still there")) == "still there"


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("tools/list", '{"tools":[{"name":"\\xff","inputSchema":{"type":"object"}}]}'),
        ("tools/list", '{"tools":{}}'),
        ("tools/list", '{"tools":null}'),
        ("tools/list", "[]"),
        ("tools/list", "null"),
        ("initialize", "[]"),
        ("initialize", '"hello"'),
        ("initialize", '"\\xff"'),
    ],
)
def test_a_server_that_opens_with_nonsense_is_left_out_and_named(scratch: Scratch, method: str, result: str) -> None:
    with used(scratch, server("mangling", method, result), list_timeout=BOUND_SECONDS) as client:
        assert client.tools() == ["good__add", "good__echo"]
        error = client.call("bad__echo")["error"]
        assert error["code"] == -32603
        assert "server 'bad'" in error["message"]


@pytest.mark.parametrize("item", ["5", "null", "{}", '{"name":7}', '{"name":""}', '{"description":"nameless"}'])
def test_a_tool_that_is_none_is_left_out_and_the_others_work(scratch: Scratch, item: str) -> None:
    listed = f'{{"tools":[{item},{{"name":"echo","inputSchema":{{"type":"object"}}}}]}}'
    with used(scratch, server("mangling", "tools/list", listed)) as client:
        assert "bad__echo" in client.tools()
        assert text_of(client.call("bad__echo", text="heard")) == "heard"


# --- lists that are too long


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(line) * 1024


def test_a_list_without_end_is_cut_at_its_limit_of_bytes_and_the_log_names_the_server(scratch: Scratch) -> None:
    with wicked(scratch, server("endless", 3 * MEGABYTE), list_timeout=BOUND_SECONDS) as neighbour:
        before = peak_bytes(int(scratch.status()["pid"]))
        listed = opened(scratch).tools()
        neighbour.be_served()
        assert 4000 < len(listed) < 4200 * 1.1
        # Without a limit it is read to its hundredth page, 300 MB, and takes three times that.
        assert peak_bytes(int(scratch.status()["pid"])) - before < 100 * MEGABYTE
        assert "server 'bad' has more tools than 4194304 bytes (list_limit)" in scratch.logged()


def test_a_list_of_too_many_entries_is_cut_and_what_is_left_works(scratch: Scratch) -> None:
    with used(scratch, server("paging", 20), list_entries=7) as client:
        assert [name for name in client.tools() if name.startswith("bad")] == [f"bad__tool_{n}" for n in range(7)]
        assert text_of(client.call("bad__tool_6")) == "tool_6"
        assert "bad__tool_7" in client.call("bad__tool_7")["error"]["message"]
        assert "server 'bad' has more tools than 7 entries (list_entries)" in scratch.logged()


# --- answers that are too large


@pytest.mark.parametrize("tool", ["first", "last"])
def test_sixty_megabytes_arrive_whole(scratch: Scratch, tool: str) -> None:
    with wicked(scratch, server("huge")) as neighbour:
        client = opened(scratch)
        id = client.begin_call(f"bad__{tool}", bytes=60 * MEGABYTE)
        neighbour.be_served()
        line = client.receive_line()
        assert line.count(b"x") >= 60 * MEGABYTE
        answer = json.loads(line)
        assert answer["id"] == id
        assert text_of(answer) == "x" * (60 * MEGABYTE)


@pytest.mark.parametrize("tool", ["first", "last", "pretty"])
def test_an_answer_over_the_limit_is_an_error_for_its_caller_only(scratch: Scratch, tool: str, era: str) -> None:
    with wicked(scratch, server("huge"), message_limit=MEGABYTE):
        client, other = opened(scratch), opened(scratch)
        params = {"name": f"bad__{tool}", "arguments": {"bytes": 3 * MEGABYTE}}
        id = client.begin("tools/call", modern(**params) if era == "modern" else params)
        patient = [other.begin_call("bad__echo", text=f"{number}") for number in range(5)]
        error = client.answer_to(id)["error"]
        assert error["code"] == -32603
        assert "server 'bad'" in error["message"]
        assert "message_limit" in error["message"]
        assert [text_of(other.answer_to(each)) for each in patient] == [f"{number}" for number in range(5)]
        assert text_of(client.call("bad__echo", text="next")) == "next"


def test_a_message_over_the_limit_costs_its_caller_only_that(scratch: Scratch) -> None:
    with used(scratch, server("huge"), message_limit=MEGABYTE) as client:
        assert text_of(client.call("bad__log", bytes=3 * MEGABYTE)) == "logged"
        assert heard_nothing_else(client)


# --- no answers


def test_a_call_that_is_never_answered_fails_in_time_and_is_withdrawn(scratch: Scratch) -> None:
    record = scratch.home / "cancelled"
    with used(scratch, server("stalling", record, call_timeout=0.5)) as client:
        error = client.call("bad__never", key="mine")["error"]
        assert error["code"] == -32603
        assert "server 'bad' gave no answer within 0.5 s (key call_timeout)" in error["message"]
        until(lambda: record.exists() and record.read_text() == '{"key": "mine"}\n', "the server was told")
        assert text_of(client.call("bad__echo", text="still there")) == "still there"


def test_progress_gives_a_call_more_time(scratch: Scratch, era: str) -> None:
    # It takes twice the time that it has, and reports ten times as often as it must.
    with used(scratch, server("stalling", scratch.home / "cancelled", call_timeout=2)) as client:
        params: Message = {"name": "bad__plod", "arguments": {"steps": 20, "pause": 0.2}}
        params["_meta"] = {"progressToken": "t"}
        assert text_of(client.ask("tools/call", modern(**params) if era == "modern" else params)) == "arrived"
        assert [message["params"]["progress"] for message in client.aside] == list(range(1, 21))


def test_progress_that_nobody_asked_for_gives_no_more_time(scratch: Scratch) -> None:
    with used(scratch, server("flooding", call_timeout=0.5)) as client:
        id = client.begin_call("bad__forever", kind="progress")
        pid = until(lambda: at_work(scratch), "it has the call")
        assert "call_timeout" in client.answer_to(id)["error"]["message"]
        os.kill(pid, signal.SIGKILL)


def test_progress_without_end_ends_at_the_ceiling(scratch: Scratch) -> None:
    record = scratch.home / "cancelled"
    with used(scratch, server("stalling", record, call_timeout=300, call_ceiling=1)) as client:
        meta = {"progressToken": 1}
        error = client.call("bad__plod", meta=meta, steps=10**6, pause=0.05)["error"]
        assert "server 'bad' did not finish within 1 s (key call_ceiling)" in error["message"]
        until(record.exists, "the server was told")
        assert text_of(client.call("bad__echo", text="still there")) == "still there"


# --- servers that end, or cannot be talked with


@pytest.mark.parametrize("tool", ["die", "abort", "half"])
def test_a_server_that_exits_in_a_call_fails_everybody_who_waits_for_it_and_nobody_else(
    scratch: Scratch, tool: str
) -> None:
    with wicked(scratch, server("dying")):
        clients = [opened(scratch), opened(scratch)]
        for client in clients:
            assert text_of(client.call("bad__echo", text="alive")) == "alive"
        ids = [client.begin_call(f"bad__{tool}") for client in clients]
        for client, id in zip(clients, ids, strict=True):
            error = client.answer_to(id)["error"]
            assert error["code"] == -32603
            assert "server 'bad'" in error["message"]
        for client in clients:
            assert heard_nothing_else(client)


@pytest.mark.parametrize("pipe", ["input", "output"])
def test_a_server_that_closes_a_pipe_and_lives_on_is_replaced(scratch: Scratch, pipe: str) -> None:
    ledger = scratch.home / "starts"
    with used(scratch, server("closing", ledger)) as client:
        answer = client.call(f"bad__close_{pipe}")
        assert pipe == "input" or "server 'bad'" in answer["error"]["message"]
        first = int(ledger.read_text().split()[0])
        until(lambda: is_gone(first), "the former process has ended")
        assert text_of(client.call("bad__echo", text="anew")) == "anew"


@pytest.mark.parametrize("escape", [False, True])
def test_a_server_that_ignores_every_signal_and_forks_is_ended_with_its_last_client(
    scratch: Scratch, escape: bool
) -> None:
    ledger = scratch.home / "pids"
    words = [ledger, "--escape"] if escape else [ledger]
    with wicked(scratch, server("stubborn", *words, isolation="session", instance_idle=0.1)):
        with opened(scratch) as client:
            assert text_of(client.call("bad__echo", text="here")) == "here"
        pid, grandchild = map(int, ledger.read_text().split())
        until(lambda: is_gone(pid), "the process has ended")
        if escape:
            # What leaves its group on purpose is out of reach until the daemon ends.
            os.kill(grandchild, signal.SIGKILL)
        until(lambda: is_gone(grandchild), "so has what it forked")


# --- floods

KINDS = ["message", "progress", "list_changed", "updated", "cancelled", "unknown", "other"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_flood_of_notices_is_followed_by_the_answer_and_holds_up_nobody(scratch: Scratch, kind: str) -> None:
    with wicked(scratch, server("flooding")) as neighbour:
        client = opened(scratch)
        id = client.begin_call("bad__flood", meta={"progressToken": "t"}, kind=kind, count=10_000)
        neighbour.be_served()
        assert text_of(client.answer_to(id)) == "10000 times"
        heard = {message["method"] for message in client.aside}
        assert heard <= {"notifications/message", "notifications/progress", "notifications/of/nothing"}
        assert text_of(client.call("bad__echo", text="still there")) == "still there"


@pytest.mark.parametrize("kind", ["message", "list_changed", "other"])
def test_a_flood_without_end_holds_up_nobody_and_ends_with_its_server(scratch: Scratch, kind: str) -> None:
    with wicked(scratch, server("flooding")) as neighbour:
        client, other = opened(scratch), opened(scratch)
        # It does not read what it caused, for as long as it lasts.
        id = client.begin_call("bad__forever", meta={"progressToken": "t"}, kind=kind)
        pid = until(lambda: at_work(scratch), "it has the call")
        neighbour.be_served()
        assert text_of(other.call("good__echo", text="meanwhile")) == "meanwhile"
        neighbour.be_served()
        os.kill(pid, signal.SIGKILL)
        assert "server 'bad' ended" in client.answer_to(id)["error"]["message"]
        assert text_of(client.call("bad__echo", text="anew")) == "anew"


def test_a_flood_of_questions_is_answered_and_costs_its_client_nothing(scratch: Scratch) -> None:
    with wicked(scratch, server("flooding", isolation="session"), outbound_limit=MEGABYTE):
        client = opened(scratch, elicitation={})
        id = client.begin_call("bad__flood", meta={"progressToken": "t"}, kind="question", count=20_000)
        client.next_called("notifications/progress")
        # The rest was refused: that is all, until there is room again.
        asked = [client.next_called("elicitation/create") for _ in range(100)]
        assert heard_nothing_else(client)
        for question in asked:
            client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        assert text_of(client.answer_to(id)) == "20000 answers, 19900 of them errors"
        assert heard_nothing_else(client)


# --- ids


def test_two_questions_by_one_id_are_one_question(scratch: Scratch) -> None:
    with wicked(scratch, server("repeating")):
        client = opened(scratch, elicitation={})
        id = client.begin_call("bad__ask")
        heard = []
        for _ in range(2):
            question = client.next_called("elicitation/create")
            heard.append(question["params"]["message"])
            answer = {"action": "accept", "content": {"to": question["params"]["message"]}}
            client.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        answers = json.loads(text_of(client.answer_to(id)))
        assert heard == ["first", "third"]
        assert [item["result"]["content"]["to"] for item in answers] == heard
        assert heard_nothing_else(client)


def test_of_a_modern_client_two_questions_by_one_id_are_one_question(scratch: Scratch) -> None:
    with wicked(scratch, server("repeating")):
        client = scratch.frames()
        meta = {f"{PREFIX}clientCapabilities": {"elicitation": {}}}
        params: Message = {"name": "bad__ask", "arguments": {}}
        heard, more = [], Message()
        for _ in range(2):
            result = client.ask("tools/call", modern(**params, **more, _meta=meta))["result"]
            ((key, question),) = result["inputRequests"].items()
            heard.append(question["params"]["message"])
            answer = {"action": "accept", "content": {"to": question["params"]["message"]}}
            more = {"inputResponses": {key: answer}, "requestState": result["requestState"]}
        answers = json.loads(text_of(client.ask("tools/call", modern(**params, **more, _meta=meta))))
        assert heard == ["first", "third"]
        assert [item["result"]["content"]["to"] for item in answers] == heard
