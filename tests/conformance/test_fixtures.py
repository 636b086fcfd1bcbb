"""The matrix's own means: a client of each revision with a server of the same, and nothing between them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.conformance.clients import Client, client_of
from support.conformance.expectations import expected
from support.conformance.features import FEATURES, Desk, tried
from support.conformance.revisions import CAPABILITIES_KEY, LEGACY, MODERN, REVISIONS, VERSION_KEY, is_modern
from support.conformance.vocabulary import Message
from support.conformance.wires import SERVER, Child
from support.scripted_daemon import client_environment

ENVELOPE = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}}


def server_of(home: Path, revision: str) -> Child:
    return Child(home, client_environment(home), revision, str(home / "complaints"), script=SERVER)


def opened(home: Path, revision: str, bare: bool = False) -> Client:
    client = client_of(server_of(home, revision), revision, "direct", bare)
    client.open()
    return client


@pytest.fixture(scope="module", params=REVISIONS)
def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A client on a server of its own revision; at the end neither has anything to complain about."""
    home = tmp_path_factory.mktemp("direct")
    client, bare = (opened(home, request.param, bare) for bare in (False, True))
    yield Desk(client, bare, request.param)
    client.close()
    bare.close()
    assert not (home / "complaints").exists() or (home / "complaints").read_text() == ""


@pytest.mark.parametrize("feature", FEATURES)
def test_a_client_and_a_server_of_one_revision_understand_each_other(desk: Desk, feature: str) -> None:
    assert tried(feature, desk) == expected(feature, desk.upstream, desk.upstream)


@pytest.fixture
def wire(tmp_path: Path, revision: str) -> Iterator[Child]:
    child = server_of(tmp_path, revision)
    yield child
    child.close()


def answer(wire: Child, method: str, params: Message) -> Message:
    wire.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return wire.receive()


@pytest.mark.parametrize("revision", LEGACY)
def test_a_legacy_server_refuses_the_modern_envelope(wire: Child) -> None:
    assert answer(wire, "server/discover", {"_meta": ENVELOPE})["error"]["code"] == -32600
    assert answer(wire, "server/discover", {})["error"]["code"] == -32601
    assert answer(wire, "tools/list", {"_meta": ENVELOPE})["error"]["code"] == -32600
    assert answer(wire, "tools/list", {})["error"]["code"] == -32600


@pytest.mark.parametrize("revision", [MODERN])
def test_a_modern_server_refuses_the_handshake_and_what_has_no_envelope(wire: Child) -> None:
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    assert answer(wire, "initialize", opening)["error"]["code"] == -32022
    assert answer(wire, "tools/list", {})["error"]["code"] == -32602
    assert answer(wire, "tools/list", {"_meta": {VERSION_KEY: MODERN}})["error"]["code"] == -32602
    assert answer(wire, "tools/list", {"_meta": {**ENVELOPE, VERSION_KEY: "2027-01-01"}})["error"]["code"] == -32022
    assert answer(wire, "ping", {"_meta": ENVELOPE})["error"]["code"] == -32601


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_server_keeps_what_it_should_not_have_got(tmp_path: Path, wire: Child, revision: str) -> None:
    # The question for the era is nothing to complain about, whatever it is answered.
    answer(wire, "initialize" if is_modern(revision) else "server/discover", {"protocolVersion": "2025-11-25"})
    assert not (tmp_path / "complaints").read_text()
    answer(wire, "no/such/method", {"_meta": ENVELOPE} if is_modern(revision) else {})
    assert "no/such/method" in (tmp_path / "complaints").read_text()
