"""How conversations begin: what a client is told of Hearth, and what Hearth keeps of the client."""

from typing import Any

import pytest

from hearth.hub.catalog import Catalog
from hearth.hub.local_handlers import InitializeHandler, client_info
from hearth.hub.sessions import Session
from hearth.mcp import capabilities, messages, versions
from hearth.mcp.catalog import ServerCatalog
from hearth.upstreams.server import Server
from hearth.wire import json
from unit.hub.outlets import Kept
from unit.hub.stage import offering, opened, server

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
        call = opened(self.session)
        self.openings.initialize(call, json.split(json.dumps(params)), {})
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
