"""The era in which a server is started: by its entry, by what is known of it, by who comes first."""

import pytest
from msgspec.structs import replace

from hearth.config import ServerSpec
from hearth.mcp import isolation
from hearth.upstreams import era_choice, traits
from hearth.upstreams.traits import NOTHING, ServerTraits

BOTH = ServerTraits(eras=frozenset({"legacy", "modern"}))
OLD = ServerTraits(eras=frozenset({"legacy"}))


def spec(**keys: object) -> ServerSpec:
    return ServerSpec(name="s", command="true", **keys)  # type: ignore[arg-type]


def choose(entry: ServerSpec, mode: str, known: ServerTraits, client: str, running: str | None) -> str:
    return era_choice.choose(entry, mode, known, client, running, era_choice.is_per_era(entry, known))


def apart(monkeypatch: pytest.MonkeyPatch) -> ServerTraits:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    return replace(BOTH, apart_since=999.0)


@pytest.mark.parametrize("client", ["legacy", "modern"])
@pytest.mark.parametrize(
    ("keys", "known", "running", "era"),
    [
        ({"era": "legacy"}, BOTH, None, "legacy"),
        ({"era": "modern"}, OLD, None, "modern"),
        ({}, BOTH, None, "modern"),
        ({}, BOTH, "legacy", "modern"),
        ({}, OLD, None, "legacy"),
        ({}, NOTHING, "legacy", "legacy"),
        ({}, NOTHING, "modern", "modern"),
        ({}, ServerTraits(only="legacy"), None, "legacy"),
        ({"era": "client"}, ServerTraits(only="modern"), None, "modern"),
        ({"isolation": "shared"}, NOTHING, None, "modern"),
        ({"isolation": "shared"}, OLD, "legacy", "legacy"),
    ],
)
def test_clients_of_both_eras_get_the_same(
    keys: dict[str, object], known: ServerTraits, running: str | None, era: str, client: str
) -> None:
    assert choose(spec(**keys), isolation.SHARED, known, client, running) == era


@pytest.mark.parametrize("client", ["legacy", "modern"])
def test_each_client_gets_its_own_where_nothing_is_known_or_both_are_needed(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose(spec(), isolation.SHARED, NOTHING, client, None) == client
    assert choose(spec(era="client"), isolation.SHARED, BOTH, client, "legacy") == client
    assert choose(spec(), isolation.SESSION, BOTH, client, None) == client
    assert choose(spec(), isolation.WORKSPACE, apart(monkeypatch), client, "modern") == client


def test_that_a_server_needs_both_is_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    known = apart(monkeypatch)
    assert known.apart
    monkeypatch.setattr("time.time", lambda: 1000.0 + traits.ONLY_SECONDS)
    assert not known.apart


def test_the_modern_era_is_tried_once_and_only_where_the_entry_leaves_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    assert era_choice.may_try_modern(spec(), isolation.SHARED, OLD)
    assert era_choice.may_try_modern(spec(isolation="workspace"), isolation.WORKSPACE, OLD)
    for keys, mode, known in (
        ({"era": "legacy"}, isolation.SHARED, OLD),
        ({"era": "client"}, isolation.SHARED, OLD),
        ({}, isolation.SESSION, OLD),
        ({}, isolation.SHARED, BOTH),
        ({}, isolation.SHARED, ServerTraits(only="legacy")),
        ({}, isolation.SHARED, replace(OLD, apart_since=apart(monkeypatch).apart_since)),
    ):
        assert not era_choice.may_try_modern(spec(**keys), mode, known)
