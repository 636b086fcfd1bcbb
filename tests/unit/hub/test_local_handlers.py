"""How conversations begin: what a client is told of Hearth, and what Hearth keeps of the client.

The four lists: from what is known, at once; from what is not, after a bounded wait.
"""

from pathlib import Path
from typing import Any

import pytest

from hearth.errors import MessageError
from hearth.hub.bindings import Binding, LogLevels
from hearth.hub.catalog import Catalog
from hearth.hub.client_requests import ClientRequests
from hearth.hub.dispatcher import Deadlines, Dispatcher
from hearth.hub.local_handlers import InitializeHandler, Listing, client_info
from hearth.hub.sessions import Session
from hearth.mcp import capabilities, messages, versions
from hearth.mcp.catalog import KINDS, PROMPTS, TOOLS, ListKind, ServerCatalog
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.wire import json
from unit.conversations import legacy_script, until
from unit.hub.outlets import Kept
from unit.hub.stage import client, offering, opened, server
from unit.staged_servers import StagedServer

DECLARED = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}, "experimental": {"x": {}}, "tasks": {}}


class Stage:
    """Servers, and clients that come."""

    def __init__(self, *servers: Server) -> None:
        self.catalogue = Catalog(lambda: servers)
        self.lit: list[tuple[Session, str]] = []
        self.openings = InitializeHandler(
            messages.Identity("9.9", "d1"), self.catalogue, lambda session, era: self.lit.append((session, era))
        )
        self.sink = Kept()
        self.session = Session(self.sink, "lines")

    def initialize(self, **params: object) -> dict[str, Any]:
        self.openings.initialize(opened(self.session), json.split(json.dumps(params)), {})
        result: dict[str, Any] = self.sink.messages("answer")[-1]["result"]
        return result

    def discover(self) -> dict[str, Any]:
        self.sink.said.clear()
        self.openings.discover(opened(self.session, era=versions.MODERN), {}, {})
        result: dict[str, Any] = self.sink.messages("answer")[-1]["result"]
        return result


def knowing(name: str, offered: ServerCatalog, profile: bytes = capabilities.FULL, **spec: object) -> Server:
    found = server(name, **spec)  # type: ignore[arg-type]
    found.catalogs.known[profile] = offered
    return found


@pytest.mark.parametrize(
    ("asked", "given"), [("2025-03-26", "2025-03-26"), ("2026-07-28", "2025-11-25"), (None, "2025-11-25")]
)
def test_what_a_legacy_client_says_of_itself_is_kept(asked: str | None, given: str) -> None:
    stage = Stage()
    info = {"name": "c", "title": "C", "version": "1", "websiteUrl": "https://x"}
    result = stage.initialize(protocolVersion=asked, capabilities=DECLARED, clientInfo=info)
    session = stage.session
    assert result["protocolVersion"] == session.version == given
    assert session.era == versions.LEGACY
    assert session.client == {"name": "c", "title": "C", "version": "1"}
    assert session.caller.info is not None
    assert json.loads(session.caller.info) == info
    assert stage.sink.kept == ["initialize"]


@pytest.mark.parametrize(("version", "elicits"), [("2025-03-26", False), ("2025-06-18", True), ("2025-11-25", True)])
def test_a_client_can_be_asked_for_what_its_revision_has(version: str, elicits: bool) -> None:
    stage = Stage()
    stage.initialize(protocolVersion=version, capabilities=DECLARED)
    expected = {"roots", "sampling", "experimental"} | ({"elicitation"} if elicits else set())
    assert stage.session.capabilities.keys() == expected
    # A modern server is told the same.
    assert json.loads(stage.session.caller.capabilities).keys() == expected


def test_who_is_offered_every_server_is_promised_everything_whatever_they_have() -> None:
    stage = Stage(knowing("a", offering("a", declared=b'{"tools":{}}')), server("b"))
    for result in (stage.initialize(), stage.discover()):
        assert result["capabilities"] == capabilities.EVERYTHING
        assert "instructions" not in result
        assert result["_meta"]["hearth/daemonId"] == "d1"


def test_the_instructions_of_all_servers_are_told_under_their_names() -> None:
    stage = Stage(
        knowing("a", offering("a", instructions="be kind")),
        knowing("b", offering("b")),
        knowing("c", offering("c", instructions="be quick")),
    )
    for result in (stage.initialize(), stage.discover()):
        assert result["instructions"] == "# a\nbe kind\n\n# c\nbe quick"


def test_one_server_alone_is_shown_as_it_is() -> None:
    offered = offering("a", declared=b'{"tools":{},"prompts":{"listChanged":true},"tasks":{}}', instructions="be kind")
    stage = Stage(knowing("a", offered), knowing("b", offering("b", instructions="never")))
    stage.session.server = "a"
    for result in (stage.initialize(), stage.discover()):
        assert result["capabilities"] == {"tools": {"listChanged": True}, "prompts": {"listChanged": True}}
        assert result["instructions"] == "be kind"


@pytest.mark.parametrize("known", [True, False])
def test_one_server_alone_that_has_not_said_what_it_has_may_have_everything(known: bool) -> None:
    stage = Stage(knowing("a", offering("a", declared=b"{}")) if known else server("a"))
    stage.session.server = "a"
    assert stage.initialize()["capabilities"] == stage.discover()["capabilities"] == capabilities.EVERYTHING


def test_what_a_client_is_offered_follows_what_it_has_declared() -> None:
    of = knowing("a", offering("a", tools=["plain"]), b"{}", isolation="session")
    rich = offering("a", declared=b'{"tools":{},"logging":{}}', instructions="for the rich", tools=["asks", "plain"])
    of.catalogs.known[b'{"sampling":{}}'] = rich
    stage = Stage(of)
    stage.session.server = "a"
    # Before it has declared anything.
    assert list(stage.catalogue.view(stage.session).tools) == ["plain"]
    result = stage.initialize(capabilities={"sampling": {}})
    assert (result["instructions"], "logging" in result["capabilities"]) == ("for the rich", True)
    assert list(stage.catalogue.view(stage.session).tools) == ["asks", "plain"]


def test_what_is_no_text_is_not_shown_of_a_client() -> None:
    assert client_info(json.Raw(b'{"name":7,"title":"T"}')) == {"title": "T"}
    assert client_info(json.Raw(b'"x"')) == client_info(None) == {}


BROKEN: dict[str, object] = {"initialize": -32600, "server/discover": -32601}


class ListStage:
    """Servers, and their lists."""

    def __init__(self, folder: Path, timeout: float = 60.0, **scripts: dict[str, object]) -> None:
        self.servers = {
            name: StagedServer(folder / f"{name}.json", script, name=name) for name, script in scripts.items()
        }
        self.catalogue = Catalog(self.servers.values)
        for staged in self.servers.values():
            staged.audience.catalog_changed = self._offered  # type: ignore[method-assign]
        levels = LogLevels()
        binding = Binding(ClientRequests("d"), levels)
        forwarding = Dispatcher(levels, Deadlines(self.servers.values))
        self.listing = Listing(self.catalogue, binding, forwarding, b'{"name":"hearth"}', lambda: timeout)

    def _offered(self, instance: Instance) -> None:
        self.servers[instance.name].update_catalog(instance)
        self.catalogue.changed()

    def ask(self, member: Session, kind: ListKind = TOOLS, id: bytes = b"1", **params: object) -> None:
        self.listing.answer(opened(member, id), kind, json.split(json.dumps(params)))

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
    stage = ListStage(tmp_path, a=legacy_script(), b=legacy_script())
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
    stage = ListStage(tmp_path, a=legacy_script())
    member, sink = client()
    stage.ask(member, kind)
    assert kind.member in await listed(sink)
    assert member.seen == {kind: stage.catalogue.view(member).content[kind]}


@pytest.mark.parametrize("cursor", ["", "x", None])
async def test_a_cursor_is_bad_params(tmp_path: Path, cursor: object) -> None:
    stage = ListStage(tmp_path, a=legacy_script())
    with pytest.raises(MessageError, match="one page"):
        stage.ask(client()[0], cursor=cursor)
    assert stage.started() == {"a": 0}


async def test_a_list_goes_on_without_the_stragglers_and_they_are_not_given_up(tmp_path: Path) -> None:
    slow = legacy_script()
    tools = slow.pop("tools/list")
    stage = ListStage(tmp_path, 0.05, a=slow, b=legacy_script())
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
    stage = ListStage(tmp_path, a=dict(BROKEN), b=legacy_script())
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
    stage = ListStage(tmp_path, a=dict(BROKEN), b=legacy_script())
    member, sink = client()
    member.server = "a"
    for count in (1, 2):
        stage.ask(member, id=b"%d" % count)
        error = await listed(sink, count)
        assert error["code"] == -32603
        assert "server 'a'" in error["message"]
    assert stage.started()["b"] == 0


async def test_a_call_that_was_cancelled_meanwhile_gets_no_list(tmp_path: Path) -> None:
    stage = ListStage(tmp_path, a=legacy_script())
    member, sink = client()
    stage.ask(member)
    next(iter(member.open.values())).cancel()
    await until(lambda: not stage.catalogue.unknown(member), "the server has said what it has")
    stage.ask(member, id=b"2")
    assert [answer["id"] for answer in sink.messages("answer")] == [2]


async def test_a_modern_list_is_modern(tmp_path: Path) -> None:
    stage = ListStage(tmp_path, a=legacy_script())
    member, sink = client(versions.MODERN)
    stage.ask(member)
    result = await listed(sink)
    assert (result["resultType"], names(result)) == ("complete", ["a__t"])
    assert result["_meta"] == {versions.SERVER_INFO_KEY: {"name": "hearth"}}


async def test_whatever_has_never_said_what_it_has_is_started_when_a_client_might_miss_it(tmp_path: Path) -> None:
    stage = ListStage(tmp_path, a=legacy_script(), b=dict(BROKEN))
    member, sink = client()
    await stage.listing.try_unknown([member])
    assert stage.started() == {"a": 1, "b": 1}
    assert [of.name for of in stage.catalogue.unknown(member)] == ["b"]
    assert sink.said == []
    await stage.listing.try_unknown([member])
    assert stage.started()["a"] == 1


async def test_a_list_of_nothing_is_empty(tmp_path: Path) -> None:
    stage = ListStage(tmp_path)
    member, sink = client()
    stage.ask(member, PROMPTS)
    assert await listed(sink) == {"prompts": []}
