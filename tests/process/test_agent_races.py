"""One agent whose prompts, cancels, ends and starts cross each other, with the scripted agent as its process."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from hearth.config.model import AgentSettings
from hearth.errors import HearthError, Refused
from hearth.masking import Mask
from hearth.packs.agents import acp
from hearth.packs.agents.acp_connection import AcpConnection
from hearth.packs.agents.agent import Agent
from hearth.packs.agents.agent_process import AgentProcess
from hearth.packs.agents.identity.directory import Directory
from hearth.packs.agents.model import AgentRecord, new_agent_id
from hearth.packs.agents.process.launch import Prepared
from hearth.packs.agents.process.session import AgentSession, Answer, Launch
from hearth.packs.agents.providers import Provider
from hearth.packs.agents.timeline import Timeline
from hearth.packs.agents.timeline_items import TimelineItem
from hearth.packs.agents.turn import CANCELLED, TERMINATED
from hearth.upstreams import child_process
from support.agents.launching import echo_command, environment
from support.kernel import BOUND_SECONDS, is_gone

if TYPE_CHECKING:
    from hearth.packs.agents.service import AgentService

pytestmark = pytest.mark.loops("uvloop")

LIMITS = (2**20, 2**20)


class Host:
    """Host of agents without a daemon: only there can a test hold the start of a process, and step between events."""

    def __init__(self, folder: Path) -> None:
        self.settings = AgentSettings()
        self.folder = folder
        self.sessions: list[AgentSession] = []
        self.options: tuple[str, ...] = ()
        self.modes: tuple[str, ...] = ("--modes",)
        # Modes in which an agent never asks, under a policy.
        self.unasked: set[str | None] = set()
        self.is_free = asyncio.Event()
        self.is_free.set()

    async def session_for(self, agent: AgentProcess) -> AgentSession:
        await self.is_free.wait()
        command = echo_command(*self.modes, "--state", str(self.folder / "sessions.json"), *self.options)
        launch = Launch(Prepared(tuple(command), environment(), Mask(())), str(self.folder), [])
        self.sessions.append(AgentSession(Provider("echo", "Echo", tuple(command)), agent, launch, LIMITS))
        return self.sessions[-1]

    def process_ended(self, agent: AgentProcess) -> None: ...

    def may_begin_in(self, agent: AgentProcess, mode: str | None) -> bool:
        return mode not in self.unasked

    def first_instruction(self, agent: Agent) -> str | None:
        return None

    def keep_items(self, agent_id: str, items: Sequence[TimelineItem]) -> None: ...

    def changed(self, agent_id: str) -> None: ...

    def permission_asked(self, agent: Agent, request: acp.PermissionRequest, answer: Answer) -> None: ...

    def turn_ended(self, agent: Agent, failed: bool, is_aborted: bool) -> None: ...

    def pids(self) -> list[int]:
        return [session.pid for session in self.sessions if session.pid]


Make = Callable[[], Agent]


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill after a moment a process that ends neither with its input nor when it is told to."""
    monkeypatch.setattr(child_process, "EOF_GRACE_SECONDS", 0.3)
    monkeypatch.setattr(child_process, "TERM_GRACE_SECONDS", 0.3)


@pytest.fixture
async def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
async def agent(host: Host, tmp_path: Path) -> AsyncIterator[Agent]:
    found = Agent(AgentRecord(id=new_agent_id(), provider="echo", cwd=str(tmp_path)), host, Timeline())
    yield found
    host.is_free.set()
    await found.kill("the test is over")
    assert all(map(is_gone, host.pids()))


async def test_a_prompt_that_replaces_a_turn_does_not_wake_an_agent_that_is_killed_meanwhile(
    host: Host, agent: Agent
) -> None:
    await agent.start(None)
    await agent.prompt("sleep")
    replacing = asyncio.ensure_future(agent.prompt("say two"))
    while agent.turn and not agent.turn.aborted:
        await asyncio.sleep(0)
    await agent.kill("killed by a person")
    with pytest.raises(Refused, match=r"closed \(killed by a person\)"):
        await replacing
    assert agent.is_closed
    assert agent.session is None
    assert len(host.sessions) == 1


@pytest.mark.quick
async def test_a_turn_that_is_cancelled_before_it_was_sent_is_not_done(agent: Agent) -> None:
    await agent.start(None)
    await agent.prompt("say one")
    while agent.turn:
        await asyncio.wait({agent.change()})
    for steps in range(3):
        await agent.prompt("sleep")
        for _ in range(steps):
            await asyncio.sleep(0)
        assert await agent.abort(CANCELLED)
        assert agent.record.status == "idle"
        assert agent.session is not None
        assert not agent.session.is_stuck
    await agent.prompt("say two")
    while agent.turn:
        await asyncio.wait({agent.change()})
    assert agent.record.last_message == "two"


@pytest.mark.parametrize("ignored", [(), ("--no-answer", "session/cancel")])
async def test_a_cancel_whose_caller_has_gone_is_done_to_its_end(
    host: Host, agent: Agent, ignored: tuple[str, ...]
) -> None:
    host.options = ignored
    await agent.start(None)
    await agent.prompt("say one\nsleep")
    turn = agent.turn
    assert turn is not None
    while "one" not in (agent.timeline.last_message or ""):
        await asyncio.sleep(0.01)
    first, second = (asyncio.ensure_future(agent.abort(CANCELLED)) for _ in range(2))
    while not turn.aborted:
        await asyncio.sleep(0)
    for caller in (first, second):
        caller.cancel()
    await asyncio.wait({first, second})
    async with asyncio.timeout(BOUND_SECONDS):
        while agent.turn:
            await asyncio.wait({agent.change()})
    assert (agent.record.status, turn.aborted) == ("idle", CANCELLED)
    host.options = ()
    assert await said(agent, "say two") == "two"


async def test_a_cancel_reaches_a_prompt_whose_process_is_being_opened(host: Host, agent: Agent) -> None:
    host.is_free.clear()
    prompting = asyncio.ensure_future(agent.prompt("say one"))
    telling = asyncio.ensure_future(agent.prompt_if_idle(lambda: "say told"))
    await asyncio.sleep(0)
    assert await agent.cancel() is True
    host.is_free.set()
    with pytest.raises(Refused, match=CANCELLED):
        await prompting
    assert await telling is None
    assert (agent.record.status, agent.record.turn) == ("idle", 0)
    assert await agent.cancel() is False


async def test_a_cancel_reaches_a_prompt_that_replaces_a_turn(agent: Agent) -> None:
    await agent.start(None)
    turn = await agent.prompt("sleep")
    replacing = asyncio.ensure_future(agent.prompt("say two"))
    while not turn.aborted:
        await asyncio.sleep(0)
    assert await agent.cancel() is True
    with pytest.raises(Refused, match=CANCELLED):
        await replacing
    assert (agent.record.status, agent.record.turn) == ("idle", 1)
    assert await said(agent, "say three") == "three"


async def test_a_prompt_with_a_wrong_mode_leaves_the_turn_that_runs(host: Host, agent: Agent) -> None:
    host.modes = ()
    await agent.start(None)
    turn = await agent.prompt("sleep")
    with pytest.raises(Refused, match="has no mode 'plan'"):
        await agent.prompt("say two", "plan")
    assert (agent.turn, turn.aborted) == (turn, None)


async def test_no_turn_of_notices_begins_where_a_prompt_waits(host: Host, agent: Agent) -> None:
    host.is_free.clear()
    telling = asyncio.ensure_future(agent.prompt_if_idle(lambda: "say told"))
    prompting = asyncio.ensure_future(agent.prompt("say one"))
    await asyncio.sleep(0)
    host.is_free.set()
    assert await telling is None
    assert (await prompting).number == 1


async def test_a_cancelled_agent_gets_no_turn_of_notices_before_its_next_prompt(agent: Agent) -> None:
    await agent.start(None)
    await agent.prompt("sleep")
    assert await agent.cancel() is True
    assert await agent.prompt_if_idle(lambda: "say told") is None
    assert await said(agent, "say one") == "one"
    assert await agent.prompt_if_idle(lambda: "say told") is not None


async def test_a_resumed_agent_whose_prompt_is_refused_is_idle_again(host: Host, agent: Agent) -> None:
    await agent.start(None)
    await agent.prompt("say one")
    while agent.turn:
        await asyncio.wait({agent.change()})
    await agent._close_idle()
    assert agent.session is None
    with pytest.raises(Refused, match="no mode 'swift'"):
        await agent.prompt("say two", "swift")
    assert agent.record.status == "idle"
    assert len(host.sessions) == 2


async def test_no_process_starts_after_the_daemon_has_told_the_agent_to_stop(host: Host, agent: Agent) -> None:
    host.is_free.clear()
    starting = asyncio.ensure_future(agent.start(None))
    await asyncio.sleep(0)
    await agent.stop()
    host.is_free.set()
    with pytest.raises(HearthError, match="the daemon shuts down"):
        await starting
    assert host.pids() == []


async def test_a_prompt_that_waits_for_a_process_is_refused_when_the_daemon_tells_the_agent_to_stop(
    host: Host, agent: Agent
) -> None:
    host.options = ("--no-answer", "session/new")
    prompting = asyncio.ensure_future(agent.prompt("say one"))
    while not host.pids():
        await asyncio.sleep(0)
    await agent.stop()
    with pytest.raises(HearthError, match="the daemon shuts down"):
        await prompting


async def test_an_agent_that_is_killed_as_its_session_opens_stays_closed(host: Host, agent: Agent) -> None:
    starting = asyncio.ensure_future(agent.start(None))
    while not (agent._opening and agent._opening.done()):
        await asyncio.sleep(0)
    await agent.kill("killed by a client")
    with pytest.raises(HearthError, match=TERMINATED):
        await starting
    assert agent.is_closed


@pytest.mark.usefixtures("short_grace")
async def test_a_process_that_is_being_ended_still_counts_as_its_agents(host: Host, agent: Agent) -> None:
    host.options = ("--ignore-eof", "--ignore-term")
    await agent.start(None)
    (pid,) = host.pids()
    directory = Directory(cast("AgentService", SimpleNamespace(agents={agent.id: agent})))
    killing = asyncio.ensure_future(agent.kill("killed by a client"))
    while not agent.is_closed:
        await asyncio.sleep(0)
    found = directory.processes()
    await killing
    # A command below the agent must not count as a person's meanwhile.
    assert found == {pid: agent.id}
    assert directory.processes() == {}


async def test_a_follower_keeps_what_it_has_not_read_while_the_agent_floods(agent: Agent) -> None:
    await agent.start(None)
    with agent.follow() as feed:
        await agent.prompt("tool read\nflood 5000")
        while agent.turn:
            await asyncio.wait({agent.change()})
        found = feed.take()
    assert "dropped" not in [each["type"] for each in found]
    assert "tool" in [each["item"]["kind"] for each in found if each["type"] == "item"]


def directory_of(agent: Agent) -> Directory:
    return Directory(cast("AgentService", SimpleNamespace(agents={agent.id: agent})))


async def test_a_kill_that_is_given_up_ends_the_process_all_the_same(host: Host, agent: Agent) -> None:
    host.options = ("--no-answer", "session/close")
    await agent.start(None)
    killing = asyncio.ensure_future(agent.kill("killed by a client"))
    while not agent.is_closed:
        await asyncio.sleep(0)
    # As of a client that has gone, while the agent has not answered `session/close`.
    killing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await killing
    await agent.stop()
    assert all(map(is_gone, host.pids()))


@pytest.mark.parametrize("again", ["kill", "stop"])
@pytest.mark.usefixtures("short_grace")
async def test_an_end_waits_for_one_that_has_begun(host: Host, agent: Agent, again: str) -> None:
    host.options = ("--ignore-eof", "--ignore-term")
    await agent.start(None)
    killing = asyncio.ensure_future(agent.kill("killed by a client"))
    while not agent.is_closed:
        await asyncio.sleep(0)
    await (agent.kill("killed by a person") if again == "kill" else agent.stop())
    assert all(map(is_gone, host.pids()))
    await killing


@pytest.mark.usefixtures("short_grace")
async def test_a_start_that_is_given_up_leaves_no_process_that_a_kill_does_not_wait_for(
    host: Host, agent: Agent
) -> None:
    host.options = ("--ignore-eof", "--ignore-term", "--no-answer", "session/new")
    starting = asyncio.ensure_future(agent.start(None))
    while not host.pids():
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert directory_of(agent).processes() == dict.fromkeys(host.pids(), agent.id)
    await agent.kill("it could not be created")
    assert all(map(is_gone, host.pids()))


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("method", ["initialize", "session/new"])
async def test_an_agent_that_opens_no_session_in_time_is_given_up_with_its_process(
    host: Host, agent: Agent, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    host.options = ("--ignore-eof", "--no-answer", method)
    with monkeypatch.context() as patch:
        patch.setattr("hearth.packs.agents.process.session.OPEN_SECONDS", 0.5)
        with pytest.raises(HearthError, match=r"opened no session within 0\.5 s"):
            await agent.start(None)
    assert len(host.pids()) == 1
    assert all(map(is_gone, host.pids()))
    # The next attempt begins with a new process.
    host.options = ()
    await agent.prompt("say hello")
    while agent.turn:
        await asyncio.wait({agent.change()})
    assert agent.record.last_message == "hello"


async def test_a_process_that_ended_by_itself_counts_as_its_agents_until_its_descendants_are_killed(
    host: Host, agent: Agent
) -> None:
    await agent.start(None)
    directory, (session,) = directory_of(agent), host.sessions
    await agent.prompt("exit 1")
    while agent.session:
        await asyncio.sleep(0)
    # A command that has left the agent's group still runs: its requests must not count as a person's.
    assert directory.marks() == {session.mark: agent.id}
    await agent.stop()
    assert directory.marks() == {}


def option(category: str, value: str) -> dict[str, object]:
    values = [{"value": value, "name": value}]
    return {"id": category, "category": category, "type": "select", "currentValue": value, "options": values}


async def test_an_update_while_the_mode_is_set_is_not_lost(
    host: Host, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await agent.start(None)
    (session,) = host.sessions

    async def set_mode(before: acp.SessionInfo, mode: str) -> acp.SessionInfo:
        update = {"sessionUpdate": "config_option_update", "configOptions": [option("model", "large")]}
        session.updated(before.session_id, update)
        return before._replace(current_mode=mode)

    monkeypatch.setattr(session._connection, "set_mode", set_mode)
    await agent.set_mode("plan")
    assert session.info is not None
    assert (agent.record.mode, agent.record.model, session.info.model) == ("plan", "large", "large")


async def test_a_turn_goes_on_when_an_agent_tells_of_the_mode_that_it_is_just_leaving(
    host: Host, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "may_begin_in", lambda of, mode: mode in ("default", of.record.chosen_mode))
    await agent.start(None)
    await agent.set_mode("plan")
    turn = await agent.prompt("sleep")
    (session,) = host.sessions
    late = {"sessionUpdate": "current_mode_update", "currentModeId": "plan"}

    async def set_mode(before: acp.SessionInfo, mode: str) -> acp.SessionInfo:
        session.updated(before.session_id, late)
        # An abort would be begun by a task.
        await asyncio.sleep(0)
        return before._replace(current_mode=mode)

    monkeypatch.setattr(session._connection, "set_mode", set_mode)
    await agent.set_mode("default")
    assert (agent.record.mode, turn.aborted) == ("default", None)
    assert session.info is not None
    session.updated(session.info.session_id, late)
    async with asyncio.timeout(BOUND_SECONDS):
        while agent.turn:
            await asyncio.wait({agent.change()})
    assert "has switched itself to mode 'plan'" in str(turn.aborted)


async def test_the_mode_is_the_one_that_the_agent_says_it_has_taken(
    host: Host, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await agent.start(None)
    (session,) = host.sessions

    async def set_mode(before: acp.SessionInfo, mode: str) -> acp.SessionInfo:
        return acp.with_config_options(before, {"configOptions": [option("mode", "default")]})

    monkeypatch.setattr(session._connection, "set_mode", set_mode)
    await agent.set_mode("plan")
    assert agent.record.mode == "default"


async def said(agent: Agent, prompt: str) -> str | None:
    """What an agent has said at the end of a turn."""
    await agent.prompt(prompt)
    while agent.turn:
        await asyncio.wait({agent.change()})
    return agent.record.last_message


async def test_an_agent_that_rests_before_its_first_prompt_keeps_its_mode(host: Host, agent: Agent) -> None:
    await agent.start(None)
    await agent.set_mode("plan")
    await agent._close_idle()
    assert await said(agent, "mode") == "plan"
    assert (agent.record.mode, len(host.sessions)) == ("plan", 2)


async def test_no_new_process_works_in_a_mode_that_never_asks_in_place_of_the_agents_own(
    host: Host, agent: Agent
) -> None:
    await agent.start(None)
    await agent.set_mode("plan")
    await agent._close_idle()
    host.modes, host.unasked = (), {None}
    with pytest.raises(HearthError, match=r"cannot go on in its mode 'plan': .* has no mode 'plan'"):
        await agent.prompt("mode")
    assert agent.session is None
    host.unasked = set()
    assert await said(agent, "mode") == "default"
    assert "no longer 'plan'" in [item.data["text"] for item in agent.timeline.items() if item.kind == "error"][-1]


async def test_a_mode_that_could_not_be_restored_is_restored_by_the_next_process(host: Host, agent: Agent) -> None:
    await agent.start(None)
    await agent.set_mode("plan")
    await agent._close_idle()
    host.options = ("--no-answer", "session/set_mode")
    prompting = asyncio.ensure_future(agent.prompt("mode"))
    while not (agent.session and agent.session.info):
        await asyncio.sleep(0)
    prompting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await prompting
    assert agent.session is None
    host.options = ()
    assert await said(agent, "mode") == "plan"


async def test_a_process_ends_although_every_thread_of_the_loop_is_busy(host: Host, agent: Agent) -> None:
    # As with git, which works for a minute in a large repository, and creations that wait for it.
    await agent.start(None)
    loop, is_over = asyncio.get_running_loop(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        loop.set_default_executor(pool)
        pool.submit(is_over.wait, 30)
        try:
            await agent.kill("killed by a person")
            assert not is_over.is_set()
        finally:
            is_over.set()
    assert all(map(is_gone, host.pids()))


async def test_a_history_that_begins_after_the_answer_is_no_news(
    host: Host, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await agent.start(None)
    assert await said(agent, "say one") == "one"
    await agent._close_idle()
    loaded = AcpConnection.load_session

    async def load_session(self: AcpConnection, *given: Any) -> acp.SessionInfo:
        info = await loaded(self, *given)
        # As Gemini CLI does: nothing comes before the answer, and the history a moment later.
        host.sessions[-1]._heard_at = 0.0
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "repeated"}}
        asyncio.get_running_loop().call_later(0.05, host.sessions[-1].updated, info.session_id, chunk)
        return info

    monkeypatch.setattr(AcpConnection, "load_session", load_session)
    assert await said(agent, "sleep 0.2\nsay two") == "two"
    assert "repeated" not in str([item.data for item in agent.timeline.items()])
