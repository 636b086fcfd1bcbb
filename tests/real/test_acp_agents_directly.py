"""The real agents that speak ACP, with a fake model and without Hearth: the behaviour that Hearth relies on."""

import subprocess
from collections.abc import Iterator

import pytest

from support.daemon import Scratch
from support.kernel import kill_all_at_home, pids_at_home, until
from support.real.acp_agents import AGENTS, AcpAgent, text
from support.real.acp_client import AcpClient, AcpError, Document
from support.real.model_server import ModelServer, Step

pytestmark = pytest.mark.real


class Stage:
    """An agent at work: its home, its model, and a process with a session."""

    def __init__(self, kind: type[AcpAgent]) -> None:
        self.scratch = Scratch()
        self.model = ModelServer()
        self.folder = self.scratch.home / "work"
        self.folder.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=self.folder, check=True)
        self.agent = kind(self.scratch.home, self.model)
        self.client = self._start()
        self.session = self.agent.open(self.client, self.folder)

    def _start(self) -> AcpClient:
        return self.agent.start(self.scratch.environment(), self.folder)

    def begin(self, *steps: Step, prompt: str = "do it") -> int:
        """Prompt the agent, with a model that takes these steps."""
        self.model.script(*steps)
        self.client.updates.clear()
        return self.client.send("session/prompt", sessionId=self.session, prompt=text(prompt))

    def prompt(self, *steps: Step, prompt: str = "do it") -> Document:
        return self.client.answer(self.begin(*steps, prompt=prompt))

    def cancel(self) -> None:
        self.client.tell("session/cancel", sessionId=self.session)

    def pids(self) -> list[int]:
        return pids_at_home(str(self.scratch.home))

    def kill(self) -> None:
        """Kill every process of the agent."""
        until(lambda: kill_all_at_home(str(self.scratch.home)), "no process is left")
        self.client.close()

    def restart(self, method: str) -> None:
        """Kill the agent, and continue its session in a new process."""
        self.kill()
        self.agent.age_session()
        self.client = self._start()
        self.agent.open(self.client, self.folder, self.session, method)

    def close(self) -> None:
        self.kill()
        self.model.close()
        self.scratch.close()


@pytest.fixture(scope="module", params=AGENTS, ids=lambda kind: kind.name)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """One agent for all tests here, since some take seconds to start."""
    found = Stage(request.param)
    yield found
    found.close()


def answers(client: AcpClient, kind: str) -> Iterator[Document]:
    """Answer every permission request until the turn ends."""
    while client.asked:
        yield client.choose(kind)


def test_its_session_has_the_modes_and_the_ways_to_continue_that_are_known(stage: Stage) -> None:
    agent, client = stage.agent, stage.client
    offered = client.call("initialize", protocolVersion=1)["agentCapabilities"]
    further = offered.get("sessionCapabilities", {})
    assert offered["loadSession"] is True
    assert (("resume" in further), ("close" in further)) == (agent.can_resume, agent.can_close)
    created = client.call("session/new", cwd=str(stage.folder), mcpServers=[])
    modes = created.get("modes") or {}
    options = next((each for each in created.get("configOptions", []) if each["id"] == "mode"), {})
    listed = [each["id"] for each in modes.get("availableModes", [])] or [each["value"] for each in options["options"]]
    assert sorted(listed) == sorted(agent.modes)
    assert (modes.get("currentModeId") or options["currentValue"]) == agent.modes[0]
    with pytest.raises(AcpError, match="nvalid"):
        client.call("session/set_mode", sessionId=created["sessionId"], modeId="nonsense")


def test_an_answer_comes_in_pieces(stage: Stage) -> None:
    assert stage.prompt(Step(text="one two three"))["stopReason"] == "end_turn"
    pieces = [
        each["content"]["text"] for each in stage.client.updates if each["sessionUpdate"] == "agent_message_chunk"
    ]
    assert pieces[-3:] == ["one ", "two ", "three"]


def test_a_command_runs_once_it_is_allowed(stage: Stage) -> None:
    number = stage.begin(stage.agent.question("touch allowed"), Step(text="it is done"))
    asked = stage.client.next_question()["params"]
    assert {"allow_once", "reject_once"} <= {option["kind"] for option in asked["options"]}
    assert asked["toolCall"]["kind"] == "execute"
    assert not (stage.folder / "allowed").exists()
    stage.client.choose("allow_once")
    assert stage.client.answer(number)["stopReason"] == "end_turn"
    assert (stage.folder / "allowed").exists()
    assert stage.client.text().endswith("it is done")


def test_a_command_that_is_denied_does_not_run(stage: Stage) -> None:
    number = stage.begin(stage.agent.question("touch denied"), Step(text="so be it"))
    stage.client.choose("reject_once")
    assert stage.client.answer(number)["stopReason"] == stage.agent.stop_after_denial
    assert not (stage.folder / "denied").exists()
    assert stage.client.text().endswith("so be it") is stage.agent.goes_on_after_denial


def test_a_turn_is_cancelled_while_it_waits_for_permission(stage: Stage) -> None:
    number = stage.begin(stage.agent.question("touch never"))
    asked = stage.client.next_question()
    stage.cancel()
    stage.client.reply(asked, {"outcome": {"outcome": "cancelled"}})
    assert stage.client.answer(number)["stopReason"] == "cancelled"
    assert not (stage.folder / "never").exists()


def test_a_turn_is_cancelled_while_the_model_speaks(stage: Stage) -> None:
    number = stage.begin(Step(text="first second", stalls=True))
    stage.client.until(lambda: "first" in stage.client.text(), "the first word")
    stage.cancel()
    assert stage.client.answer(number)["stopReason"] == "cancelled"
    assert stage.model.abandoned.wait(10)
    assert "second" not in stage.client.text()


def test_a_command_that_runs_ends_with_its_turn_or_its_process(stage: Stage) -> None:
    before = set(stage.pids())
    number = stage.begin(stage.agent.question("tail -f /dev/null"))
    stage.client.choose("allow_once")
    begun = stage.client.until(lambda: set(stage.pids()) - before, "the command runs")
    stage.cancel()
    assert stage.client.answer(number)["stopReason"] == "cancelled"
    if stage.agent.cancel_ends_command:
        until(lambda: not begun & set(stage.pids()), "the command has ended")


def test_a_failure_of_the_model_ends_the_turn_and_not_the_session(stage: Stage) -> None:
    if stage.agent.fails_aloud:
        with pytest.raises(AcpError, match="the model fails with 400"):
            stage.prompt(Step(status=400))
    else:
        assert stage.prompt(Step(status=400))["stopReason"] == "end_turn"
        assert "the model fails with 400" in stage.client.text()
        assert "systemError" in str(stage.client.updates)
    stage.prompt(Step(text="better"))
    assert stage.client.text().endswith("better")


def test_a_killed_process_is_followed_by_one_that_remembers_the_session(stage: Stage) -> None:
    stage.prompt(Step(text="the word is pumpkin"), prompt="what is the word?")
    stage.begin(Step(text="first second", stalls=True))
    assert stage.model.stalled.wait(10)
    for method in ("session/resume", "session/load") if stage.agent.can_resume else ("session/load",) * 2:
        stage.restart(method)
        if method == "session/load":
            # Gemini CLI sends the history after its answer.
            until(lambda: "what is the word?" in stage.client.text("user"), "the history has come", 30)
        else:
            assert "what is the word?" not in stage.client.text("user")
        stage.prompt(Step(text="it is known"), prompt="and now?")
        assert "pumpkin" in stage.model.seen()


def test_it_ends_with_its_input(stage: Stage) -> None:
    stage.client.end_input()
    until(lambda: not stage.pids(), "every process has ended", 30)
