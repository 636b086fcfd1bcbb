"""Admission of clients by the tokens of roles and of agents, with and without a policy."""

from pathlib import Path

import pytest

from hearth.errors import Refused, RoleRefused
from hearth.hub.hub import Hub
from hearth.hub.sessions import Session
from unit.hub.authorization.agents_stage import AgentStage, FakeAgents
from unit.hub.outlets import Kept
from unit.hub.whole_hub import Stage


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Stage(tmp_path).hub


@pytest.fixture
def agents(hub: Hub) -> FakeAgents:
    found = FakeAgents()
    hub.agents = found
    return found


@pytest.fixture
def ruled(hub: Hub, agents: FakeAgents, tmp_path: Path) -> AgentStage:
    """A guard on the hub's agents; the roles are tl, dev and desk."""
    stage = AgentStage(tmp_path)
    stage.agents = agents
    hub.policy.guard = stage.guard
    return stage


def test_without_the_pack_an_agent_s_token_is_unknown_and_other_tokens_prove_nothing(hub: Hub) -> None:
    assert hub.policy.admit(None, None) == (None, None)
    assert hub.policy.admit("dev", "anything", "a1") == (None, None)
    with pytest.raises(RoleRefused, match="the agent token is unknown"):
        hub.policy.admit(None, "hearth-agent-x")


@pytest.mark.parametrize("role", [None, "dev"])
def test_an_agent_s_token_proves_its_id_and_role_without_a_policy(
    hub: Hub, agents: FakeAgents, role: str | None
) -> None:
    token = agents.add("a1", role, cwd="/work")
    proven = hub.policy.admit(None, token, "a1")
    assert proven == (role, "a1")
    session = hub.open_session(Kept(), "frames", proven=proven)
    session.identify(1, "/elsewhere", None, None, "a1")
    assert (session.proven, session.is_agent, session.cwd) == ((role, "a1"), True, "/work")


def test_the_id_of_another_agent_is_refused(hub: Hub, agents: FakeAgents) -> None:
    agents.add("a2")
    with pytest.raises(Refused) as refused:
        hub.policy.admit(None, agents.add("a1"), "a2")
    assert str(refused.value).startswith("NOT_ALLOWED: this client is agent 'a1', and not 'a2'")


def test_the_token_of_a_closed_agent_is_unknown(hub: Hub, agents: FakeAgents) -> None:
    token = agents.add("a1")
    agents.close("a1")
    with pytest.raises(RoleRefused):
        hub.policy.admit(None, token, "a1")


def test_below_an_agent_only_its_own_token_is_taken(hub: Hub, agents: FakeAgents) -> None:
    tokens = {id: agents.add(id, "dev") for id in ("a1", "lead")}
    below = ("dev", "a1")
    assert hub.policy.admit(None, tokens["a1"], None, below) == below
    # Without a policy a role token proves nothing: not even that its client is nobody's.
    assert hub.policy.admit(None, "anything", None, below) == below
    with pytest.raises(Refused, match="NOT_ALLOWED: this process is below agent 'a1'"):
        hub.policy.admit(None, tokens["lead"], None, below)
    with pytest.raises(Refused, match="NOT_ALLOWED: this client is agent 'a1'"):
        hub.policy.admit(None, "anything", "lead", below)


def test_below_an_agent_no_role_token_is_taken_where_there_is_a_policy(
    ruled: AgentStage, hub: Hub, tmp_path: Path
) -> None:
    (tmp_path / "roles").mkdir(mode=0o700)
    below = ("dev", "a1")
    own, lead = ruled.agents.add("a1", "dev"), ruled.agents.add("lead", "tl")
    assert hub.policy.admit(None, own, None, below) == below
    for token in (lead, ruled.guard._tokens.issue("tl"), ruled.guard._tokens.issue("tl", "worker-1")):
        with pytest.raises(Refused, match="NOT_ALLOWED: this process is below agent 'a1'"):
            hub.policy.admit(None, token, None, below)


def test_with_a_policy_the_agent_s_role_must_exist_and_be_the_claimed_one(ruled: AgentStage, hub: Hub) -> None:
    agents = ruled.agents
    assert hub.policy.admit("dev", agents.add("a1", "dev"), None) == ("dev", "a1")
    assert hub.policy.admit(None, agents.add("a2")) == (None, "a2")
    with pytest.raises(Refused, match=r"the agent token is for role 'gone', which /c/policy.toml does not have"):
        hub.policy.admit(None, agents.add("a3", "gone"))
    with pytest.raises(Refused, match="the agent token is for role 'dev', not for 'tl'"):
        hub.policy.admit("tl", agents.add("a4", "dev"))
    with pytest.raises(Refused, match="role 'tl' needs a role token"):
        hub.policy.admit("tl", agents.add("a5"))


def test_an_agent_without_a_role_has_the_default_one(ruled: AgentStage, hub: Hub) -> None:
    session = hub.open_session(Kept(), "frames", proven=hub.policy.admit(None, ruled.agents.add("a1")))
    assert ruled.guard.role_name(session) == "dev"


def test_a_role_token_of_one_agent_does_not_serve_another(ruled: AgentStage, hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "roles").mkdir(mode=0o700)
    token = ruled.guard._tokens.issue("dev", "worker-1")
    assert hub.policy.admit(None, token, "worker-1") == ("dev", "worker-1")
    assert hub.policy.admit(None, token) == ("dev", "worker-1")
    with pytest.raises(Refused, match=r"^NOT_ALLOWED: this client is agent 'worker-1', and not 'worker-2'"):
        hub.policy.admit(None, token, "worker-2")
    with pytest.raises(Refused, match=r"^NOT_ALLOWED"):
        hub.policy.admit(None, token, "worker-2" * 1000)


# --- sessions of agents


def opened(hub: Hub, agent: str | None) -> Session:
    return hub.open_session(Kept(), "frames", proven=(None, agent))


def test_an_agent_s_session_neither_owns_nor_holds_the_daemon(hub: Hub, agents: FakeAgents) -> None:
    agents.add("a1")
    session = opened(hub, "a1")
    assert (hub.sessions.owner, hub.busy()) == (None, False)
    client = opened(hub, None)
    assert (hub.sessions.owner, hub.busy()) == (client, True)
    hub.close_session(client)
    assert (hub.sessions.owner, hub.busy()) == (None, False)
    session.open["tag"] = None  # type: ignore[assignment]  # only that there is one counts
    assert hub.busy()


def test_an_agent_keeps_its_principal_over_http(hub: Hub, agents: FakeAgents) -> None:
    agents.add("a1")
    session, client = opened(hub, "a1"), opened(hub, None)
    former = session.principal
    session.act_as("http")
    client.act_as("http")
    assert (session.principal, client.principal) == (former, "http")
