"""The extension points of the pipeline: every request is authorized, and every result goes through the steps."""

from pathlib import Path

import pytest

from hearth.errors import MessageError
from hearth.hub.calls import Call
from hearth.hub.catalog import Target
from hearth.wire.values import RawBytes
from unit.hub.whole_hub import PLENTY, Stage, answer


class Authorizer:
    """Keeps what it was asked for, and refuses methods."""

    def __init__(self, *refused: str) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self._refused = refused

    def __call__(self, call: Call, target: Target | None) -> None:
        self.asked.append((call.method, target and target.server.name))
        if call.method in self._refused:
            raise MessageError("not for this role", -32602)


REQUESTS = [
    ("tools/call", {"name": "a__t"}, "a"),
    ("prompts/get", {"name": "a__p"}, "a"),
    ("resources/read", {"uri": "r:1"}, "a"),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "a__p"}, "argument": {}}, "a"),
    ("vendor/method", {}, "a"),
    ("tools/list", {}, None),
    ("resources/subscribe", {"uri": "r:1"}, None),
    ("logging/setLevel", {"level": "info"}, None),
]


@pytest.mark.parametrize(("method", "params", "server"), REQUESTS, ids=[method for method, _, _ in REQUESTS])
async def test_a_request_that_an_authorizer_refuses_reaches_no_server(
    tmp_path: Path, method: str, params: dict[str, object], server: str | None
) -> None:
    stage = Stage(tmp_path, a=PLENTY)
    member, sink = stage.client()
    stage.ask(member, "tools/list")
    await answer(sink)
    authorizer = stage.hub._pipeline.authorizers = (Authorizer(method),)
    stage.ask(member, method, 2, **params)
    assert (await answer(sink, 2))["error"] == {"code": -32602, "message": "not for this role"}
    assert authorizer[0].asked == [(method, server)]
    assert method == "tools/list" or method not in [item["method"] for item in stage.connection("a").sent]


async def test_authorizers_are_asked_in_their_order_and_before_a_server_is_started(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=PLENTY)
    member, sink = stage.client()
    first, second = Authorizer("tools/list"), Authorizer()
    stage.hub._pipeline.authorizers = (first, second)
    stage.ask(member, "tools/list")
    await answer(sink)
    assert (first.asked, second.asked, stage.started()) == ([("tools/list", None)], [], [])


async def test_results_go_through_every_step_in_order(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a={**PLENTY, "tools/call": {"content": [], "n": 1}})
    member, sink = stage.client()

    def renumber(call: Call, result: RawBytes) -> RawBytes:
        return bytes(result).replace(b'"n":1', b'"n":2')

    def rename(call: Call, result: RawBytes) -> RawBytes:
        return bytes(result).replace(b'"n":2', b'"m":2')

    stage.hub._pipeline.result_steps = (renumber, rename)
    stage.ask(member, "tools/call", name="a__t")
    assert (await answer(sink))["result"] == {"content": [], "m": 2}
