"""`hearth serve --transport stdio` on Windows: the client's pipes cannot be polled there, and threads read them."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from house import ECHO, LIMIT_SECONDS, House

SERVE = [sys.executable, "-I", "-m", "hearth", "serve", "--transport", "stdio"]


def message(id: int, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


@pytest.fixture
def process(house: House) -> "Iterator[subprocess.Popen[bytes]]":
    house.write(echo=ECHO)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*SERVE, *house.places.arguments()], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0
    ) as found:
        yield found
        found.kill()


def test_a_client_is_served_and_the_end_of_its_input_is_the_end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin and process.stdout
    info = {"name": "t", "version": "1"}
    process.stdin.write(message(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info))
    first = process.stdout.readline()
    assert json.loads(first)["result"]["serverInfo"]["name"] == "hearth"
    assert first.endswith(b"}\n") and b"\r" not in first
    process.stdin.write(message(2, "tools/call", name="echo__echo", arguments={"text": "wörds"}))
    process.stdin.close()
    answers = [json.loads(line) for line in process.stdout.read().splitlines()]
    assert [answer["result"]["content"][0]["text"] for answer in answers] == ["wörds"]
    assert process.wait(LIMIT_SECONDS) == 0


def test_a_read_that_waits_does_not_hold_the_end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin and process.stdout
    process.stdin.write(message(1, "ping"))
    assert json.loads(process.stdout.readline())["result"] == {}
    process.stdout.close()
    # Nobody reads the answer; the input stays open.
    process.stdin.write(message(2, "ping"))
    assert process.wait(LIMIT_SECONDS) == 0
