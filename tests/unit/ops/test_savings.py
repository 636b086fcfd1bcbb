"""Memory of servers now, and the estimate of it through Hearth."""

from collections.abc import Sequence

from hearth.clients.running import ConfiguredCommand, RunningServer
from hearth.host.process_table import Weight
from hearth.ops import savings

MB = 1_000_000


def instance(pid: int, words: str, entry: ConfiguredCommand | None = None) -> RunningServer:
    return RunningServer(words.split()[-1], "Codex", pid - 1, (pid,), tuple(words.split()), entry)


def of(
    instances: Sequence[RunningServer], folders: dict[int, str] | None = None, tokens: dict[int, str] | None = None
) -> list[savings.ServerWeight]:
    return savings.servers_of(
        instances,
        lambda pid: {"TOKEN": (tokens or {}).get(pid, "")},
        (folders or {}).get,
        lambda pids: Weight(30 * MB * len(pids), 20 * MB * len(pids)),
    )


def test_one_process_serves_all_clients_of_a_server() -> None:
    (server,) = of([instance(pid, "mcp-server-time") for pid in (1, 2, 3)])
    assert (len(server.instances), server.needed, server.isolation) == (3, 1, "shared")


def test_a_server_that_works_in_a_folder_runs_once_for_each() -> None:
    (server,) = of([instance(pid, "mcp-server-git") for pid in (1, 2, 3)], {1: "/a", 2: "/b", 3: "/a"})
    assert (server.needed, server.isolation) == (2, "workspace")


def test_a_server_that_keeps_state_for_one_client_is_not_shared() -> None:
    (server,) = of([instance(pid, "npx @playwright/mcp") for pid in (1, 2, 3)])
    assert (server.needed, server.saved_bytes) == (3, 0)


def test_other_arguments_or_another_token_make_another_server() -> None:
    entry = ConfiguredCommand("github", "github-mcp", (), ("TOKEN",))
    same = [instance(pid, "github-mcp", entry) for pid in (1, 2, 3)]
    assert sorted(len(server.instances) for server in of(same, tokens={1: "x", 2: "y", 3: "x"})) == [1, 2]
    assert len(of([instance(1, "a-mcp --one"), instance(2, "a-mcp --two")])) == 2
    assert len(of([instance(1, "npx -y a-mcp"), instance(2, "npx a-mcp")])) == 1


def test_only_private_memory_of_what_would_not_run_is_saved() -> None:
    servers = of([instance(pid, "mcp-server-time") for pid in (1, 2, 3, 4, 5)])
    found = savings.estimate(servers, daemon_runs=False)
    assert found.now_bytes == 150 * MB
    assert found.servers_bytes == 150 * MB - 4 * 20 * MB
    assert found.with_hearth_bytes == found.servers_bytes + savings.DAEMON_BYTES + 5 * savings.BRIDGE_BYTES
    assert savings.estimate(servers, daemon_runs=True).daemon_bytes == 0


def test_nothing_that_runs_costs_nothing() -> None:
    assert savings.estimate([], daemon_runs=False).with_hearth_bytes == 0
