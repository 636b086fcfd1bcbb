"""Input that is required in the middle of a call, on a whole hub."""

from pathlib import Path

import pytest

from hearth.mcp import versions
from unit.conversations import modern_script, until
from unit.hub.outlets import Kept
from unit.hub.whole_hub import ENVELOPE, PLENTY, Stage, answer

RICH = {**ENVELOPE, versions.CLIENT_CAPABILITIES_KEY: {"elicitation": {"form": {}, "url": {}}}}
FORM = {"message": "Really?", "requestedSchema": {"type": "object"}}
URL = {"mode": "url", "message": "Go", "url": "https://x.example", "elicitationId": "e1"}


@pytest.mark.parametrize(
    ("method", "params"),
    [("tools/call", {"name": "a__t"}), ("prompts/get", {"name": "a__p"}), ("resources/read", {"uri": "r:1"})],
)
async def test_a_modern_client_s_retry_goes_on_with_its_parked_call(
    tmp_path: Path, method: str, params: dict[str, object]
) -> None:
    stage = Stage(tmp_path, a=PLENTY)
    member, sink = stage.client(initialized=False)
    stage.ask(member, method, 1, **params, _meta=RICH)
    request = await stage.on("a", method)
    connection = stage.connection("a")
    for count in (1, 2):
        connection.say("elicitation/create", FORM, id=f"q{count}")
        required = (await answer(sink, count))["result"]
        assert required["resultType"] == "input_required"
        responses = {key: {"action": "decline"} for key in required["inputRequests"]}
        state = {"requestState": required["requestState"], "inputResponses": responses}
        stage.ask(member, method, count + 1, **params, **state, _meta={**RICH, "progressToken": "p"})
        assert connection.answers[-1] == {"jsonrpc": "2.0", "id": f"q{count}", "result": {"action": "decline"}}
    connection.give(request["id"], {"content": [], "contents": [], "messages": []})
    assert (await answer(sink, 3))["id"] == 3
    assert connection.methods().count(method) == 1
    stage.ask(member, method, 4, **params, **state, _meta=RICH)
    assert (await answer(sink, 4))["error"]["data"] == {"reason": "spent"}


async def test_a_state_that_is_not_hearth_s_is_refused_where_the_server_cannot_have_given_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=PLENTY)
    member, sink = stage.client(initialized=False)
    stage.ask(member, "tools/call", name="a__t", requestState="foreign", _meta=RICH)
    assert (await answer(sink))["error"]["data"] == {"reason": "expired"}
    # A legacy client's params are its own business.
    stage.ask(member, "tools/call", 2, name="a__t", requestState="mine")
    assert (await stage.on("a", "tools/call"))["params"]["requestState"] == "mine"


async def test_a_demand_for_urls_is_put_to_a_modern_client_and_the_call_made_afresh(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=PLENTY)
    member, sink = stage.client(initialized=False)
    stage.ask(member, "tools/call", 1, name="a__t", arguments={"x": 1}, _meta=RICH)
    first = await stage.on("a", "tools/call")
    connection = stage.connection("a")
    connection.refuse(first["id"], -32042, "visit", {"elicitations": [URL]})
    required = (await answer(sink))["result"]
    responses = {key: {"action": "accept"} for key in required["inputRequests"]}
    state = {"requestState": required["requestState"], "inputResponses": responses}
    stage.ask(member, "tools/call", 2, name="a__t", arguments={"x": 1}, **state, _meta={**RICH, "v/k": 1})
    connection.say("notifications/elicitation/complete", {"elicitationId": "e1"})
    again = await stage.on("a", "tools/call", 2)
    assert again["params"] == {"name": "t", "arguments": {"x": 1}, "_meta": {"v/k": 1}}
    connection.give(again["id"], {"content": []})
    assert (await answer(sink, 2))["result"]["content"] == []


async def test_a_demand_for_urls_is_relayed_to_a_legacy_client_which_is_told_of_the_end_of_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=PLENTY)
    (member, sink), (_, others) = stage.client(), stage.client()
    stage.ask(member, "tools/call", name="a__t")
    request = await stage.on("a", "tools/call")
    stage.connection("a").refuse(request["id"], -32042, "visit", {"elicitations": [URL]})
    assert (await answer(sink))["error"]["code"] == -32042
    stage.connection("a").say("notifications/elicitation/complete", {"elicitationId": "e1"})
    assert sink.messages("notify")[-1]["params"] == {"elicitationId": "e1"}
    assert others.said == []


async def test_a_legacy_client_is_asked_what_a_modern_server_requires(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=modern_script())
    sink = Kept()
    member = stage.hub.open_session(sink, "lines")
    stage.ask(member, "initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {}})
    stage.ask(member, "tools/call", 2, name="a__t")
    first = await stage.on("a", "tools/call")
    asked = {"inputRequests": {"q": {"method": "elicitation/create", "params": FORM}}}
    stage.connection("a").give(first["id"], {"resultType": "input_required", **asked})
    await until(lambda: sink.heard("ask"), "the client is asked")
    stage.receive(member, {"id": sink.messages("ask")[0]["id"], "result": {"action": "decline"}})
    again = await stage.on("a", "tools/call", 2)
    assert again["params"]["inputResponses"] == {"q": {"action": "decline"}}
