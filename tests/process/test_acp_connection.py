"""Coding agents as real child processes: what they answer, send, ask for and refuse, and how they end."""

import asyncio
import logging
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hearth.errors import AgentError
from hearth.packs.agents import acp, acp_connection
from hearth.packs.agents.acp_connection import AcpConnection
from hearth.upstreams import child_process
from hearth.upstreams.stdio import TURN_MESSAGES
from support.agents.launching import Recorder, echo_command, environment
from support.kernel import is_gone, is_over, until

# The loop that the daemon uses.
pytestmark = pytest.mark.loops("uvloop")

LIMITS = (2**20, 2**20)


class Link(AcpConnection):
    """A connection with what its owner was told, and a session."""

    def __init__(self, command: Sequence[str], cwd: str, limits: tuple[int, int], **variables: str) -> None:
        self.events = Recorder()
        super().__init__("echo", self.events, (command, environment(**variables), cwd), limits)
        self.session = acp.SessionInfo("")

    async def start(self, servers: Sequence[dict[str, Any]] = ()) -> "Link":
        await self.open()
        await self.initialize()
        self.session = await self.new_session("/", servers)
        return self

    async def say(self, *commands: str) -> str:
        """What the agent says in a turn with these commands."""
        before = len(self.events.said)
        await self.prompt(self.session.session_id, "\n".join(commands))
        return self.events.said[before:]


Start = Callable[..., Link]


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Start]:
    """Make connections to agents that have to be gone when the test is over."""
    made: list[Link] = []

    def make(*options: str, command: Sequence[str] = (), limits: tuple[int, int] = LIMITS, **variables: str) -> Link:
        made.append(Link(command or echo_command(*options), str(tmp_path), limits, **variables))
        return made[-1]

    yield make
    for link in made:
        await link.stop()
        if link.pid:
            assert is_gone(link.pid)
            # Its pipes are closed by then.
            await link.events.over.wait()


def script(text: str) -> list[str]:
    """A command that starts Python with a script of the test's own."""
    return [sys.executable, "-I", "-S", "-c", "import json, os, sys, time\n" + text]


async def refused(call: Awaitable[object]) -> AgentError:
    with pytest.raises(AgentError) as caught:
        await call
    return caught.value


# --- a conversation


async def test_an_agent_says_what_it_can_and_runs_turns(agent: Start) -> None:
    link = agent("--resume")
    await link.open()
    found = await link.initialize()
    assert (found.load, found.resume, found.close, found.name, found.version) == (True, True, True, "Echo", "1")
    link.session = await link.new_session("/", [])
    end = await link.prompt(link.session.session_id, "say hello")
    assert end == acp.TurnEnd("end_turn", {"inputTokens": 10, "outputTokens": 5})
    assert link.events.said == "hello"
    await link.close_session(link.session.session_id)


async def test_updates_of_every_kind_come_before_the_turn_ends(agent: Start) -> None:
    link = await agent().start()
    await link.say(
        "think hm", "plan", "tool edit", "usage", "compact", "notice slow", "title New", "mode plan", "say ok"
    )
    assert link.events.kinds() == [
        *("agent_thought_chunk", "plan", "tool_call", "tool_call_update", "usage_update"),
        *("compaction_update", "compaction_update", "notice", "session_info_update"),
        *("current_mode_update", "agent_message_chunk"),
    ]
    assert acp.after_update(link.session, link.events.updates[-2]).current_mode == "plan"


async def test_several_texts_are_blocks_of_one_prompt(agent: Start) -> None:
    link = await agent().start()
    await link.prompt(link.session.session_id, "say this is an instruction", "hello")
    assert link.events.said == "echo: hello"


async def test_the_environment_and_the_folder_are_those_of_the_launch(agent: Start, tmp_path: Path) -> None:
    link = await agent(COLOUR="blue").start()
    assert await link.say("env COLOUR", "env HOME", "cwd") == "blueno HOME/"
    assert os.readlink(f"/proc/{link.pid}/cwd") == str(tmp_path)


@pytest.mark.parametrize("way", ["--modes", "--config-modes"])
async def test_modes_are_set_as_the_agent_offers_them(agent: Start, way: str) -> None:
    link = await agent(way).start()
    assert [mode.id for mode in link.session.modes] == ["default", "acceptEdits", "plan", "bypassPermissions"]
    assert link.session.current_mode == "default"
    assert (link.session.mode_option == "mode") == (way == "--config-modes")
    link.session = await link.set_mode(link.session, "plan")
    assert link.session.current_mode == await link.say("mode") == "plan"
    problem = await refused(link.set_mode(link.session, "turbo"))
    assert "refused session/set_" in str(problem) and "Invalid params: no mode turbo (-32602)" in str(problem)


async def test_a_new_process_loads_a_session_with_its_history_or_resumes_it_without(
    agent: Start, tmp_path: Path
) -> None:
    options = ("--resume", "--modes", "--state", str(tmp_path / "state"))
    first = await agent(*options).start()
    await first.say("say one", "mode plan")
    await first.stop()
    loaded, resumed = agent(*options), agent(*options)
    for link in (loaded, resumed):
        await link.open()
        await link.initialize()
    id = first.session.session_id
    session = await loaded.load_session(id, "/", [])
    assert (session.session_id, session.current_mode) == (id, "plan")
    assert [update["content"]["text"] for update in loaded.events.updates] == ["say one\nmode plan", "one"]
    assert (await resumed.resume_session(id, "/", [])).session_id == id
    assert resumed.events.updates == []
    problem = await refused(resumed.load_session("nowhere", "/", []))
    assert problem.code == acp.RESOURCE_NOT_FOUND


async def test_an_agent_that_wants_a_login_says_so_by_its_code(agent: Start) -> None:
    link = agent("--auth", "some-key")
    await link.open()
    assert [method.id for method in (await link.initialize()).auth_methods] == ["some-key"]
    problem = await refused(link.new_session("/", []))
    assert problem.code == acp.AUTH_REQUIRED
    assert str(problem) == "agent 'echo' refused session/new: Authentication required (-32000)"
    await link.authenticate("some-key")
    assert (await link.new_session("/", [])).session_id


async def test_an_error_has_the_reason_that_the_agent_gives_in_its_data(agent: Start) -> None:
    link = await agent().start()
    problem = await refused(link.say("fail out of credit"))
    assert str(problem) == "agent 'echo' refused session/prompt: Internal error: out of credit (-32603)"
    assert await link.say("say still here") == "still here"


async def test_an_agent_calls_tools_of_the_mcp_server_that_it_is_given(agent: Start) -> None:
    server = Path(__file__).parents[1] / "support" / "upstreams" / "echo_server.py"
    assert server.exists()
    entry = acp.stdio_server("tools", sys.executable, [str(server)], {"X": "1"})
    link = await agent().start([entry])
    assert await link.say('mcp echo {"text": "through MCP"}', 'mcp echo {"text": "!"}') == "through MCP!"


# --- cancellation


async def test_a_cancelled_turn_ends_as_cancelled(agent: Start) -> None:
    link = await agent().start()
    turn = asyncio.ensure_future(link.prompt(link.session.session_id, "say begun\nsleep"))
    link.events.on_update = lambda update: link.cancel_turn(link.session.session_id)
    assert (await turn).stop_reason == "cancelled"


async def test_a_request_that_is_given_up_is_cancelled_at_the_agent_and_its_late_answer_dropped(agent: Start) -> None:
    link = agent(
        command=script(
            "first = json.loads(sys.stdin.readline())\n"
            "note = json.loads(sys.stdin.readline())\n"
            "asked = json.loads(sys.stdin.readline())\n"
            "for id, result in ((first['id'], {'late': 1}), (asked['id'], {'note': note})):\n"
            "    print(json.dumps({'jsonrpc': '2.0', 'id': id, 'result': result}), flush=True)\n"
            "sys.stdin.read()"
        )
    )
    await link.open()
    call = asyncio.ensure_future(link.call("slow", {}, None))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    note = (await link.call("quick", {}, None))["note"]
    assert note == {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}


async def test_a_call_has_a_time_limit_and_says_what_the_agent_wrote_last(
    agent: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp_connection, "INITIALIZE_SECONDS", 0.3)
    silent = "print('update available', flush=True)\nprint('npm WARN old', file=sys.stderr)\nsys.stdin.read()"
    link = agent(command=script(silent))
    await link.open()
    problem = str(await refused(link.initialize()))
    assert problem.startswith("agent 'echo' did not answer initialize within 0.3 s; its last lines: npm WARN old | ")
    assert problem.endswith("printed to stdout, which is for ACP only: update available")


@pytest.mark.parametrize(
    ("method", "limit", "call"),
    [
        ("authenticate", "AUTHENTICATE_SECONDS", lambda link: link.authenticate("key")),
        ("session/new", "OPEN_SECONDS", lambda link: link.new_session("/", [])),
        ("session/load", "OPEN_SECONDS", lambda link: link.load_session("s", "/", [])),
        ("session/resume", "OPEN_SECONDS", lambda link: link.resume_session("s", "/", [])),
        ("session/set_mode", "SETTING_SECONDS", lambda link: link.set_mode(link.session, "plan")),
        ("session/close", "CLOSE_SECONDS", lambda link: link.close_session("s")),
    ],
)
async def test_every_call_but_a_prompt_has_a_limit(
    agent: Start, monkeypatch: pytest.MonkeyPatch, method: str, limit: str, call: Callable[[Link], Awaitable[object]]
) -> None:
    link = agent("--no-answer", method)
    await link.open()
    await link.initialize()
    monkeypatch.setattr(acp_connection, limit, 0.05)
    assert f"did not answer {method} within 0.05 s" in str(await refused(call(link)))


# --- permissions and other requests of the agent


async def test_a_permission_request_is_answered_once_with_an_option_that_was_offered(agent: Start) -> None:
    link = await agent().start()

    def answer(request: acp.PermissionRequest, say: Callable[[str | None], None]) -> None:
        with pytest.raises(ValueError, match="no option 'anything' was offered"):
            say("anything")
        say(acp.choose_option(request.options, allow=True))
        say(None)

    link.events.on_question = answer
    assert await link.say("ask execute") == "selected allow"
    request = link.events.asked[0]
    assert request.session_id == link.session.session_id
    assert acp.tool_name(request.tool_call) == "Bash"
    assert request.tool_call["rawInput"] == {"command": "git push origin main"}
    assert link.events.withdrawn == []


async def test_permission_requests_may_be_answered_later_and_in_any_order(agent: Start) -> None:
    link = await agent().start()
    turn = asyncio.ensure_future(link.say("ask-many 3"))
    await link.events.until(lambda: len(link.events.answers) == 3)
    for number, option in ((2, "reject"), (0, "allow"), (1, None)):
        link.events.answers[number](option)
    assert await turn == "selected allow; cancelled; selected reject"


async def test_a_cancelled_turn_answers_its_permission_requests_as_cancelled(agent: Start) -> None:
    link = await agent().start()
    turn = asyncio.ensure_future(link.prompt(link.session.session_id, "ask-many 2"))
    await link.events.until(lambda: len(link.events.answers) == 2)
    link.cancel_turn("another session")
    assert link.events.withdrawn == []
    link.cancel_turn(link.session.session_id)
    assert (await turn).stop_reason == "cancelled"
    assert link.events.said == "cancelled; cancelled"
    assert link.events.withdrawn == link.events.asked
    # An approval that comes now is too late.
    link.events.answers[0]("allow")
    assert await link.say("say next") == "next"


async def test_a_permission_request_that_the_agent_withdraws_is_answered_as_such(agent: Start) -> None:
    link = await agent().start()
    assert await link.say("ask-withdrawn edit") == f"error {acp.REQUEST_CANCELLED}"
    assert link.events.withdrawn == link.events.asked != []
    link.events.answers[0]("allow")


async def test_a_failure_over_a_permission_request_does_not_leave_the_agent_waiting(agent: Start) -> None:
    link = await agent().start()

    def fail(request: acp.PermissionRequest, say: Callable[[str | None], None]) -> None:
        raise RuntimeError("a bug")

    link.events.on_question = fail
    assert await link.say("ask edit") == "cancelled"


async def test_more_permission_requests_than_are_kept_are_refused(
    agent: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp_connection, "PERMISSIONS_LIMIT", 2)
    link = await agent().start()
    turn = asyncio.ensure_future(link.say("ask-many 4"))
    await link.events.until(lambda: "agent_thought_chunk" in link.events.kinds())
    for answer in link.events.answers:
        answer("allow")
    assert await turn == "selected allow; selected allow; error -32603; error -32603"


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create", "elicitation/create", "ping", "_x/y"])
async def test_whatever_else_the_agent_asks_for_is_not_offered(agent: Start, method: str) -> None:
    link = await agent().start()
    assert await link.say(f"request {method}") == "error -32601"


# --- agents that do as they please


async def test_garbage_is_dropped_and_costs_nothing_else(agent: Start, caplog: pytest.LogCaptureFixture) -> None:
    link = await agent().start()
    assert await link.say("garbage", "say fine") == "fine"
    odd = next(update for update in link.events.updates if update.get("toolCallId") == "odd")
    assert odd == {"sessionUpdate": "tool_call", "toolCallId": "odd", "locations": [{"path": "/a"}]}
    assert link.events.asked == []
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any(text.startswith("not ACP on its stdout") and "update available!" in text for text in messages)
    assert "MCP" not in "".join(messages)
    assert len(messages) <= 5


async def test_second_answers_and_answers_to_nothing_are_dropped(agent: Start) -> None:
    link = await agent().start()
    assert await link.prompt(link.session.session_id, "twice") == acp.TurnEnd("end_turn", {})
    assert await link.say("say fine") == "fine"


async def test_what_is_no_protocol_of_ours_is_refused_with_its_version(agent: Start) -> None:
    answer = "first = json.loads(sys.stdin.readline())\nprint(json.dumps({'jsonrpc': '2.0', 'id': first['id'], %s}))"
    for result, expected in (
        ("'result': {'protocolVersion': 2}", "it speaks version 2 of ACP, and Hearth speaks version 1"),
        ("'result': 'hello'", "answered initialize with a str instead of an object"),
        ("'error': 'no'", "refused initialize: an error without a message (0)"),
    ):
        link = agent(command=script(answer % result + "\nsys.stdout.flush()\nsys.stdin.read()"))
        await link.open()
        assert expected in str(await refused(link.initialize()))


async def test_a_session_without_an_id_is_an_error(agent: Start) -> None:
    link = agent(
        command=script(
            "for line in sys.stdin:\n"
            "    print(json.dumps({'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'result': None}), flush=True)"
        )
    )
    await link.open()
    assert "it opened a session without an id" in str(await refused(link.new_session("/", [])))
    # An empty answer is enough for one that has an id already.
    assert (await link.load_session("s", "/", [])).session_id == "s"


async def test_a_program_that_prints_anything_but_messages_is_ended(agent: Start) -> None:
    link = agent(command=["/bin/sh", "-c", "exec yes garbage"])
    await link.open()
    problem = await refused(link.initialize())
    assert str(problem).startswith("agent 'echo' floods its stdout with what is not ACP, and was ended")


async def test_a_flood_of_updates_leaves_every_turn_of_the_loop_to_others(agent: Start) -> None:
    link = await agent().start()
    in_this_turn = most = 0

    def count(update: dict[str, Any]) -> None:
        nonlocal in_this_turn, most
        in_this_turn += 1
        most = max(most, in_this_turn)

    link.events.on_update = count
    turn = asyncio.ensure_future(link.prompt(link.session.session_id, "flood 30000"))
    while not turn.done():
        in_this_turn = 0
        await asyncio.sleep(0)
    assert link.events.said == "x" * 30000
    # The end of one turn and the beginning of the next may both come between two looks.
    assert most <= 2 * TURN_MESSAGES


async def test_a_message_over_the_limit_fails_its_call_only(agent: Start) -> None:
    link = await agent(limits=(20_000, 2**20)).start()
    assert await link.say("huge 30000", "say fine") == "fine"
    answer = "print(json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': {'x': 'x' * 30000}}), flush=True)"
    other = agent(command=script(f"sys.stdin.readline()\n{answer}\nsys.stdin.read()"), limits=(20_000, 2**20))
    await other.open()
    problem = str(await refused(other.initialize()))
    assert problem.startswith("agent 'echo' gave an unusable answer") and "message_limit" in problem


async def test_an_agent_that_does_not_read_is_reported_when_its_input_is_full(agent: Start) -> None:
    link = agent(command=script("time.sleep(600)"), limits=(2**20, 2**20))
    await link.open()
    calls = [asyncio.ensure_future(link.prompt("s", "x" * 2**20)) for _ in range(4)]
    done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_EXCEPTION)
    assert "agent 'echo' does not read its input" in str(done.pop().exception())
    for call in waiting:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    os.kill(link.pid, signal.SIGKILL)


# --- the end of the process


async def test_an_exit_in_mid_call_names_the_code_and_the_last_lines(agent: Start) -> None:
    link = await agent().start()
    problem = await refused(link.say("say begun", "exit 3"))
    last = "its last lines: echo_agent: the model is gone | echo_agent: exit with 3"
    assert str(problem) == f"agent 'echo' ended (exit code 3) before it answered; {last}"
    assert link.events.said == "begun"
    await link.events.over.wait()
    assert link.events.endings == [f"it ended by itself (exit code 3); {last}"]
    assert "ended (exit code 3)" in str(await refused(link.say("say more")))
    link.tell("session/cancel", {"sessionId": "s"})


async def test_the_end_withdraws_open_permission_requests(agent: Start) -> None:
    link = await agent().start()
    turn = asyncio.ensure_future(link.say("ask edit"))
    await link.events.until(lambda: link.events.asked)
    os.kill(link.pid, signal.SIGKILL)
    assert "ended (signal 9)" in str(await refused(turn))
    await link.events.over.wait()
    assert link.events.withdrawn == link.events.asked != []
    link.events.answers[0]("allow")


async def test_a_stop_in_mid_turn_fails_the_turn_and_is_no_end_by_itself(agent: Start) -> None:
    link = await agent().start()
    turn = asyncio.ensure_future(link.say("say begun\nsleep"))
    await link.events.until(lambda: link.events.said)
    await link.stop()
    assert "ended (exit code 0) before it answered" in str(await refused(turn))
    assert link.events.endings == ["it was stopped"]


async def test_a_program_that_is_not_there_is_an_error_of_the_agent(agent: Start) -> None:
    link = agent(command=["no-such-agent"])
    problem = await refused(link.open())
    assert str(problem).startswith("agent 'echo' could not be started: its command 'no-such-agent' was not found")
    await link.stop()


async def test_secrets_in_last_lines_and_errors_are_masked(agent: Start) -> None:
    link = agent()
    link.mask = lambda text: text.replace("hunter2", "***")
    await link.start()
    assert "reason *** (-32603)" in str(await refused(link.say("fail the reason hunter2")))


def watched(link: Link, path: Path) -> int:
    """The reading end of a pipe whose other end the agent and its children inherit, and hold as long as they live."""
    os.mkfifo(path)
    argv, variables, cwd = link._launch
    link._launch = (["/bin/sh", "-c", f"exec 9>{shlex.quote(str(path))}; exec {shlex.join(argv)}"], variables, cwd)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


@pytest.mark.loops("uvloop", "asyncio")
@pytest.mark.parametrize("options", [(), ("--ignore-eof",), ("--ignore-eof", "--ignore-term")])
async def test_a_stop_leaves_no_process_of_the_group_whatever_they_ignore(
    agent: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(child_process, "EOF_GRACE_SECONDS", 0.3)
    monkeypatch.setattr(child_process, "TERM_GRACE_SECONDS", 0.3)
    link = agent("--grandchild", *options)
    pipe = watched(link, tmp_path / "held")
    await link.start()
    grandchild = int(await link.say("grandchild"))
    assert os.getpgid(grandchild) == link.pid and not is_over(pipe)
    await link.stop()
    assert is_gone(link.pid)
    assert is_over(pipe, 10), "a process of the group lives on"
    until(lambda: is_gone(grandchild), "the grandchild is killed")
    os.close(pipe)


async def test_a_grandchild_that_is_left_behind_ends_with_an_agent_that_exits_by_itself(agent: Start) -> None:
    link = await agent("--grandchild").start()
    grandchild = int(await link.say("grandchild"))
    await refused(link.say("exit 0"))
    await link.events.over.wait()
    until(lambda: is_gone(grandchild), "the grandchild is killed")
