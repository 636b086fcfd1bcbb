"""Which server a client's request goes to, by what it names."""

from pathlib import Path

import pytest

from unit.hub.whole_hub import ENVELOPE, PLENTY, Stage, answer, offering

# --- where it goes


async def test_only_the_server_that_may_have_it_is_started_for_a_call(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=PLENTY, b=PLENTY)
    member, _ = stage.client()
    stage.ask(member, "tools/call", name="b__t", arguments={"x": 1})
    assert (await stage.on("b", "tools/call"))["params"] == {"name": "t", "arguments": {"x": 1}}
    assert stage.started() == ["b"]


async def test_a_session_of_one_server_uses_its_own_names(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=PLENTY, b=PLENTY)
    member, sink = stage.client(server="b")
    stage.ask(member, "tools/call", name="t")
    await stage.on("b", "tools/call")
    stage.ask(member, "tools/call", 2, name="b__t")
    assert (await answer(sink))["error"]["code"] == -32602
    assert stage.started() == ["b"]


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("tools/call", {"name": "a__none"}, "unknown tool: a__none"),
        ("tools/call", {"name": "none"}, "unknown tool: none"),
        ("tools/call", {}, "params.name"),
        ("prompts/get", {"name": "a__none"}, "unknown prompt: a__none"),
        ("prompts/get", {"name": 7}, "params.name"),
        ("resources/read", {}, "params.uri"),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "a__none"}}, "unknown prompt: a__none"),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": "none:{n}"}}, "none:{n}"),
        ("completion/complete", {}, "params.ref"),
    ],
)
async def test_what_nobody_has_is_bad_params_with_a_sentence(
    tmp_path: Path, method: str, params: dict[str, object], words: str
) -> None:
    stage = Stage(tmp_path, a=PLENTY, b=PLENTY)
    member, sink = stage.client()
    stage.ask(member, method, **params)
    error = (await answer(sink))["error"]
    assert error["code"] == -32602
    assert words in error["message"]


@pytest.mark.parametrize(("modern", "code"), [(False, -32002), (True, -32602)])
async def test_a_resource_that_nobody_has_is_named_as_the_era_wants_it(tmp_path: Path, modern: bool, code: int) -> None:
    stage = Stage(tmp_path, a=PLENTY, b=PLENTY)
    member, sink = stage.client()
    stage.ask(member, "resources/read", uri="none:1", **({"_meta": ENVELOPE} if modern else {}))
    error = (await answer(sink))["error"]
    assert (error["code"], error["data"]) == (code, {"uri": "none:1"})
    assert "none:1" in error["message"]


@pytest.mark.parametrize(
    ("method", "params", "sent"),
    [
        ("prompts/get", {"name": "b__p"}, {"name": "p"}),
        ("resources/read", {"uri": "hearth:b:r:1"}, {"uri": "r:1"}),
        ("resources/read", {"uri": "hearth:b:unlisted"}, {"uri": "unlisted"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "b__p", "k": 1}, "argument": {"name": "x", "value": "v"}},
            {"ref": {"type": "ref/prompt", "name": "p", "k": 1}, "argument": {"name": "x", "value": "v"}},
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "hearth:b:t:{n}"}},
            {"ref": {"type": "ref/resource", "uri": "t:{n}"}},
        ),
    ],
)
async def test_a_request_reaches_its_server_under_the_server_s_own_names(
    tmp_path: Path, method: str, params: dict[str, object], sent: dict[str, object]
) -> None:
    stage = Stage(tmp_path, a=PLENTY, b=PLENTY)
    member, sink = stage.client()
    stage.ask(member, "tools/list")
    await answer(sink)
    stage.ask(member, method, 2, **params)
    assert (await stage.on("b", method))["params"] == sent
    assert method not in stage.connection("a").methods()


async def test_a_resource_is_looked_for_in_servers_that_have_not_said_yet_what_they_have(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=PLENTY, b=offering(resources=[{"uri": "r:2", "name": "r"}]))
    member, _ = stage.client()
    stage.ask(member, "resources/read", uri="r:2")
    assert (await stage.on("b", "resources/read"))["params"] == {"uri": "r:2"}


async def test_a_resource_to_subscribe_to_is_looked_for_there_too(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=PLENTY, b=offering(resources=[{"uri": "r:2", "name": "r"}]))
    member, sink = stage.client()
    stage.ask(member, "resources/subscribe", uri="r:2")
    assert (await answer(sink))["result"] == {}
    assert (await stage.on("b", "resources/subscribe"))["params"] == {"uri": "r:2"}
    stage.ask(member, "resources/subscribe", 2, uri="none:1")
    assert (await answer(sink, 2))["error"]["code"] == -32002


@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
async def test_the_failure_of_the_server_that_may_have_it_is_told(tmp_path: Path, method: str) -> None:
    stage = Stage(tmp_path, a={"initialize": -32600, "server/discover": -32601}, b=PLENTY)
    member, sink = stage.client()
    stage.ask(member, method, name="a__t")
    error = (await answer(sink))["error"]
    assert error["code"] == -32603
    assert "server 'a' could not be started" in error["message"]


# --- extensions


async def test_a_method_that_hearth_does_not_know_is_forwarded_where_there_is_one_server(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=PLENTY)
    member, sink = stage.client()
    stage.ask(member, "made/up", k=[1])
    request = await stage.on("a", "made/up")
    assert request["params"] == {"k": [1]}
    # What old SDKs say when they have no such method.
    stage.connection("a").refuse(request["id"], -32602)
    assert (await answer(sink))["error"]["code"] == -32601


@pytest.mark.parametrize(("names", "method"), [(("a", "b"), "made/up"), ((), "made/up"), (("a",), "hearth/made-up")])
async def test_a_method_that_hearth_does_not_know_is_refused_where_it_is_not_clear_who_is_meant(
    tmp_path: Path, names: tuple[str, ...], method: str
) -> None:
    stage = Stage(tmp_path, **dict.fromkeys(names, PLENTY))
    member, sink = stage.client()
    stage.ask(member, method)
    error = (await answer(sink))["error"]
    assert (error["code"], method in error["message"]) == (-32601, True)
    assert stage.started() == []


async def test_what_nobody_knows_is_not_done_twice(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=PLENTY)
    member, sink = stage.client()
    stage.receive(member, {"id": 1, "method": "made/up", "params": {}}, resent=True)
    assert "may or may not have run" in (await answer(sink))["error"]["message"]
    assert "made/up" not in stage.connection("a").methods()
