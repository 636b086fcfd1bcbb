"""The four lists: from what is known, at once; from what is not, after a bounded wait."""

from pathlib import Path
from typing import Any

import pytest

from hearth.errors import MessageError
from hearth.hub.bindings import Binding, LogLevels
from hearth.hub.catalog import Catalog
from hearth.hub.client_requests import ClientRequests
from hearth.hub.dispatcher import Deadlines, Dispatcher
from hearth.hub.local_handlers import Listing
from hearth.hub.sessions import Session
from hearth.mcp import versions
from hearth.mcp.catalog import KINDS, PROMPTS, TOOLS, ListKind
from hearth.upstreams.instance import Instance
from hearth.wire import json
from unit.conversations import legacy_script, until
from unit.hub.outlets import Kept
from unit.hub.stage import client, opened
from unit.staged_servers import StagedServer

BROKEN: dict[str, object] = {"initialize": -32600, "server/discover": -32601}


class Stage:
    """Servers, and their lists."""

    def __init__(self, folder: Path, timeout: float = 60.0, **scripts: dict[str, object]) -> None:
        self.servers = {
            name: StagedServer(folder / f"{name}.json", script, name=name) for name, script in scripts.items()
        }
        self.catalogue = Catalog(self.servers.values)
        for server in self.servers.values():
            server.audience.catalog_changed = self._offered  # type: ignore[method-assign]
        levels = LogLevels()
        binding = Binding(ClientRequests("d"), levels)
        forwarding = Dispatcher(levels, Deadlines(self.servers.values))
        self.listing = Listing(self.catalogue, binding, forwarding, b'{"name":"hearth"}', lambda: timeout)

    def _offered(self, instance: Instance) -> None:
        self.servers[instance.name].update_catalog(instance)
        self.catalogue.changed()

    def ask(self, member: Session, kind: ListKind = TOOLS, id: bytes = b"1", **params: object) -> None:
        call = opened(member, id)
        self.listing.answer(call, kind, json.split(json.dumps(params)))

    def started(self) -> dict[str, int]:
        return {name: len(server.connections) for name, server in self.servers.items()}


async def listed(sink: Kept, count: int = 1) -> dict[str, Any]:
    await until(lambda: len(sink.heard("answer")) == count, "the list is given")
    answer = sink.messages("answer")[-1]
    found: dict[str, Any] = answer.get("result") or answer["error"]
    return found


def names(result: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in result["tools"]]


async def test_a_list_waits_for_servers_that_have_never_said_what_they_have(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=legacy_script(), b=legacy_script())
    member, sink = client()
    stage.ask(member)
    assert sink.said == []
    assert names(await listed(sink)) == ["a__t", "b__t"]
    # And the next one waits for nobody.
    stage.ask(member, id=b"2")
    assert len(sink.heard("answer")) == 2
    assert stage.started() == {"a": 1, "b": 1}


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_client_has_seen_of_each_list_is_remembered(tmp_path: Path, kind: ListKind) -> None:
    stage = Stage(tmp_path, a=legacy_script())
    member, sink = client()
    stage.ask(member, kind)
    assert kind.member in await listed(sink)
    assert member.seen == {kind: stage.catalogue.view(member).content[kind]}


@pytest.mark.parametrize("cursor", ["", "x", None])
async def test_a_cursor_is_bad_params(tmp_path: Path, cursor: object) -> None:
    stage = Stage(tmp_path, a=legacy_script())
    with pytest.raises(MessageError, match="one page"):
        stage.ask(client()[0], cursor=cursor)
    assert stage.started() == {"a": 0}


async def test_a_list_goes_on_without_the_stragglers_and_they_are_not_given_up(tmp_path: Path) -> None:
    slow = legacy_script()
    tools = slow.pop("tools/list")
    stage = Stage(tmp_path, 0.05, a=slow, b=legacy_script())
    member, sink = client()
    stage.ask(member)
    assert names(await listed(sink)) == ["b__t"]
    connection = stage.servers["a"].connections[0]
    number = next(item["id"] for item in connection.sent if item["method"] == "tools/list")
    connection.give(number, tools)
    await until(lambda: not stage.catalogue.unknown(member), "the straggler has come")
    stage.ask(member, id=b"2")
    assert names(await listed(sink, 2)) == ["a__t", "b__t"]


async def test_among_others_a_server_that_fails_is_left_out_and_later_not_waited_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=dict(BROKEN), b=legacy_script())
    member, sink = client()
    stage.ask(member)
    assert names(await listed(sink)) == ["b__t"]
    assert stage.started()["a"] == 1
    stage.servers["a"].script.clear()
    stage.ask(member, id=b"2")
    # Tried again, and never heard of; the answer is there all the same.
    assert len(sink.heard("answer")) == 2
    await until(lambda: stage.started()["a"] == 2, "it is tried again")
    await stage.servers["a"].retire()


async def test_of_one_server_alone_its_failure_is_the_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=dict(BROKEN), b=legacy_script())
    member, sink = client()
    member.server = "a"
    for count in (1, 2):
        stage.ask(member, id=b"%d" % count)
        error = await listed(sink, count)
        assert error["code"] == -32603
        assert "server 'a'" in error["message"]
    assert stage.started()["b"] == 0


async def test_a_call_that_was_cancelled_meanwhile_gets_no_list(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=legacy_script())
    member, sink = client()
    stage.ask(member)
    next(iter(member.open.values())).cancel()
    await until(lambda: not stage.catalogue.unknown(member), "the server has said what it has")
    stage.ask(member, id=b"2")
    assert [answer["id"] for answer in sink.messages("answer")] == [2]


async def test_a_modern_list_is_modern(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=legacy_script())
    member, sink = client(versions.MODERN)
    stage.ask(member)
    result = await listed(sink)
    assert (result["resultType"], names(result)) == ("complete", ["a__t"])
    assert result["_meta"] == {versions.SERVER_INFO_KEY: {"name": "hearth"}}


async def test_whatever_has_never_said_what_it_has_is_started_when_a_client_might_miss_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, a=legacy_script(), b=dict(BROKEN))
    member, sink = client()
    await stage.listing.try_unknown([member])
    assert stage.started() == {"a": 1, "b": 1}
    assert [of.name for of in stage.catalogue.unknown(member)] == ["b"]
    assert sink.said == []
    await stage.listing.try_unknown([member])
    assert stage.started()["a"] == 1


async def test_a_list_of_nothing_is_empty(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = client()
    stage.ask(member, PROMPTS)
    assert await listed(sink) == {"prompts": []}
