"""Commands that are typed below an agent: refused with and without a policy, whoever could be asked."""

from pathlib import Path
from typing import Any

import pytest

from hearth.daemon import control
from hearth.daemon.attribution import Attribution
from hearth.daemon.control import ControlApi
from hearth.errors import PersonRequired
from hearth.hub.agent_directory import ProcessOwner
from hearth.hub.authorization.pending import Settlement
from hearth.wire import json
from unit.hub.authorization.agents_stage import AgentStage, FakeAgents, PermissionItem, services
from unit.hub.outlets import Kept
from unit.hub.whole_hub import Stage

COMMANDS = ("decide", "revoke", "person", "applyPolicy", "reload", "restart", "shutdown")
DECIDE: dict[str, Any] = {"type": "decide", "seq": 1, "action": "approve"}


class Scene:
    """Control of a hub with one agent, whose process types."""

    def __init__(self, folder: Path, ruled: bool, role: str = "dev") -> None:
        self.hub = Stage(folder).hub
        agents = self.hub.agents = FakeAgents()
        agents.add("a1", role)
        if ruled:
            stage = AgentStage(folder)
            stage.agents = agents
            self.hub.policy.guard = stage.guard
        self.applied: list[str] = []
        policy = services(apply=lambda digest: self.applied.append(digest) or "applied")
        self.control = ControlApi(services(hub=self.hub, policy=policy))
        self.attribution = Attribution(self.hub)

    async def type_below_agent(self, monkeypatch: pytest.MonkeyPatch, **header: Any) -> dict[str, Any]:
        """Return the answer to a command, typed in a process below the agent's."""

        async def owner_of(pid: int | None) -> ProcessOwner:
            return ProcessOwner([], "a1")

        monkeypatch.setattr(self.attribution, "owner_of", owner_of)
        frame = {"seq": 1, "digest": "0" * 12, **header}
        answer, _ = await control.answer_frame(self.control, frame, None, lambda: self.attribution.attributed(1))
        return answer


@pytest.fixture(params=[False, True], ids=["no policy", "policy"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return Scene(tmp_path, request.param)


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_person_s_command_below_an_agent_is_refused(
    scene: Scene, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = scene.hub.open_session(Kept(), "lines")
    owner.speak_legacy("2025-11-25", {"name": "c"}, json.split(b'{"elicitation":{}}'), None)
    answer = await scene.type_below_agent(monkeypatch, type=command)
    assert (answer["ok"], scene.applied) == (False, [])
    sentence = answer["message"]
    is_without_policy = command == "applyPolicy" and scene.hub.policy.guard is None
    assert "there is no policy" in sentence if is_without_policy else "below agent 'a1' here" in sentence


async def test_a_lead_agent_may_apply_a_change_of_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, True, "tl")
    answer = await scene.type_below_agent(monkeypatch, type="applyPolicy")
    assert (answer["ok"], scene.applied) == (True, ["0" * 12])


async def test_a_person_decides_a_permission_without_a_policy_and_an_agent_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, False)
    item = PermissionItem(scene.hub.pending)
    scene.hub.pending.add(item)
    assert scene.hub.busy()
    assert [each["id"] for each in scene.control.cmd_approvals()["approvals"]] == [item.id]
    refused = await scene.type_below_agent(monkeypatch, **{**DECIDE, "id": item.id})
    assert (refused["ok"], item.outcome) == (False, None)

    async def person() -> None:
        return None

    answer, _ = await control.answer_frame(scene.control, {**DECIDE, "id": item.id}, None, person)
    assert (answer["ok"], answer["message"]) == (True, f"permission {item.id} is approved")
    assert item.outcome == Settlement("approved", "", "person", "cli")


def test_the_refusal_names_the_client_or_the_agent(scene: Scene) -> None:
    client = scene.hub.open_session(Kept(), "lines")
    client.speak_legacy("2025-11-25", {"name": "editor"}, {}, None)
    with pytest.raises(PersonRequired, match="`x` is for a person, and runs below 'editor' here"):
        control.refuse_agents(client, "`x`")
    control.refuse_agents(None, "`x`")


@pytest.mark.parametrize("payload", [b"[]", b"{", b"1"])
def test_what_must_be_an_object_may_also_be_nothing(payload: bytes) -> None:
    assert control.parse(b" ") == {}
    with pytest.raises(control.BadArgument, match="the body must be a JSON object, or nothing"):
        control.parse(payload, "body")
