"""Clients that can show an address are given one that leads to the login, one for all."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from support.clients import LinesClient, Message, modern, text_of
from support.daemon import Scratch, server
from support.oauth import KEYRING, Authority, browse, hearth, log_in
from support.policies import Team

SHOWS: Message = {"elicitation": {"form": {}, "url": {}}}
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOGIN = "hearth auth login far"
DEMANDED = -32042
COMPLETED = "notifications/elicitation/complete"


@pytest.fixture
def authority(scratch: Scratch) -> Iterator[Authority]:
    """An authorization server, and a daemon with a server behind it that nobody is logged in to."""
    with Authority() as opened:
        scratch.configure({"far": {"url": opened.url}, "near": server("echo")})
        scratch.start(**KEYRING)
        yield opened


def legacy(scratch: Scratch, capabilities: Message = SHOWS, version: str = "2025-11-25") -> LinesClient:
    return scratch.lines().initialized(version, capabilities)


def demanded(answer: Message) -> dict[str, Any]:
    """The page that a legacy client is to show."""
    error = answer["error"]
    assert error["code"] == DEMANDED and LOGIN in error["message"]
    (page,) = error["data"]["elicitations"]
    assert page["mode"] == "url" and page["url"].startswith("http://127.0.0.1:") and "far" in page["message"]
    return dict(page)


def call(client: LinesClient, tool: str = "far__echo", capabilities: Message = SHOWS, **more: object) -> Message:
    """A modern call."""
    meta = {CAPABILITIES: capabilities}
    return client.ask("tools/call", modern(name=tool, arguments={"text": "hello"}, _meta=meta, **more))


def call_again(client: LinesClient, key: str, url: str, tool: str = "far__echo") -> Message:
    """The same call, which says that the address is shown, and waits until it was opened."""
    more = {"_meta": {CAPABILITIES: SHOWS}, "inputResponses": {key: {"action": "accept"}}}
    waiting = client.begin("tools/call", modern(name=tool, arguments={"text": "hello"}, **more))
    assert browse(url)[0] == 200
    return client.answer_to(waiting)


def required(answer: Message) -> tuple[str, str]:
    """The key and the address that a modern client is asked for."""
    result = answer["result"]
    assert result["resultType"] == "input_required" and "requestState" not in result
    ((key, request),) = result["inputRequests"].items()
    assert request["method"] == "elicitation/create" and set(request["params"]) == {"mode", "message", "url"}
    return key, request["params"]["url"]


def test_a_legacy_client_shows_the_login_and_is_told_when_it_is_done(scratch: Scratch, authority: Authority) -> None:
    client = legacy(scratch)
    page = demanded(client.call("far__echo", text="x"))
    assert browse(page["url"])[0] == 200
    assert client.next_called(COMPLETED)["params"] == {"elicitationId": page["elicitationId"]}
    assert text_of(client.call("far__echo", text="x")) == "x"
    assert "logged in" in hearth(scratch, "auth", "status", "far")[1]
    assert scratch.upstream("far")["state"] == "ready"


def test_the_call_that_a_modern_client_makes_again_waits_for_the_login(scratch: Scratch, authority: Authority) -> None:
    client = scratch.lines()
    key, url = required(call(client))
    assert text_of(call_again(client, key, url)) == "hello"


def test_a_login_that_ends_under_a_running_server_is_asked_for_in_the_same_way(
    scratch: Scratch, authority: Authority
) -> None:
    old, new = legacy(scratch), scratch.lines()
    assert browse(demanded(old.call("far__echo", text="x"))["url"])[0] == 200
    assert text_of(old.call("far__echo", text="x")) == "x"
    assert text_of(call(new)) == "hello"
    authority.set(end_access=True, end_refresh=True)
    key, url = required(call(new))
    assert demanded(old.call("far__echo", text="x"))["url"] == url
    assert text_of(call_again(new, key, url)) == "hello"
    assert text_of(old.call("far__echo", text="x")) == "x"


def test_a_call_that_waited_for_a_login_is_decided_again(scratch: Scratch, authority: Authority) -> None:
    policy = 'default_role = "dev"\n[roles.dev]\ntools = ["**"]\n'
    team, client = Team(scratch, policy), scratch.lines()
    team.apply(policy)
    assert text_of(call_again(client, *required(call(client)))) == "hello"
    authority.set(end_access=True, end_refresh=True)
    key, url = required(call(client))
    more = {"_meta": {CAPABILITIES: SHOWS}, "inputResponses": {key: {"action": "accept"}}}
    waiting = client.begin("tools/call", modern(name="far__echo", arguments={"text": "hello"}, **more))
    team.apply(policy + '[[rules]]\ntool = "far__echo"\ndecide = "deny"\nreason = "not any more"\n')
    assert browse(url)[0] == 200
    assert text_of(client.answer_to(waiting)) == "denied by policy: not any more"


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_who_says_no_gets_the_plain_error(scratch: Scratch, authority: Authority, action: str) -> None:
    client = scratch.lines()
    key, _ = required(call(client))
    assert LOGIN in call(client, inputResponses={key: {"action": action}})["error"]["message"]


def test_ten_sessions_that_need_a_login_get_one_address(scratch: Scratch, authority: Authority) -> None:
    clients = [legacy(scratch) for _ in range(5)]
    others = [scratch.lines() for _ in range(5)]
    found: list[str] = []
    gate = threading.Barrier(10)

    def ask(client: LinesClient, is_modern: bool) -> None:
        gate.wait()
        found.append(required(call(client))[1] if is_modern else demanded(client.call("far__echo", text="x"))["url"])

    everybody = [(client, False) for client in clients] + [(client, True) for client in others]
    threads = [threading.Thread(target=ask, args=each) for each in everybody]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 10 and len(set(found)) == 1
    assert authority.count("register") == 1
    assert browse(found[0])[0] == 200
    for client in clients:
        client.next_called(COMPLETED)
        assert text_of(client.call("far__echo", text="x")) == "x"
    assert all(text_of(call(client)) == "hello" for client in others)
    assert authority.count("authorize") == 1


@pytest.mark.parametrize(
    ("version", "capabilities"),
    [("2025-11-25", {}), ("2025-11-25", {"elicitation": {}}), ("2025-06-18", SHOWS), ("2025-03-26", SHOWS)],
)
def test_a_legacy_client_that_cannot_show_it_gets_the_plain_error(
    scratch: Scratch, authority: Authority, version: str, capabilities: Message
) -> None:
    error = legacy(scratch, capabilities, version).call("far__echo", text="x")["error"]
    assert error["code"] == -32603 and LOGIN in error["message"] and "data" not in error


def test_a_modern_client_that_cannot_show_it_gets_the_plain_error(scratch: Scratch, authority: Authority) -> None:
    for capabilities in ({}, {"elicitation": {}}, {"elicitation": {"form": {}}}):
        error = call(scratch.lines(), capabilities=capabilities)["error"]
        assert error["code"] == -32603 and LOGIN in error["message"]


def test_what_a_tool_wants_beyond_the_login_is_asked_for_in_the_same_way(
    scratch: Scratch, authority: Authority
) -> None:
    assert log_in(scratch, "far")[0] == 0
    client = scratch.lines()
    key, url = required(call(client, "far__write"))
    assert text_of(call_again(client, key, url, "far__write")) == "hello"
    assert authority.asked("authorize")[-1]["scopes"] == ["read", "write"]


def test_a_login_that_cannot_be_begun_leaves_the_plain_error(scratch: Scratch, authority: Authority) -> None:
    authority.set(metadata={"code_challenge_methods_supported": None})
    error = legacy(scratch).call("far__echo", text="x")["error"]
    assert error["code"] == -32603 and LOGIN in error["message"]


def test_an_address_that_is_not_the_one_leads_nowhere(scratch: Scratch, authority: Authority) -> None:
    url = demanded(legacy(scratch).call("far__echo", text="x"))["url"]
    origin = url.rpartition("/login/")[0]
    assert [browse(origin + path)[0] for path in ("/", "/login/", "/login/x", "/favicon.ico")] == [404] * 4
    assert browse(f"{origin}/callback?code=x&state=y")[0] == 400
    assert authority.count("authorize") == 0
    assert json.dumps(scratch.status()).count(url) == 0
