"""One body over every wire, era and way of offering: a role sees and uses what is its own, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from support.clients import Message, modern
from support.daemon import Scratch, server
from support.http.clients import HttpClient, LegacyHttp, ModernHttp
from support.policies import Team

POLICY = """
default_role = "dev"
[roles.tl]
lead = true
tools = ["**"]
[roles.dev]
tools = ["shelf__open"]
resources = ["shelf__shelf://open"]
prompts = ["shelf__open"]
"""
Ask = Callable[..., Message]


def over_frames(team: Team, token: str | None, era: str, **hello: object) -> Ask:
    client = team.scratch.frames(**hello, **({"roleToken": token} if token else {}))
    if era == "legacy":
        client.initialize()
    return lambda method, **params: client.ask(method, modern(**params) if era == "modern" else params)


def over_lines(team: Team, era: str) -> Ask:
    client = team.scratch.lines()
    if era == "legacy":
        client.initialize()
    return lambda method, **params: client.ask(method, modern(**params) if era == "modern" else params)


def over_http(team: Team, token: str | None, kind: type[HttpClient]) -> Ask:
    client: Any = kind(team.scratch)
    if token:
        client.headers["Hearth-Role-Token"] = token
    if isinstance(client, LegacyHttp):
        client.open()

    def ask(method: str, **params: object) -> Message:
        [answer] = client.post(method, params).messages()
        return dict(answer)

    return ask


WAYS: dict[str, Callable[[Team, str | None], Ask]] = {
    "frames, legacy": lambda team, token: over_frames(team, token, "legacy"),
    "frames, modern": lambda team, token: over_frames(team, token, "modern"),
    "http, legacy": lambda team, token: over_http(team, token, LegacyHttp),
    "http, modern": lambda team, token: over_http(team, token, ModernHttp),
}


@pytest.fixture(scope="module")
def team(shared: Scratch) -> Team:
    found = Team(shared, POLICY)
    shared.serve({"shelf": server("shelf"), "other": server("shelf")})
    return found


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Callable[[Team, str | None], Ask]:
    return WAYS[request.param]


def names(answer: Message, member: str, key: str) -> list[str]:
    return [each[key] for each in answer["result"][member]]


def check_dev(ask: Ask) -> None:
    """Everything that a dev sees and may do, and the refusals of the rest."""
    assert names(ask("tools/list"), "tools", "name") == ["shelf__open"]
    assert names(ask("prompts/list"), "prompts", "name") == ["shelf__open"]
    assert names(ask("resources/list"), "resources", "uri") == ["shelf://open"]
    assert names(ask("resources/templates/list"), "resourceTemplates", "name") == []
    assert ask("tools/call", name="shelf__open", arguments={})["result"]["content"][0]["text"] == "open"
    assert ask("prompts/get", name="shelf__open")["result"]["messages"][0]["content"]["text"] == "open"
    assert ask("resources/read", uri="shelf://open")["result"]["contents"][0]["text"] == "shelf://open"
    refused = ask("tools/call", name="shelf__secret", arguments={})["error"]
    assert refused["message"] == "tool 'shelf__secret' not available for role 'dev'"
    assert (refused["code"], refused["data"]["reason"]) == (-32602, "role")
    assert "error" in ask("prompts/get", name="shelf__secret")
    assert "error" in ask("tools/call", name="other__open", arguments={})
    for uri in ("shelf://secret", "hearth+other:shelf://open", "shelf://anything"):
        assert "error" in ask("resources/read", uri=uri), uri
    argument = {"name": "word", "value": ""}
    for ref in ({"type": "ref/prompt", "name": "shelf__secret"}, {"type": "ref/resource", "uri": "shelf://{name}"}):
        assert "error" in ask("completion/complete", ref=ref, argument=argument), ref
    completed = ask("completion/complete", ref={"type": "ref/prompt", "name": "shelf__open"}, argument=argument)
    assert completed["result"]["completion"]["values"] == ["word"]


def test_a_dev_sees_and_uses_only_its_own_over_every_wire_and_era(team: Team, way: Callable[..., Ask]) -> None:
    check_dev(way(team, None))


def test_a_lead_sees_everything_over_every_wire_and_era(team: Team, way: Callable[..., Ask]) -> None:
    ask = way(team, team.token("tl"))
    assert {"shelf__secret", "other__secret", "policy__list_approvals"} <= set(
        names(ask("tools/list"), "tools", "name")
    )
    assert "shelf__secret" in names(ask("prompts/list"), "prompts", "name")
    assert ask("resources/read", uri="shelf://secret")["result"]["contents"][0]["text"] == "shelf://secret"


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_raw_lines_have_the_default_role_in_both_eras(team: Team, era: str) -> None:
    check_dev(over_lines(team, era))


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_search_tools_find_describe_and_call_only_what_the_role_sees(team: Team, era: str) -> None:
    ask = over_frames(team, None, era, mode="search")

    def use(tool: str, **arguments: object) -> str:
        answer = ask("tools/call", name=tool, arguments=arguments)
        return str(answer["result"]["content"] if "result" in answer else answer["error"])

    assert "shelf__open" in use("find_tools", query="test tool")
    assert "shelf__secret" not in use("find_tools", query="test tool secret")
    assert "shelf__secret" not in use("describe_tools", names=["shelf__open"])
    assert "not available for role 'dev'" in use("call_tool_read", name="shelf__secret", arguments={})
    assert "open" in use("call_tool_read", name="shelf__open", arguments={})


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_client_of_one_server_sees_its_role_s_part_under_its_own_names(team: Team, era: str) -> None:
    ask = over_frames(team, None, era, server="shelf")
    assert names(ask("tools/list"), "tools", "name") == ["open"]
    assert (
        ask("tools/call", name="secret", arguments={})["error"]["message"]
        == "tool 'secret' not available for role 'dev'"
    )
    assert "not available for role 'dev'" in ask("shelf/count")["error"]["message"]
    assert names(over_frames(team, None, era, server="other")("tools/list"), "tools", "name") == []


def test_a_subscription_to_another_role_s_resource_is_refused(team: Team) -> None:
    ask = over_frames(team, None, "legacy")
    assert ask("resources/subscribe", uri="shelf://open")["result"] == {}
    assert "not available for role 'dev'" in ask("resources/subscribe", uri="shelf://secret")["error"]["message"]


def test_a_role_in_the_query_claims_nothing_and_a_forged_token_is_refused(team: Team) -> None:
    client = ModernHttp(team.scratch, "/mcp?role=tl")
    assert names(client.post("tools/list").messages()[0], "tools", "name") == ["shelf__open"]
    client = ModernHttp(team.scratch)
    client.headers["Hearth-Role-Token"] = "forged"
    assert client.post("tools/list").status == 403
    client.headers = {"X-Hearth-Role": "tl"}
    assert client.post("tools/list").status == 403


def test_a_kept_http_session_is_for_the_role_that_opened_it(team: Team) -> None:
    lead = LegacyHttp(team.scratch)
    lead.headers["Hearth-Role-Token"] = team.token("tl")
    lead.open()
    thief = LegacyHttp(team.scratch)
    thief.headers |= {key: value for key, value in lead.headers.items() if key != "Hearth-Role-Token"}
    assert thief.post("tools/list").status == 404
    team.tokens.revoke(team.tokens.list()[-1].id)
    assert lead.post("tools/list").status == 403
