"""How a server's processes are launched, when one is ended, and what is said of them."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth.errors import ConfigError, UpstreamError
from hearth.mcp import isolation, versions
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.server import Server
from hearth.upstreams.stdio import StdioConnection
from hearth.upstreams.supervision import FAILED, READY, STARTING, STOPPED
from unit.conversations import Hearer, dual_script, until
from unit.staged_instances import Nobody
from unit.staged_servers import LEGACY, MODERN, StagedServer

# --- connecting


async def launched(server: StagedServer, tenant: ClientContext) -> tuple[list[str], dict[str, str], str]:
    made = await Server._connect(server, Hearer(), tenant)
    assert isinstance(made, StdioConnection)
    argv, environment, cwd = made._launch
    return list(argv), dict(environment), cwd


@pytest.mark.parametrize(
    ("spec", "cwd"),
    [
        ({"isolation": "shared"}, "/home/me"),
        ({"isolation": "workspace"}, "/work"),
        ({"isolation": "session"}, "/work"),
        ({"isolation": "session", "cwd": "~/there"}, "/home/me/there"),
        ({"isolation": "shared", "cwd": "/fixed"}, "/fixed"),
    ],
)
async def test_a_process_runs_in_a_client_s_folder_only_if_it_is_shared_by_place(
    learned: Path, monkeypatch: pytest.MonkeyPatch, spec: dict[str, object], cwd: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    server = StagedServer(learned, args=("-x",), env={"KEY": "value"}, **spec)
    argv, environment, folder = await launched(server, ClientContext("1", cwd="/work"))
    assert (argv, environment["KEY"], folder) == (["true", "-x"], "value", cwd)


async def test_a_reference_that_leads_nowhere_is_an_error_that_names_the_server(learned: Path) -> None:
    server = StagedServer(learned, env={"KEY": "${NOT_SET_ANYWHERE}"})
    with pytest.raises(ConfigError, match=r"'s'.*NOT_SET_ANYWHERE"):
        await launched(server, LEGACY)


# --- ending


async def test_what_nobody_uses_any_more_is_ended_after_a_while(learned: Path) -> None:
    server = StagedServer(learned, instance_idle=0.02)
    one = await server.ensure(LEGACY)
    for holder in ("a", "b"):
        server.hold(one, holder, holder)
    one.subscriptions.hold("r:1", "a")
    server.release(one, "a")
    assert not one.subscriptions
    await asyncio.sleep(0.05)
    assert list(server.instances.values()) == [one]
    server.release(one, "b")
    await until(lambda: server.retired, "it is ended")
    assert (server.instances, one.obsolete) == ({}, True)
    # Who ever used it is known for as long as it lives.
    assert one.ever == {"a", "b"}


async def test_an_instance_that_is_wanted_again_in_time_stays(learned: Path) -> None:
    server = StagedServer(learned, instance_idle=0.02)
    one = await server.ensure(LEGACY)
    server.hold(one, "a", "a")
    server.release(one, "a")
    server.hold(one, "b", "b")
    await asyncio.sleep(0.05)
    assert list(server.instances.values()) == [one]
    assert server.retired == []


async def test_the_while_is_counted_from_the_last_one_s_leaving(learned: Path) -> None:
    server = StagedServer(learned, instance_idle=60)
    one = await server.ensure(LEGACY)
    handles: list[asyncio.TimerHandle] = []
    for _ in range(2):
        server.hold(one, "a", "a")
        server.release(one, "a")
        handles.append(server._idle_reaper._timers[one])
    assert [handle.cancelled() for handle in handles] == [True, False]
    server.hold(one, "a", "a")
    assert handles[1].cancelled()


@pytest.mark.parametrize("end", [lambda server: server.renew(1.0), lambda server: server.mark_stale(1.0)])
async def test_one_that_is_ended_anyway_is_not_looked_at_once_more(
    learned: Path, end: Callable[[Server], object]
) -> None:
    server = StagedServer(learned, instance_idle=60)
    one = await server.ensure(LEGACY)
    timer = server._idle_reaper._timers[one]
    end(server)
    assert timer.cancelled()
    assert server._idle_reaper._timers == {}


async def test_an_instance_that_nobody_came_to_use_is_ended_too(learned: Path) -> None:
    server = StagedServer(learned, instance_idle=0.01)
    one = await server.ensure(LEGACY)
    await until(lambda: server.retired, "it is ended")
    assert server.retired == [(one, server.spec.call_ceiling)]


async def test_an_unused_instance_with_something_in_flight_is_ended_only_afterwards(learned: Path) -> None:
    server = StagedServer(learned, instance_idle=0.01)
    one = await server.ensure(LEGACY)
    connection = server.connections[0]
    number = connection.request(b'"tools/call"', b"{}", Nobody())
    server.release(one, "a")
    await asyncio.sleep(0.05)
    assert list(server.instances.values()) == [one]
    connection.give(number, {})
    await until(lambda: server.retired, "it is ended")


async def test_a_server_that_is_no_longer_configured_takes_nobody(server: StagedServer) -> None:
    one = await server.ensure(LEGACY)
    server.mark_stale(5.0)
    assert server.retired == [(one, 5.0)]
    assert not one.open
    with pytest.raises(UpstreamError, match="no longer in the config"):
        await server.ensure(LEGACY)


async def test_all_instances_are_ended_together(learned: Path) -> None:
    server = StagedServer(learned, dual_script(), era="client")
    await asyncio.gather(server.ensure(LEGACY), server.ensure(MODERN))
    await server.retire()
    assert [connection.stopped for connection in server.connections] == [True, True]


# --- what is going on


async def test_the_status_tells_the_best_that_can_be_said_and_every_instance(learned: Path) -> None:
    server = StagedServer(learned, isolation="session")
    assert (server.state, server.error, server.instances.pids) == (STOPPED, None, [])
    assert server.describe()["tools"] is None
    good = await server.ensure(ClientContext("1", versions.LEGACY))
    server.update_catalog(good)
    server.hold(good, "a", "a")
    server.script = {"initialize": -32600, "server/discover": -32601}
    with pytest.raises(UpstreamError):
        await server.ensure(ClientContext("2", versions.LEGACY))
    assert server.state == READY
    assert "refused every way" in (server.error or "")
    shown = server.describe()
    assert (shown["era"], shown["isolation"], shown["tools"]) == (versions.LEGACY, "session", 1)
    listed = shown["instances"]
    assert isinstance(listed, list)
    assert [(item["place"], item["state"], item["sessions"]) for item in listed] == [("1", READY, 1), ("2", FAILED, 0)]


async def test_a_server_that_is_being_started_says_so(learned: Path) -> None:
    server = StagedServer(learned, {})
    starting = asyncio.create_task(server.ensure(LEGACY))
    await until(lambda: server.state == STARTING, "it is being started")
    await server.retire()
    with pytest.raises(UpstreamError):
        await starting


# --- figures


async def test_figures_outlive_the_instance_that_they_came_from(learned: Path) -> None:
    server = StagedServer(learned, isolation="auto")
    former = await server.ensure(LEGACY)
    former.stats.add(0.01, False)
    former.restarts = 2
    server.learn(isolation.QUESTION)
    # What it still had in flight.
    former.stats.add(0.01, True)
    own = await server.ensure(LEGACY)
    own.stats.add(0.01, False)
    told = server.describe()
    assert (told["calls"], told["errors"], told["restarts"]) == (3, 1, 2)
    assert [each["calls"] for each in told["instances"]] == [1]  # type: ignore[attr-defined]


async def test_a_renewed_server_gets_instances_without_a_past(server: StagedServer) -> None:
    former = await server.ensure(LEGACY)
    assert server.renew(7.0) == 1
    assert former.obsolete
    assert server.retired == [(former, 7.0)]
    assert await server.ensure(LEGACY) is not former
    assert server.renew(7.0) == 1
    assert server.renew(7.0) == 0
