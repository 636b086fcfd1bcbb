"""Attribution of real processes to agents and clients. The agents are those of a fake directory."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hearth.daemon.attribution import CALLERS_LIMIT, Attribution
from hearth.errors import PersonRequired, Refused
from hearth.host import processes
from hearth.host.marked_processes import SERVER_MARK
from hearth.hub.agent_directory import MARK
from hearth.hub.hub import Hub
from hearth.hub.sessions import Session
from support.kernel import until
from unit.hub.authorization.agents_stage import AgentStage, FakeAgents
from unit.hub.outlets import Kept
from unit.hub.whole_hub import Stage

# Starts another of itself as often as it is told, prints the pids from the outermost on, and waits for its input.
NEST = """
import os, subprocess, sys
left = int(sys.argv[2])
print(os.getpid(), flush=True)
if left:
    subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[1], str(left - 1)])
else:
    sys.stdin.read()
"""


# Becomes the program in its words after its parent has ended.
ORPHAN = "import os, sys; os.fork() and os._exit(0); os.execv(sys.argv[1], sys.argv[1:])"


@contextmanager
def nested(depth: int, orphaned: bool = False) -> Iterator[list[int]]:
    """Processes, each the child of the one before, and the first one a child of this process unless it is `orphaned`.

    This process stands for the daemon: its children are MCP servers and agents, and a person's process is no child.
    """
    nest = [sys.executable, "-c", NEST, NEST, str(depth - 1)]
    command = [sys.executable, "-c", ORPHAN, *nest] if orphaned else nest
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as outermost:
        assert outermost.stdout
        yield [int(outermost.stdout.readline()) for _ in range(depth)]
        outermost.communicate()


class Scene:
    """A hub with agents, with a policy or without one."""

    def __init__(self, folder: Path, ruled: bool) -> None:
        self.hub: Hub = Stage(folder).hub
        self.agents = self.hub.agents = FakeAgents()
        if ruled:
            self.hub.policy.guard = AgentStage(folder).guard
        self.attribution = Attribution(self.hub)

    def session(self, pid: int, agent: str | None = None) -> Session:
        session = self.hub.open_session(Kept(), "lines", proven=(None, agent))
        session.identify(pid)
        return session


def stranger(pid: int) -> Session:
    """A session that the hub does not know."""
    found = Session(Kept(), "lines")
    found.identify(pid)
    return found


@pytest.fixture(params=[False, True], ids=["no policy", "policy"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return Scene(tmp_path, request.param)


async def test_a_process_below_an_agent_s_counts_as_the_agent_without_a_session(scene: Scene) -> None:
    scene.agents.add("a1", "dev", cwd="/work")
    with nested(3) as (root, _, innermost):
        scene.agents.pids = {root: "a1"}
        assert await scene.attribution.owner_of(innermost) == ([], "a1", False)
        assert await scene.attribution.agent_above(stranger(innermost)) == "a1"
        found = await scene.attribution.attributed(innermost)
        assert found is not None
        assert (found.proven, found.is_agent, len(scene.hub.sessions)) == (("dev", "a1"), True, 0)
        session = scene.session(os.getpid(), "a1")
        assert await scene.attribution.attributed(root) is session
        assert await scene.attribution.agent_above(stranger(os.getpid())) is None


async def test_sessions_above_are_those_of_clients_above_and_not_of_the_client_itself(scene: Scene) -> None:
    with nested(3) as (outermost, _, innermost):
        outer, inner, again = (scene.session(pid) for pid in (outermost, innermost, innermost))
        unknown = scene.hub.open_session(Kept(), "lines")
        assert await scene.attribution.sessions_above(inner) == [outer]
        assert await scene.attribution.sessions_above(again) == [outer]
        assert await scene.attribution.sessions_above(outer) == []
        assert await scene.attribution.sessions_above(unknown) == []


async def test_of_nested_agents_the_nearest_counts(scene: Scene) -> None:
    scene.agents.add("a1")
    scene.agents.add("a2")
    with nested(3) as (root, middle, innermost):
        scene.agents.pids = {root: "a1", middle: "a2"}
        assert [(await scene.attribution.owner_of(pid)).agent for pid in (root, middle, innermost)] == [
            "a1",
            "a2",
            "a2",
        ]


async def test_a_client_below_an_agent_counts_as_the_agent(scene: Scene) -> None:
    scene.agents.add("a1")
    with nested(3) as (root, middle, innermost):
        scene.agents.pids = {root: "a1"}
        scene.session(middle)
        assert (await scene.attribution.owner_of(innermost)).agent == "a1"


async def test_a_process_that_has_ended_is_no_person_s(scene: Scene) -> None:
    scene.agents.add("a1")
    with nested(1) as (gone,):
        scene.agents.pids = {os.getpid(): "a1"}
    with pytest.raises(Refused, match="has ended, so nothing tells"):
        await scene.attribution.owner_of(gone)


async def test_without_agents_and_a_policy_nobody_is_looked_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ruled=False)
    assert await scene.attribution.owner_of(-1) == ([], None, False)
    scene.hub.agents = None
    assert (await scene.attribution.attributed(-1), await scene.attribution.agent_above(stranger(-1))) == (None, None)


async def test_a_person_beside_an_agent_is_a_person(scene: Scene) -> None:
    scene.agents.add("a1")
    with nested(1) as (agent,), nested(1, orphaned=True) as (person,):
        scene.agents.pids = {agent: "a1"}
        assert await scene.attribution.attributed(person) is None


async def test_a_process_below_the_daemon_itself_is_no_person_s_where_there_is_a_policy(scene: Scene) -> None:
    scene.agents.add("a1")
    with nested(1) as (agent,), nested(2) as (_, tool):
        scene.agents.pids = {agent: "a1"}
        if scene.hub.policy.guard is None:
            assert await scene.attribution.attributed(tool) is None
            return
        # Another client's bridge started this daemon, and has nothing to do with the tools of its servers.
        scene.session(os.getppid())
        assert await scene.attribution.owner_of(tool) == ([], None, True)
        with pytest.raises(PersonRequired, match="below an MCP server"):
            await scene.attribution.attributed(tool)


async def test_a_client_below_an_mcp_server_counts_as_itself(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ruled=True)
    with nested(3) as (_, client, command):
        session = scene.session(client)
        assert await scene.attribution.attributed(command) is session


@pytest.mark.parametrize("name", [SERVER_MARK, "OTHER"])
async def test_a_process_that_has_left_its_server_is_known_by_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scene = Scene(tmp_path, ruled=True)
    monkeypatch.setenv(name, "shell")
    with nested(2, orphaned=True) as (_, tool):
        owner = await scene.attribution.owner_of(tool)
        assert owner == ([], None, name == SERVER_MARK)


async def test_a_connection_from_below_an_agent_is_the_agent_s_whatever_token_it_shows(tmp_path: Path) -> None:
    ruled, free = Scene(tmp_path / "a", ruled=True), Scene(tmp_path / "b", ruled=False)
    with nested(2) as (root, below), nested(1, orphaned=True) as (beside,):
        for scene in (ruled, free):
            scene.agents.add("a1", "dev")
            scene.agents.pids = {root: "a1"}
            for token in ("hearth-agent-a1", "hearth-agent-a2", "anything"):
                assert scene.attribution.origin(beside, token) is None
                assert scene.attribution.origin(below, token) == ("dev", "a1")
            assert scene.attribution.origin(beside, None) is None
        assert free.attribution.origin(below, None) == ("dev", "a1")
        with pytest.raises(Refused, match="needs the agent's token"):
            ruled.attribution.origin(below, None)
    await asyncio.to_thread(until, lambda: not Path(f"/proc/{below}").exists(), "the processes are gone")
    # Left at once: nothing tells any more whether it was an agent's.
    with pytest.raises(Refused, match="has ended, so nothing tells"):
        free.attribution.origin(below, None)
    with pytest.raises(Refused, match="has ended, so nothing tells"):
        ruled.attribution.origin(below, "hearth-agent-a1")


async def test_what_an_agent_has_left_behind_is_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a daemon that was killed: its agents' marks are unknown to this one."""
    monkeypatch.setenv(MARK, "ours.of-a-former-daemon")
    with nested(1, orphaned=True) as (left,):
        monkeypatch.setenv(MARK, "another-profile's")
        with nested(1, orphaned=True) as (foreign,):
            with pytest.raises(Refused, match="has ended, so it counts as no person and no agent"):
                await scene.attribution.attributed(left)
            assert await scene.attribution.attributed(foreign) is None
            scene.agents.add("a1")
            scene.agents.pids = {-1: "a1"}
            with pytest.raises(Refused, match="has ended, so it counts as no person and no agent"):
                scene.attribution.origin(left, None)
            assert scene.attribution.origin(foreign, None) is None
            scene.agents.marked = {"ours.of-a-former-daemon": "a1"}
            assert (await scene.attribution.owner_of(left)).agent == "a1"


# --- clients over HTTP


async def test_processes_of_a_session_over_http_are_its_clients_while_they_live(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ruled=True)
    session = scene.hub.open_session(Kept(), "http")
    with nested(2, orphaned=True) as (client, command), nested(1, orphaned=True) as (person,):
        assert await scene.attribution.attributed(command) is None
        scene.attribution.called_by(session, client)
        assert await scene.attribution.attributed(command) is session
        assert await scene.attribution.attributed(person) is None
    # Gone: nothing is known of it.
    scene.attribution.called_by(session, client)


async def test_a_client_over_http_is_below_an_agent_if_a_process_of_its_requests_is(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ruled=True)
    scene.agents.add("a1")
    session = scene.hub.open_session(Kept(), "http")
    with nested(2) as (root, below), nested(1, orphaned=True) as (beside,):
        scene.agents.pids = {root: "a1"}
        with nested(1, orphaned=True) as (gone,):
            scene.attribution.called_by(session, gone)
        await asyncio.to_thread(until, lambda: processes.start_time(gone) is None, "the process is gone")
        scene.attribution.called_by(session, beside)
        assert await scene.attribution.agent_above(session) is None
        scene.attribution.called_by(session, below)
        assert await scene.attribution.agent_above(session) == "a1"


async def test_a_pid_that_has_another_owner_by_now_is_no_client_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, ruled=True)
    session = scene.hub.open_session(Kept(), "http")
    with nested(2, orphaned=True) as (other, command):
        start = processes.start_time(other)
        assert start is not None
        monkeypatch.setattr(processes, "start_time", lambda _: start - 1)
        scene.attribution.called_by(session, other)
        assert await scene.attribution.attributed(command) is None
        # Clients above the process that has the pid now are not above the session.
        scene.hub.open_session(Kept(), "lines").identify(other)
        below = scene.hub.open_session(Kept(), "http")
        scene.attribution.called_by(below, command)
        assert await scene.attribution.sessions_above(below) == []


async def test_the_processes_of_a_session_over_http_that_are_remembered_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, ruled=True)
    session = scene.hub.open_session(Kept(), "http")
    assert scene.attribution.callers(session) == []
    with nested(2, orphaned=True) as (client, command):
        scene.attribution.called_by(session, client)
        monkeypatch.setattr(processes, "start_time", lambda _: 1)
        for number in range(CALLERS_LIMIT - 1):
            scene.attribution.called_by(session, 10_000_000 + number)
        assert await scene.attribution.attributed(command) is session
        scene.attribution.called_by(session, 20_000_000)
        assert await scene.attribution.attributed(command) is None


async def test_a_client_outside_of_the_daemon_s_container_needs_a_token_and_is_below_no_agent(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ruled=True)
    scene.agents.add("a1")
    scene.agents.pids = {-1: "a1"}
    assert scene.attribution.origin(0, "hearth-role-x") is None
    with pytest.raises(Refused, match="needs the agent's token"):
        scene.attribution.origin(0, None)
