"""Servers that come and go by themselves, with real processes: nobody who uses them notices."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator

import pytest

from hearth.config import ServerSpec
from hearth.mcp import isolation, versions
from hearth.upstreams import supervision
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.connection import Owner
from hearth.upstreams.instance import Instance
from hearth.upstreams.stdio import StdioConnection
from hearth.upstreams.supervision import READY, STOPPED
from support.clients import text_of
from support.daemon import Scratch, pids_of, server
from support.kernel import is_gone, until
from unit import conversations

# Short enough for a test, and long enough that what is called in between keeps it alive.
IDLE_SECONDS = 0.5
# A server that runs has to be given the time to answer; one that is stopped never will.
CHECK_SECONDS = 0.3


def test_a_server_that_nobody_calls_is_ended_and_comes_back_with_the_next_call(scratch: Scratch) -> None:
    client = scratch.serve({"echo": server("echo", upstream_idle=IDLE_SECONDS)}).lines()
    tools = client.tools()
    assert text_of(client.call("echo__echo", text="one")) == "one"
    (pid,) = pids_of(scratch, "echo")
    until(lambda: scratch.upstream("echo")["state"] == "idle", "it is idle")
    assert is_gone(pid)
    found = scratch.upstream("echo")
    assert (found["pids"], found["error"], found["restarts"], found["tools"]) == ([], None, 0, len(tools))
    assert [instance["sessions"] for instance in found["instances"]] == [1]
    assert client.tools() == tools
    assert scratch.upstream("echo")["state"] == "idle", "a list wakes nobody"
    assert text_of(client.call("echo__echo", text="two")) == "two"
    assert pids_of(scratch, "echo") != [pid]
    assert [message for message in client.aside if "list_changed" in message.get("method", "")] == []


def test_a_server_of_one_conversation_is_not_idle_unless_its_entry_says_so(scratch: Scratch) -> None:
    scratch.serve(
        {
            "kept": server("echo", isolation="session"),
            "let": server("echo", isolation="session", upstream_idle=IDLE_SECONDS),
        }
    )
    client = scratch.lines()
    for name in ("kept", "let"):
        client.call(f"{name}__echo", text="x")
    until(lambda: scratch.upstream("let")["state"] == "idle", "the one is idle")
    assert scratch.upstream("kept")["state"] == "ready"


@contextlib.asynccontextmanager
async def running(**keys: object) -> AsyncIterator[Instance]:
    """An instance of the echo server in this very process, so that a test may shorten its times."""
    spec = ServerSpec(name="echo", **{**server("echo"), **keys})  # type: ignore[arg-type]

    async def connect(owner: Owner, tenant: ClientContext) -> StdioConnection:
        return StdioConnection("echo", owner, ([sys.executable, *spec.args], dict(os.environ), "/"), (2**20, 2**20))

    audience = conversations.Audience()
    one = Instance(spec, isolation.SHARED, ClientContext("1"), versions.LEGACY, connect, b"{}", audience)
    try:
        await one.ensure()
        yield one
    finally:
        await one.retire()


async def test_a_server_that_hangs_is_ended_and_the_next_call_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "CHECK_SECONDS", CHECK_SECONDS)
    async with running() as one:
        (pid,) = one.pids
        os.kill(pid, signal.SIGSTOP)
        await conversations.until(lambda: one.state == STOPPED, "it is ended")
        assert is_gone(pid)
        assert one.error == "it left 3 checks unanswered and was ended"
        await one.ensure()
        assert one.state == READY
        assert one.pids != [pid]


async def test_a_server_that_answers_its_checks_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "CHECK_SECONDS", CHECK_SECONDS)
    async with running() as one:
        pids = one.pids
        state = one.supervisor
        await conversations.until(lambda: state.state.checks >= 3, "it was checked")
        await asyncio.sleep(0)
        assert (one.state, one.pids, one.restarts) == (READY, pids, 0)


def test_servers_that_exit_right_behind_their_first_list_do_not_stay_starting(scratch: Scratch) -> None:
    names = [f"brief{number}" for number in range(8)]
    client = scratch.serve({name: server("dying", "--behind", "tools/list") for name in names}).lines()
    # Together: the exit of one is then noticed in the turn of the loop in which its answer is.
    calls = [client.begin_call(f"{name}__echo", text="x") for name in names]
    # A server that was ready for a moment may have taken its call. No call waits for a start that never ends.
    assert all("error" in answer or text_of(answer) == "x" for answer in map(client.answer_to, calls))
    for name in names:
        until(lambda name=name: scratch.upstream(name)["state"] != "starting", f"the start of {name} has ended")
