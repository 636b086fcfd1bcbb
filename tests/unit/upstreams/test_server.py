"""Which instance of a server a client gets: by era, by isolation, by what was learned."""

import asyncio
import time
from pathlib import Path

import pytest

from hearth.errors import UpstreamError
from hearth.mcp import capabilities, isolation, versions
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.connection import Connection, Owner
from hearth.upstreams.instance import Instance
from hearth.upstreams.supervision import READY
from hearth.upstreams.traits import ONLY_SECONDS
from unit.conversations import dual_script, legacy_script, modern_script, until
from unit.staged_instances import Mortal
from unit.staged_servers import LEGACY, MODERN, StagedServer


def instances(*found: Instance) -> int:
    return len(set(found))


# --- eras


@pytest.mark.parametrize("mode", ["shared", "workspace"])
@pytest.mark.parametrize("first", [LEGACY, MODERN])
async def test_a_server_that_speaks_both_eras_is_one_process_in_the_era_of_its_first_client(
    dual: StagedServer, first: ClientContext, mode: str
) -> None:
    dual.mode = mode  # type: ignore[assignment]
    place = first._replace(cwd="/a")
    one = await dual.ensure(place)
    for era in (versions.LEGACY, versions.MODERN):
        assert await dual.ensure(place._replace(session="3", era=era)) is one
    assert (one.era, len(dual.connections)) == (first.era, 1)
    # The era is remembered.
    assert (await dual.again().ensure(LEGACY if first is MODERN else MODERN)).era == first.era


async def test_clients_of_both_eras_that_come_together_share_one_process(dual: StagedServer) -> None:
    found = await asyncio.gather(*map(dual.ensure, (LEGACY, MODERN, ClientContext("3", versions.LEGACY))))
    assert (instances(*found), len(dual.connections)) == (1, 1)


async def test_a_server_that_is_known_to_speak_the_modern_era_runs_in_it_for_everybody(dual: StagedServer) -> None:
    dual._traits.note_era(dual.spec, versions.LEGACY, versions.LEGACY)
    dual._traits.note_era(dual.spec, versions.MODERN, versions.MODERN)
    assert instances(await dual.ensure(LEGACY), await dual.ensure(MODERN)) == 1
    assert [instance.era for instance in dual.instances.values()] == [versions.MODERN]


async def test_a_server_that_asks_is_tried_in_the_modern_era_before_its_isolation_rises(dual: StagedServer) -> None:
    former = await dual.ensure(LEGACY)
    dual.learn(isolation.QUESTION)
    dual.learn(isolation.QUESTION)
    assert former.obsolete
    one = await dual.ensure(LEGACY)
    assert (one.era, dual.mode) == (versions.MODERN, "shared")
    assert await dual.ensure(MODERN) is one
    successor = dual.again()
    assert ((await successor.ensure(LEGACY)).era, successor.mode) == (versions.MODERN, "shared")
    # Questions of the legacy process in its last calls change nothing. A modern process must not ask like that.
    dual.learn(isolation.QUESTION, versions.LEGACY)
    assert (dual.mode, one.obsolete) == ("shared", False)
    dual.learn(isolation.QUESTION, versions.MODERN)
    assert dual.mode == "session"


@pytest.mark.parametrize("mode", ["auto", "workspace"])
async def test_a_server_that_asks_and_speaks_no_modern_era_is_shared_more_narrowly_after_the_trial(
    learned: Path, mode: str
) -> None:
    server = StagedServer(learned, isolation=mode)
    await server.ensure(LEGACY)
    server.learn(isolation.QUESTION)
    assert server.mode == ("shared" if mode == "auto" else mode)
    one = await server.ensure(LEGACY)
    assert (one.era, one.open) == (versions.LEGACY, True)
    assert server.mode == one.mode == ("session" if mode == "auto" else mode)


async def test_a_server_that_cannot_be_started_in_the_modern_era_goes_on_in_the_legacy_one(learned: Path) -> None:
    class HangsInModern(StagedServer):
        async def _connect(self, owner: Owner, tenant: ClientContext) -> Connection:
            assert isinstance(owner, Instance)
            self.script = {} if owner.wanted == versions.MODERN else legacy_script()
            return await super()._connect(owner, tenant)

    server = HangsInModern(learned, start_timeout=0.05)
    await server.ensure(LEGACY)
    server.learn(isolation.QUESTION)
    found = await asyncio.gather(*(server.ensure(ClientContext(name, versions.LEGACY)) for name in ("3", "4")))
    assert [(one.era, one.mode, one.open) for one in found] == [(versions.LEGACY, "session", True)] * 2
    assert (server.again().mode, server.error) == ("session", None)


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
async def test_a_start_that_a_question_has_ended_is_no_trial_of_the_modern_era(learned: Path, era: str) -> None:
    script = dual_script()
    tools = script.pop("tools/list")
    server = StagedServer(learned, script)
    waiting = asyncio.create_task(server.ensure(LEGACY))
    await until(lambda: server.connections and "tools/list" in server.connections[0].methods(), "it is started")
    [first] = server.instances.values()
    server.learn(isolation.QUESTION)
    script["tools/list"] = tools
    await first.retire()
    found = await waiting
    assert (found.era, found.open, server.mode) == (versions.MODERN, True, "shared")
    assert await server.ensure(ClientContext("3", era)) is found


@pytest.mark.parametrize("mode", ["shared", "workspace"])
async def test_a_server_that_exits_when_it_is_tried_in_the_modern_era_is_tried_once(learned: Path, mode: str) -> None:
    class Exits(StagedServer):
        async def _connect(self, owner: Owner, tenant: ClientContext) -> Connection:
            self.connections.append(Mortal(owner, self.script, self.name))
            return self.connections[-1]

    script = legacy_script()
    del script["server/discover"]
    server = Exits(learned, script, isolation=mode)
    await server.ensure(LEGACY)
    server.learn(isolation.QUESTION)
    one = await server.ensure(LEGACY)
    assert one.era == versions.LEGACY
    server.learn(isolation.QUESTION)
    assert (await server.ensure(LEGACY), one.obsolete) == (one, False)


async def test_a_server_that_needs_a_process_for_each_era_keeps_them_while_the_daemon_runs(
    dual: StagedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dual._traits.note_era(dual.spec, versions.MODERN, versions.MODERN)
    assert dual.need_both()
    much_later = time.time() + ONLY_SECONDS + 1
    monkeypatch.setattr("time.time", lambda: much_later)
    assert dual.need_both()
    assert [(await dual.ensure(each)).era for each in (LEGACY, MODERN)] == [versions.LEGACY, versions.MODERN]
    assert (await dual.again().ensure(LEGACY)).era == versions.MODERN, "another daemon finds it out again"


async def test_a_server_that_offers_less_in_the_other_era_has_a_process_for_each(learned: Path) -> None:
    script = dual_script()
    server = StagedServer(learned, script)
    # As the hub does: it is told before those who wait for the start are.
    server.audience.catalog_changed = server.update_catalog  # type: ignore[method-assign]
    await server.ensure(LEGACY)
    server.learn(isolation.QUESTION)
    script["tools/list"] = {"tools": [{"name": "other", "inputSchema": {"type": "object"}}]}
    assert (await server.ensure(LEGACY)).era == versions.LEGACY
    assert len(server.connections) == 3, "legacy, the trial of the modern era, and legacy again"
    for again in (server, server.again()):
        old, new = await again.ensure(LEGACY), await again.ensure(MODERN)
        assert (old.era, new.era) == (versions.LEGACY, versions.MODERN)
        assert (again.catalog_for(LEGACY), again.catalog_for(MODERN)) == (old.catalog, new.catalog)


async def test_tools_of_two_folders_do_not_tell_what_an_era_lacks(learned: Path) -> None:
    script = dual_script()
    server = StagedServer(learned, script, isolation="workspace")
    server.audience.catalog_changed = server.update_catalog  # type: ignore[method-assign]
    await server.ensure(LEGACY._replace(cwd="/a"))
    server.learn(isolation.QUESTION)
    script["tools/list"] = {"tools": [{"name": "other", "inputSchema": {"type": "object"}}]}
    assert (await server.ensure(LEGACY._replace(cwd="/b"))).era == versions.MODERN
    assert len(server.connections) == 2


async def test_a_server_that_needs_a_process_for_each_era_offers_to_each_what_its_own_has(dual: StagedServer) -> None:
    dual.update_catalog(await dual.ensure(LEGACY))
    assert dual.catalog_for(MODERN) is not None
    assert dual.need_both()
    assert dual.catalog_for(LEGACY) is not None
    assert dual.catalog_for(MODERN) is None


@pytest.mark.parametrize("spec", [{"era": "legacy"}, {"era": "client"}, {"isolation": "shared"}])
def test_how_it_is_shared_by_hand_is_not_changed_by_what_an_era_lacks(learned: Path, spec: dict[str, object]) -> None:
    assert not StagedServer(learned, dual_script(), **spec).need_both()


async def test_with_the_era_of_the_client_each_era_has_a_process_of_its_own(learned: Path) -> None:
    server = StagedServer(learned, dual_script(), era="client")
    old, new = await server.ensure(LEGACY), await server.ensure(MODERN)
    assert (old.era, new.era, len(server.connections)) == (versions.LEGACY, versions.MODERN, 2)
    assert await server.ensure(ClientContext("3", versions.LEGACY)) is old
    assert await server.ensure(ClientContext("4", versions.MODERN)) is new
    assert len(server.connections) == 2


@pytest.mark.parametrize(("script", "era"), [(legacy_script(), versions.LEGACY), (modern_script(), versions.MODERN)])
@pytest.mark.parametrize("first", [LEGACY, MODERN])
async def test_a_server_that_speaks_one_era_is_one_process_for_clients_of_both(
    learned: Path, script: dict[str, object], era: str, first: ClientContext
) -> None:
    server = StagedServer(learned, script)
    one, other = await server.ensure(first), await server.ensure(MODERN if first is LEGACY else LEGACY)
    assert one is other
    assert one.era == era
    assert list(server.instances.values()) == [one]
    # One that was started to find out, where the other era had been asked for first, is ended again.
    started = {item[1] for item in server.audience.told if item[0] == "offered"}
    assert {instance for instance, _ in server.retired} == started - {one}


async def test_a_server_that_was_found_to_speak_one_era_only_is_not_asked_again(server: StagedServer) -> None:
    await server.ensure(MODERN)
    await server.ensure(LEGACY)
    assert len(server.connections) == 1
    successor = server.again()
    instance = await successor.ensure(MODERN)
    assert (instance.wanted, len(successor.connections)) == (versions.LEGACY, 1)


async def test_everybody_waits_for_the_one_who_finds_out_which_era_it_is(server: StagedServer) -> None:
    found = await asyncio.gather(*(server.ensure(tenant) for tenant in (MODERN, LEGACY, ClientContext("3"), LEGACY)))
    assert (instances(*found), len(server.connections)) == (1, 1)


async def test_an_era_probe_that_fails_leaves_the_way_free_for_the_others(learned: Path) -> None:
    server = StagedServer(learned, {"initialize": -32600, "server/discover": -32601})
    results = await asyncio.gather(*map(server.ensure, (MODERN, LEGACY)), return_exceptions=True)
    assert all(isinstance(result, UpstreamError) for result in results)
    server.script = legacy_script()
    for instance in server.instances.values():
        instance.reset_failures()
    assert (await server.ensure(LEGACY)).state == READY


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
async def test_an_era_that_the_config_names_is_everybody_s(learned: Path, era: str) -> None:
    server = StagedServer(learned, dual_script(), era=era)
    assert instances(await server.ensure(LEGACY), await server.ensure(MODERN)) == 1
    assert {instance.era for instance in server.instances.values()} == {era}
    # What a config says is nothing that was learned.
    assert not learned.exists()


@pytest.mark.parametrize(
    ("script", "era"),
    [(dual_script(), versions.MODERN), (legacy_script(), versions.LEGACY), (modern_script(), versions.MODERN)],
)
async def test_shared_by_hand_means_one_process_in_one_era_whoever_comes_first(
    learned: Path, script: dict[str, object], era: str
) -> None:
    server = StagedServer(learned, script, isolation="shared")
    one = await server.ensure(LEGACY)
    assert await server.ensure(MODERN) is await server.ensure(LEGACY) is one
    assert (one.era, len(server.connections)) == (era, 1)


# --- isolation


@pytest.mark.parametrize(
    ("mode", "shares"),
    [
        ("shared", {"same folder", "other folder", "same session"}),
        ("workspace", {"same folder", "same session"}),
        ("session", {"same session"}),
    ],
)
async def test_who_shares_an_instance_is_a_matter_of_the_mode(learned: Path, mode: str, shares: set[str]) -> None:
    server = StagedServer(learned, isolation=mode)
    one = await server.ensure(ClientContext("1", cwd="/a"))
    others = {
        "same session": ClientContext("1", cwd="/a"),
        "same folder": ClientContext("2", cwd="/a"),
        "other folder": ClientContext("3", cwd="/b"),
    }
    assert {name for name, tenant in others.items() if await server.ensure(tenant) is one} == shares
    assert one.mode == mode


async def test_only_alone_on_an_instance_a_client_declares_its_capabilities_for_itself(learned: Path) -> None:
    tenant = ClientContext("1", versions.LEGACY, capabilities=b'{"roots":{}}')
    for mode, declared in (("session", {"roots": {}}), ("workspace", None), ("shared", None)):
        server = StagedServer(learned, isolation=mode)
        instance = await server.ensure(tenant)
        (params,) = (item["params"] for item in server.connections[0].sent if item["method"] == "initialize")
        assert params["capabilities"] == declared if declared else params["capabilities"].keys() == {
            "roots", "sampling", "elicitation",
        }  # fmt: skip
        assert instance.capabilities == (tenant.capabilities if declared else capabilities.FULL)


async def test_what_it_offers_is_known_for_those_who_declare_the_same(learned: Path) -> None:
    server = StagedServer(learned, isolation="session")
    plain, rich = ClientContext("1", versions.LEGACY), ClientContext("2", versions.LEGACY, capabilities=b'{"roots":{}}')
    assert server.catalog_for(plain) is server.catalogs.any is None
    instance = await server.ensure(plain)
    server.update_catalog(instance)
    assert server.catalog_for(plain) is server.catalog_for(ClientContext("3", versions.LEGACY)) is instance.catalog
    assert server.catalog_for(rich) is server.catalog_for(ClientContext("4")) is None
    assert server.catalogs.any is instance.catalog


async def test_what_a_client_s_own_process_offers_counts_first_in_its_own_era_before_the_other(learned: Path) -> None:
    server = StagedServer(learned, dual_script(), era="client")
    old, new = await server.ensure(LEGACY), await server.ensure(MODERN)
    server.update_catalog(old)
    server.update_catalog(new)
    assert (server.catalog_for(LEGACY), server.catalog_for(MODERN)) == (old.catalog, new.catalog)
    assert old.catalog is not new.catalog
    only = StagedServer(learned.with_name("other.json"), legacy_script())
    one = await only.ensure(MODERN)
    # It has changed there, and nobody has been told yet.
    assert only.catalog_for(LEGACY) is only.catalog_for(MODERN) is one.catalog is not None


@pytest.mark.parametrize(
    ("events", "mode"),
    [
        ([isolation.ROOTS], "workspace"),
        ([isolation.QUESTION], "session"),
        ([isolation.ROOTS, isolation.QUESTION], "session"),
        ([isolation.QUESTION, isolation.ROOTS], "session"),
    ],
)
async def test_a_server_that_asks_is_shared_more_narrowly_from_then_on(
    server: StagedServer, events: list[isolation.Event], mode: str
) -> None:
    assert server.mode == "shared"
    # Tried in the modern era already.
    one = await server.ensure(MODERN)
    for event in events:
        server.learn(event)
    assert server.mode == server.again().mode == mode
    # Its calls finish, and whoever calls next gets another.
    assert (one.obsolete, one.open) == (True, False)
    assert server.retired == [(one, server.spec.call_ceiling)]
    other = await server.ensure(LEGACY)
    assert other is not one
    assert other.mode == mode


async def test_what_was_learned_again_changes_nothing(server: StagedServer) -> None:
    server.learn(isolation.ROOTS)
    one = await server.ensure(LEGACY)
    server.learn(isolation.ROOTS)
    assert (list(server.instances.values()), server.retired) == ([one], [])


@pytest.mark.parametrize("mode", ["shared", "workspace"])
async def test_how_it_is_shared_by_hand_is_not_changed_by_what_it_asks(learned: Path, mode: str) -> None:
    server = StagedServer(learned, isolation=mode)
    # Tried in the modern era already.
    one = await server.ensure(MODERN._replace(cwd="/a"))
    server.learn(isolation.QUESTION)
    assert (server.mode, await server.ensure(LEGACY._replace(cwd="/a"))) == (mode, one)
    assert not one.obsolete


async def test_who_waits_for_an_instance_that_is_no_longer_right_gets_the_one_that_is(learned: Path) -> None:
    script = legacy_script()
    tools = script.pop("tools/list")
    server = StagedServer(learned, script)
    waiting = asyncio.create_task(server.ensure(LEGACY))
    await until(lambda: server.connections and "tools/list" in server.connections[0].methods(), "it is started")
    [first] = server.instances.values()
    server.learn(isolation.ROOTS)
    script["tools/list"] = tools
    number = next(item["id"] for item in server.connections[0].sent if item["method"] == "tools/list")
    server.connections[0].give(number, tools)
    found = await waiting
    assert found is not first
    assert (found.mode, found.open) == ("workspace", True)


async def test_who_never_gets_the_right_one_is_told(server: StagedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = Instance._ready

    def outdated(instance: Instance, begun: float) -> None:
        ready(instance, begun)
        key = next(key for key, known in server.instances.items() if known is instance)
        server._drop(key, instance)

    monkeypatch.setattr(Instance, "_ready", outdated)
    with pytest.raises(UpstreamError, match="changes too often"):
        await server.ensure(LEGACY)
