"""The small servers do what their docstrings say: other tests lean on them, so none is taken on trust."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon import server_command

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
Message = dict[str, Any]


class Server:
    """One of the servers, and what a client does to it."""

    def __init__(self, name: str, *words: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.child = subprocess.Popen(server_command(name, *words), **pipes, process_group=0)
        assert self.child.stdin and self.child.stdout
        self.input, self.output = self.child.stdin, self.child.stdout

    def send(self, data: bytes) -> None:
        self.input.write(data)
        self.input.flush()

    def write(self, method: str, params: Message | None = None, key: object = None) -> None:
        message: Message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if key is not None:
            message["id"] = key
        self.send(json.dumps(message).encode() + b"\n")

    def read(self) -> Message:
        return json.loads(self.output.readline())

    def ask(self, method: str, params: Message | None = None, key: object = 1) -> Message:
        self.write(method, params, key)
        return self.read()

    def call(self, tool: str, **arguments: object) -> Message:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def end(self) -> int:
        self.input.close()
        return self.child.wait()


@pytest.fixture
def start() -> Iterator[Any]:
    """Starts servers by name, and ends them."""
    servers: list[Server] = []

    def starter(name: str, *words: str) -> Server:
        servers.append(Server(name, *words))
        return servers[-1]

    yield starter
    for server in servers:
        # The group, because a grandchild may hold the pipes.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.child.pid, signal.SIGKILL)
        server.child.wait()
        for pipe in filter(None, (server.child.stdin, server.child.stdout, server.child.stderr)):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@pytest.fixture
def ledger() -> Iterator[Path]:
    """A file for a server's notes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder) / "ledger"


def words(answer: Message) -> str:
    """The text of a tool's result."""
    return answer["result"]["content"][0]["text"]


LEGACY = (
    *("echo", "swift", "stubborn", "dying", "changing", "big", "closing", "wilful", "keeping"),
    *("flooding", "repeating", "mangling", "huge"),
)


@pytest.mark.parametrize("name", LEGACY)
def test_a_legacy_server_shakes_hands_and_refuses_discover(start: Any, name: str) -> None:
    server = start(name)
    assert server.ask("initialize", {})["result"]["protocolVersion"] == "2025-11-25"
    assert server.ask("server/discover", {"_meta": META})["error"]["code"] == -32601
    assert server.ask("tools/list", {}, "two")["id"] == "two"


@pytest.mark.parametrize("name", ["echo", "swift"])
def test_echo_answers_a_chunk_of_calls_in_order_and_skips_bad_lines(start: Any, name: str) -> None:
    server = start(name)
    server.input.write(b'{"cut off\n')
    for key in range(100):
        server.write("tools/call", {"name": "echo", "arguments": {"text": f"é {key}"}}, key)
    answers = [server.read() for _ in range(100)]
    assert [(answer["id"], words(answer)) for answer in answers] == [(key, f"é {key}") for key in range(100)]
    assert words(server.call("add", a=2, b=3)) == "5"
    assert server.call("echo")["error"]["code"] == -32602
    assert server.end() == 0


def test_counting_writes_one_line_per_run_and_answers_when_due(start: Any, ledger: Path) -> None:
    server = start("counting", str(ledger))
    server.write("tools/call", {"name": "put", "arguments": {"key": "slow", "delay": 200}}, 1)
    server.write("tools/call", {"name": "once", "arguments": {"key": "quick"}}, 2)
    assert [server.read()["id"], server.read()["id"]] == [2, 1]
    assert ledger.read_text().splitlines()[1:] == ["put slow", "once quick"]


def test_counting_sends_progress_and_forgets_a_cancelled_call(start: Any, ledger: Path) -> None:
    server = start("counting", str(ledger), "60000")
    params = {"name": "read", "arguments": {"key": "k", "delay": 60, "steps": 2}, "_meta": {"progressToken": "t"}}
    steps = [server.ask("tools/call", params, 1), server.read()]
    assert [step["params"]["progress"] for step in steps] == [1, 2]
    assert words(server.read()) == "read k"
    server.write("tools/call", {"name": "once", "arguments": {"key": "gone"}}, 2)
    server.write("notifications/cancelled", {"requestId": 2})
    assert server.ask("ping", {}, 3)["id"] == 3
    assert ledger.read_text().splitlines()[1:] == ["read k", "once gone", "cancelled gone"]


def test_modern_refuses_the_handshake_and_bare_requests(start: Any) -> None:
    server = start("modern")
    refusal = server.ask("initialize", {"protocolVersion": "2025-11-25"})["error"]
    assert (refusal["code"], refusal["data"]) == (-32022, {"supported": ["2026-07-28"], "requested": "2025-11-25"})
    assert server.ask("tools/list", {})["error"]["code"] == -32602
    assert server.ask("server/discover", {"_meta": META})["result"]["supportedVersions"] == ["2026-07-28"]


def test_modern_tells_its_subscribers_of_a_change(start: Any) -> None:
    server = start("modern")
    acknowledged = server.ask("subscriptions/listen", {"_meta": META, "notifications": {"toolsListChanged": True}}, 7)
    assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
    changed = server.ask("tools/call", {"_meta": META, "name": "grow"}, 8)
    assert changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 7
    assert server.read()["result"]["resultType"] == "complete"


def test_stubborn_survives_a_polite_end_and_names_its_grandchild(start: Any, ledger: Path) -> None:
    server = start("stubborn", str(ledger))
    pids = words(server.call("pids"))
    assert pids == ledger.read_text().strip()
    grandchild = int(pids.split()[1])
    server.child.send_signal(signal.SIGTERM)
    server.input.close()
    assert os.waitid(os.P_PID, server.child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    os.kill(grandchild, signal.SIGTERM)
    os.kill(grandchild, signal.SIGKILL)


def test_spewing_gives_one_good_answer_among_garbage(start: Any) -> None:
    server = start("spewing")
    server.write("tools/call", {"name": "echo", "arguments": {"text": "pearl"}}, 5)
    lines = server.child.communicate()[0].splitlines()
    good = json.dumps({"jsonrpc": "2.0", "id": 5, "result": {"content": [{"type": "text", "text": "pearl"}]}})
    assert lines.count(good.encode()) == 1
    assert len(lines) > 30


def test_silent_says_nothing(start: Any) -> None:
    server = start("silent")
    server.write("initialize", {}, 1)
    assert server.child.communicate()[0] == b""


def test_deaf_stops_reading_after_its_last_answer(start: Any) -> None:
    server = start("deaf", "tools/list")
    server.ask("initialize", {})
    server.ask("tools/list", {})
    os.set_blocking(server.input.fileno(), False)
    with pytest.raises(BlockingIOError):
        for _ in range(1 << 20):
            os.write(server.input.fileno(), b"x" * 4096)


@pytest.mark.parametrize(("tool", "code", "begun"), [("die", 3, False), ("abort", -9, False), ("half", 3, True)])
def test_dying_dies_in_the_call(start: Any, ledger: Path, tool: str, code: int, begun: bool) -> None:
    server = start("dying", str(ledger))
    server.write("tools/call", {"name": tool, "arguments": {}}, 1)
    said = server.output.read()
    assert (bool(said), said.endswith(b"\n"), server.child.wait()) == (begun, False, code)
    assert ledger.read_text() == f"{server.child.pid}\n"


def test_dying_on_a_method_says_so(start: Any) -> None:
    server = start("dying", "--on", "server/discover")
    server.ask("initialize", {})
    server.write("server/discover", {}, 2)
    assert b"died of server/discover" in server.child.communicate()[1]


def test_changing_grows_and_shrinks_with_a_notice_each(start: Any) -> None:
    server = start("changing")
    assert words(server.call("grow", name="leaf")) == "leaf"
    assert server.read()["method"] == "notifications/tools/list_changed"
    assert words(server.call("leaf")) == "leaf"
    assert len(server.ask("tools/list")["result"]["tools"]) == 5
    server.call("shrink", name="leaf")
    assert server.read()["method"] == "notifications/tools/list_changed"
    assert len(server.ask("tools/list")["result"]["tools"]) == 4


def test_big_is_as_big_as_asked_and_as_odd(start: Any) -> None:
    server = start("big")
    assert len(words(server.call("big", bytes=3_000_000))) == 3_000_000
    assert words(server.call("surrogate")) == "lone \ud800 surrogate"
    assert (
        server.call("verbatim", json='{"n":123456789012345678901234567890}')["result"]["n"]
        == 123456789012345678901234567890
    )
    assert '"name": "seen"' in words(server.call("seen"))
    server.write("tools/call", {"name": "pretty", "arguments": {}}, 1)
    server.input.close()
    shown = server.output.read()
    assert shown.count(b"\r\n") > 5
    assert words(json.loads(shown)) == "pretty"


def test_recording_keeps_the_bytes_that_it_was_sent(start: Any, ledger: Path) -> None:
    server = start("recording", str(ledger))
    line = rb'{"jsonrpc": "2.0",  "id":1,"method":"tools/call","params":{"name":"echo","a":"\ud800 \u00e9","a":1e2}}'
    server.send(line + b"\n")
    assert words(server.read()) == "heard"
    assert ledger.read_bytes() == line + b"\n"
    server.write("tools/call", {"name": "hold"}, 2)
    about = json.loads(words(server.ask("tools/call", {"name": "about"}, 3)))
    assert about["pid"] == server.child.pid
    assert set(about["fds"]) > {"0", "1", "2"}


def test_modern_keeps_what_it_received_where_it_is_told_to(start: Any, ledger: Path) -> None:
    server = start("modern", str(ledger))
    assert server.ask("tools/call", {"_meta": META, "name": "ask"})["result"]["resultType"] == "input_required"
    assert server.ask("tools/call", {"_meta": META, "name": "shape"})["result"]["structuredContent"] == [1, 2]
    assert len(ledger.read_bytes().splitlines()) == 2


def test_modern_may_answer_its_first_two_requests_backwards(start: Any) -> None:
    server = start("modern", "--backwards")
    server.write("server/discover", {"_meta": META}, 1)
    server.write("initialize", {}, 2)
    assert [server.read()["id"], server.read()["id"]] == [2, 1]


def test_asking_answers_with_what_it_was_answered(start: Any) -> None:
    server = start("asking")
    question = server.ask("tools/call", {"name": "ask", "arguments": {"method": "roots/list"}})
    assert question["method"] == "roots/list"
    server.send(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}).encode() + b"\n")
    assert json.loads(words(server.read()))["result"] == {"roots": []}


def test_endless_always_has_another_page(start: Any) -> None:
    server = start("endless", "10000")
    first = server.ask("tools/list")["result"]
    assert (len(first["tools"]), first["nextCursor"]) == (10, "10")
    assert 900 < len(json.dumps(first["tools"][0])) < 1100
    assert server.ask("tools/list", {"cursor": "10"})["result"]["nextCursor"] == "20"
    assert server.ask("tools/call", {"name": "tool_00000003"})["result"]["content"][0]["text"] == "tool_00000003"


def test_paging_gives_two_at_a_time(start: Any) -> None:
    server = start("paging", "3")
    first = server.ask("tools/list")["result"]
    last = server.ask("tools/list", {"cursor": first["nextCursor"]})["result"]
    assert [tool["name"] for tool in first["tools"] + last["tools"]] == ["tool_0", "tool_1", "tool_2"]
    assert "nextCursor" not in last
    assert start("paging", "3", "--loop").ask("tools/list", {"cursor": "2"})["result"]["nextCursor"] == "2"


@pytest.mark.parametrize("pipe", ["input", "output"])
def test_closing_closes_one_pipe_and_lives_on(start: Any, ledger: Path, pipe: str) -> None:
    server = start("closing", str(ledger))
    server.write("tools/call", {"name": f"close_{pipe}", "arguments": {}}, 1)
    if pipe == "output":
        assert server.output.read() == b""
    else:
        assert words(server.read()) == "closing"
        with pytest.raises(BrokenPipeError):
            while True:
                server.write("ping")
    assert server.child.poll() is None
    assert ledger.read_text() == f"{server.child.pid}\n"


def test_wilful_outdates_its_first_list_and_leaves_one_unanswered(start: Any) -> None:
    server = start("wilful", "--early", "--mute", "tools/list@2")
    assert [tool["name"] for tool in server.ask("tools/list")["result"]["tools"]] == ["echo", "grow", "raw"]
    assert server.read()["method"] == "notifications/tools/list_changed"
    server.write("tools/list", None, 2)
    assert [tool["name"] for tool in server.ask("tools/list", None, 3)["result"]["tools"]][-1] == "late"
    assert words(server.call("late")) == "late"
    assert server.call("raw", json='"error":"boom"')["error"] == "boom"


def test_wilful_is_mute_only_while_it_is_told_to_be(start: Any, ledger: Path) -> None:
    server = start("wilful", "--mute", "ping", "--while", str(ledger), "--mourn", "alas")
    assert server.ask("ping")["result"] == {}
    ledger.touch()
    server.write("ping", None, 2)
    assert words(server.call("echo", text="x")) == "x"
    assert server.child.stderr.readline() == b"alas\n"


def test_batching_says_everything_in_arrays(start: Any) -> None:
    server = start("batching")

    def ask(method: str, params: Message, key: int) -> list[Any]:
        server.write(method, params, key)
        return json.loads(server.output.readline())

    assert ask("initialize", {}, 1)[0]["result"]["protocolVersion"] == "2025-03-26"
    notice, said, garbage = ask(
        "tools/call", {"name": "say", "arguments": {"text": "x"}, "_meta": {"progressToken": 7}}, 2
    )
    assert (notice["params"]["progressToken"], words(said), garbage) == (7, "x", "no message")
    server.write("tools/call", {"name": "pair", "arguments": {"text": "first"}}, 3)
    assert [words(answer) for answer in ask("tools/call", {"name": "pair", "arguments": {"text": "last"}}, 4)[:2]] == [
        "last", "first",
    ]  # fmt: skip


def test_keeping_counts_in_the_era_of_its_first_request(start: Any, ledger: Path) -> None:
    server = start("keeping", "legacy", "modern", "--file", str(ledger))
    params = {"_meta": META, "name": "count"}
    states = [json.loads(words(server.ask("tools/call", params))) for _ in range(2)]
    assert [(state["count"], state["era"]) for state in states] == [(1, "modern"), (2, "modern")]
    assert ledger.read_text() == f"{states[0]['pid']}\n"
    assert server.ask("initialize", {})["error"]["code"] == -32022


def test_keeping_waits_behind_its_gate(start: Any, ledger: Path) -> None:
    os.mkfifo(ledger)
    server = start("keeping", "--gate", str(ledger))
    server.write("ping", None, 1)
    os.set_blocking(server.output.fileno(), False)
    assert server.output.read() is None
    os.set_blocking(server.output.fileno(), True)
    ledger.write_text("")
    assert server.read()["id"] == 1


def test_crowded_answers_the_newest_and_tells_how_many_there_were(start: Any) -> None:
    server = start("crowded", "3")
    for key in range(3):
        server.write("tools/call", {"name": "wait", "arguments": {"key": key}}, key)
    answers = [server.read() for _ in range(3)]
    assert [answer["id"] for answer in answers] == [2, 1, 0]
    assert {json.loads(words(answer))["most"] for answer in answers} == {3}


@pytest.mark.parametrize("kind", ["message", "progress", "list_changed", "updated", "cancelled", "unknown", "other"])
def test_flooding_says_as_much_as_it_is_asked_to(start: Any, kind: str) -> None:
    server = start("flooding")
    server.write("tools/call", {"name": "flood", "arguments": {"kind": kind, "count": 50}}, 1)
    said = [server.read() for _ in range(51)]
    assert words(said.pop()) == "50 times"
    assert len({message.get("method") for message in said}) == 1


def test_flooding_counts_the_answers_to_its_questions(start: Any) -> None:
    server = start("flooding")
    server.write("tools/call", {"name": "flood", "arguments": {"kind": "question", "count": 2}}, 1)
    first, second = server.read()["id"], server.read()["id"]
    assert server.read()["method"] == "notifications/progress"
    for answer in ({"id": first, "result": {}}, {"id": second, "error": {"code": 1, "message": "no"}}):
        server.send(json.dumps(answer).encode() + b"\n")
    assert words(server.read()) == "2 answers, 1 of them errors"


def test_stalling_plods_and_notes_what_was_cancelled(start: Any, ledger: Path) -> None:
    server = start("stalling", str(ledger))
    server.write("tools/call", {"name": "never", "arguments": {"key": 1}}, 1)
    params = {"name": "plod", "arguments": {"steps": 2, "pause": 0}, "_meta": {"progressToken": "t"}}
    server.write("tools/call", params, 2)
    assert [server.read()["params"]["progress"], server.read()["params"]["progress"]] == [1, 2]
    assert words(server.read()) == "arrived"
    server.write("notifications/cancelled", {"requestId": 1})
    assert server.ask("ping", {}, 3)["id"] == 3
    assert ledger.read_text() == '{"key": 1}\n'


def test_repeating_asks_thrice_by_one_id(start: Any) -> None:
    server = start("repeating")
    server.write("tools/call", {"name": "ask"}, 7)
    asked = [server.read(), server.read()]
    for _ in range(2):
        server.send(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
        asked.append(server.read())
    assert [message["id"] for message in asked] == [1, 1, 1, 7]
    assert [message["params"]["message"] for message in asked[:3]] == ["first", "second", "third"]


def test_mangling_writes_what_is_no_text(start: Any) -> None:
    server = start("mangling", "tools/list", '"\\xff"')
    server.write("tools/list", None, 1)
    assert server.output.readline() == b'{"jsonrpc":"2.0","id":1,"result":"\xff"}\n'
    server.write("tools/call", {"name": "question"}, 7)
    lines = [server.output.readline() for _ in range(4)]
    assert b'"id":7,"method":"elicitation/create"' in lines[0]
    assert [b"\xff" in line for line in lines] == [True, True, True, False]
    server.send(b'{"id":7,"error":{"code":-1}}\n{"id":"last","result":{}}\n')
    assert json.loads(words(server.read())) == [["mine", -1]]


@pytest.mark.parametrize("tool", ["first", "last"])
def test_huge_has_its_id_where_it_says(start: Any, tool: str) -> None:
    server = start("huge")
    server.write("tools/call", {"name": tool, "arguments": {"bytes": 100_000}}, 5)
    line = server.output.readline()
    assert (b'"id": 5' in line[:50], b'"id": 5' in line[-50:]) == (tool == "first", tool == "last")
    assert words(json.loads(line)) == "x" * 100_000


def test_marking_puts_the_mark_on_everything_and_notices_another_s(start: Any) -> None:
    server = start("marking", "legacy", "1")
    given = {"mark": "m", "steps": ["progress", "log", "ask", "sample"]}
    server.write("tools/call", {"name": "run", "arguments": given, "_meta": {"progressToken": 1}}, 1)
    assert server.read()["params"]["message"] == "m"
    assert server.read()["params"]["data"] == "m"
    assert server.read()["params"]["message"] == "m"
    server.send(b'{"id":1,"result":{"action":"accept","content":{"mark":"m"}}}\n')
    assert server.read()["params"]["messages"][0]["content"]["text"] == "m"
    server.send(b'{"id":1,"result":{"role":"assistant","content":{"type":"text","text":"another"}}}\n')
    assert json.loads(words(server.read())) == {"mark": "m", "answered": 1, "refused": 0, "strange": 1}


def test_a_modern_marking_server_comes_back_to_its_state(start: Any) -> None:
    server = start("marking", "modern", "1")
    params = {"_meta": META, "name": "run", "arguments": {"mark": "m", "steps": ["ask", "log"]}}
    result = server.ask("tools/call", params)["result"]
    answer = {"action": "accept", "content": {"mark": "m"}}
    more = {"inputResponses": {"q": answer}, "requestState": result["requestState"]}
    found = server.ask("tools/call", {**params, **more}, 2)
    assert json.loads(words(found)) == {"mark": "m", "answered": 1, "refused": 0, "strange": 0}
