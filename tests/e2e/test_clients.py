"""Clients that really exist, with two servers that really exist: the Python SDK through the bridge, and socat."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.client import ConnectMode

from support.clients import MODERN, Message, modern
from support.daemon import Scratch
from support.kernel import BOUND_SECONDS, pids_at_home, until
from support.requirements import needs_program

BIN = os.path.dirname(sys.executable)
TIME = {"command": os.path.join(BIN, "mcp-server-time"), "args": ["--local-timezone", "UTC"]}
CONVERSION = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
# Two servers on the SDK are a second's work to start on a machine that does something else, too.
PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def home() -> Iterator[Scratch]:
    """A scratch home with both servers in the config and a repository to look at."""
    with Scratch() as scratch:
        repository = str(scratch.home / "repository")
        commit = ["-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "Lit"]
        for words in (["init", "-q", "-b", "trunk", repository], ["-C", repository, *commit]):
            subprocess.run([needs_program("git"), *words], env=scratch.environment(), timeout=BOUND_SECONDS, check=True)
        git = {"command": os.path.join(BIN, "mcp-server-git"), "args": ["--repository", repository]}
        scratch.configure({"time": TIME, "git": git}, list_timeout=PATIENCE_SECONDS, idle_timeout=600)
        try:
            yield scratch
        finally:
            # A daemon that a bridge started is nobody's child.
            if os.path.lexists(scratch.socket):
                scratch.control().control("shutdown")
                until(lambda: not pids_at_home(str(scratch.home)), "the daemon has gone", PATIENCE_SECONDS)


def printed_command(scratch: Scratch) -> StdioServerParameters:
    """What `hearth connect --print` tells a person to paste into a client."""
    printed = subprocess.run(
        [os.path.join(BIN, "hearth"), "connect", "--print"],
        env=scratch.environment(),
        capture_output=True,
        timeout=BOUND_SECONDS,
        check=True,
    )
    entry = json.loads(printed.stdout)["mcpServers"]["hearth"]
    return StdioServerParameters(command=entry["command"], args=entry["args"], env=scratch.environment())


async def converse(scratch: Scratch, mode: ConnectMode) -> str:
    """List the tools of both servers and call one of each at the same time; returns the version that was agreed on."""
    async with Client(printed_command(scratch), mode=mode, read_timeout_seconds=PATIENCE_SECONDS) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"time__convert_time", "time__get_current_time", "git__git_log", "git__git_status"} <= names
        repository = str(scratch.home / "repository")
        converted, history = await asyncio.gather(
            client.call_tool("time__convert_time", CONVERSION),
            client.call_tool("git__git_log", {"repo_path": repository}),
        )
        assert "21:00" in _text(converted)
        assert "Lit" in _text(history)
        assert not converted.is_error
        assert not history.is_error
        refused = await client.call_tool("time__convert_time", {**CONVERSION, "target_timezone": "Nowhere"})
        assert refused.is_error
        # One that was told the version asks nobody for a name.
        assert client.server_info is None or client.server_info.name == "hearth"
        return client.protocol_version


def _text(result: Any) -> str:
    return str(result.content[0].text)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("mode", "version"), [("auto", MODERN), ("legacy", "2025-11-25"), (MODERN, MODERN)])
async def test_the_python_sdk_lists_and_calls_tools_of_two_servers(
    home: Scratch, mode: ConnectMode, version: str
) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await converse(home, mode) == version


@pytest.mark.timeout(120)
async def test_clients_of_both_eras_at_once_share_one_process_per_server(home: Scratch) -> None:
    modes: list[ConnectMode] = ["auto", "legacy", "auto", "legacy"]
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*(converse(home, mode) for mode in modes))
    # Both servers speak both eras; clients of the other one are translated.
    for name, upstream in zip(("time", "git"), home.status()["upstreams"], strict=True):
        assert (upstream["name"], upstream["state"]) == (name, "ready")
        assert [len(instance["pids"]) for instance in upstream["instances"]] == [1]


# --- socat


@pytest.fixture
def lit(home: Scratch) -> Scratch:
    """The same home with a daemon in it: socat starts none."""
    if not os.path.lexists(home.socket):
        home.start()
    return home


def requests(scratch: Scratch, era: str) -> list[Message]:
    """An opening, the list, and a call of each server."""
    repository = str(scratch.home / "repository")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "socat", "version": "1"}}
    found: list[tuple[str, Message]] = [
        ("tools/list", {}),
        ("tools/call", {"name": "time__convert_time", "arguments": CONVERSION}),
        ("tools/call", {"name": "git__git_log", "arguments": {"repo_path": repository}}),
    ]
    found.insert(0, ("initialize", hello) if era == "legacy" else ("server/discover", {}))
    return [
        {"jsonrpc": "2.0", "id": id, "method": method, "params": modern(**params) if era == "modern" else params}
        for id, (method, params) in enumerate(found, 1)
    ]


def assert_served(answers: list[Message]) -> None:
    by_id = {answer["id"]: answer["result"] for answer in answers}
    assert sorted(by_id) == [1, 2, 3, 4]
    assert {"time__convert_time", "git__git_log"} <= {tool["name"] for tool in by_id[2]["tools"]}
    assert "21:00" in by_id[3]["content"][0]["text"]
    assert "Lit" in by_id[4]["content"][0]["text"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_socat_is_a_working_bridge(lit: Scratch, era: str) -> None:
    with subprocess.Popen(
        [needs_program("socat"), "-t60", "-", f"UNIX-CONNECT:{lit.socket}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        answers = []
        for request in requests(lit, era):
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(BOUND_SECONDS) == 0
    assert_served(answers)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_an_echo_piped_into_socat_gets_every_answer(lit: Scratch, era: str) -> None:
    needs_program("socat")
    text = "\n".join(json.dumps(request) for request in requests(lit, era))
    # printf, because dash's echo reads backslashes; without a last line end, which is echo's -n.
    command = f"printf %s {shlex.quote(text)} | socat -t5 - UNIX-CONNECT:{lit.socket}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=PATIENCE_SECONDS, check=True)
    assert done.stderr == b""
    assert_served([json.loads(line) for line in done.stdout.splitlines()])
