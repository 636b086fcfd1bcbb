"""MCP servers among running processes: what counts as one, how often, and for which client."""

from collections.abc import Sequence

import pytest

from hearth.clients import running
from hearth.clients.running import ORPHAN, ConfiguredCommand, RunningServer, Survey, fits, shows_a_server, survey
from hearth.host.process_table import ProcessInfo, Weight


def look(
    *rows: tuple[int, int, str], entries: tuple[ConfiguredCommand, ...] = (), on_pipes: bool | None = True
) -> Survey:
    processes = [ProcessInfo(pid, parent, tuple(words.split())) for pid, parent, words in rows]
    return survey(processes, entries, lambda process: on_pipes)


@pytest.mark.parametrize(
    "words",
    [
        "npx -y @modelcontextprotocol/server-everything",
        "npm exec @modelcontextprotocol/server-everything",
        "node /home/a/.npm/_npx/1f/node_modules/.bin/mcp-server-everything",
        "node /srv/github-mcp/dist/index.js",
        "uv tool uvx mcp-server-time --local-timezone UTC",
        "/opt/venv/bin/python /opt/venv/bin/mcp-server-time",
        "python3 -m mcp_server_git",
        "python3 -u -m tools.mcp.server",
        "python3 /opt/mcp/github/server.py",
        "docker run -i --rm mcp/github",
        "sh -c 'mcp-server-time'",
        "xcodebuildmcp",
        "claude mcp serve",
        "docker mcp gateway run",
    ],
)
def test_a_command_line_with_the_name_of_a_server_shows_one(words: str) -> None:
    assert shows_a_server(words.split())


@pytest.mark.parametrize(
    "words",
    [
        "grep mcp-server-time notes.txt",
        "vim mcp.json",
        "claude",
        "claude mcp list",
        "codex exec hello",
        "npm install @modelcontextprotocol/server-everything",
        "npx @modelcontextprotocol/inspector",
        "python3 -m pytest tests/mcp",
        "python3 mcp_client.py",
        "docker ps",
        "node /usr/lib/node_modules/typescript/lib/tsserver.js",
    ],
)
def test_other_programs_are_no_servers(words: str) -> None:
    assert not shows_a_server(words.split())


def test_a_runner_and_what_it_starts_count_once() -> None:
    (found,) = look(
        (10, 1, "claude"),
        (11, 10, "npm exec @modelcontextprotocol/server-everything"),
        (12, 11, "sh -c 'mcp-server-everything'"),
        (13, 12, "node /x/node_modules/.bin/mcp-server-everything"),
        (14, 13, "helper"),
    ).instances
    assert (found.client, found.agent, found.pids) == ("Claude Code", 10, (11, 12, 13, 14))
    assert found.name == "@modelcontextprotocol/server-everything"


@pytest.mark.parametrize("runner", ["node /usr/bin/npx", "node /usr/lib/npm/bin/npx-cli.js", "sh /bin/npx"])
def test_a_runner_that_is_a_script_counts_with_what_it_starts(runner: str) -> None:
    rows = (10, 1, "claude"), (11, 10, f"{runner} -y a-mcp"), (12, 11, "node /x/node_modules/.bin/a-mcp")
    assert [(each.name, each.pids) for each in look(*rows).instances] == [("a-mcp", (11, 12))]


def test_each_client_has_its_own_instance() -> None:
    found = look(
        (10, 1, "claude"), (11, 10, "mcp-server-time"),
        (20, 1, "node /usr/bin/codex"), (21, 20, "/usr/lib/codex-rs/codex"), (22, 21, "mcp-server-time"),
        (30, 1, "node /x/node_modules/@google/gemini-cli/dist/index.js"), (31, 30, "mcp-server-time"),
    ).instances  # fmt: skip
    assert [(each.client, each.agent) for each in found] == [("Claude Code", 10), ("Codex", 20), ("Gemini CLI", 30)]


def test_a_program_that_is_no_known_client_is_named() -> None:
    (found,) = look((5, 1, "-bash"), (10, 5, "python3 /srv/planner.py"), (11, 10, "mcp-server-time")).instances
    assert (found.client, found.agent) == ("planner", 10)


def test_a_known_client_beyond_an_interactive_shell_is_not_the_client() -> None:
    rows = (1, 0, "/usr/share/code/code"), (5, 1, "/bin/bash -i"), (10, 5, "planner"), (11, 10, "mcp-server-time")
    assert look(*rows).instances[0].client == "planner"


@pytest.mark.parametrize("rows", [[], [(1, 0, "/lib/systemd/systemd --user")]])
def test_a_server_without_a_client_is_an_orphan(rows: list[tuple[int, int, str]]) -> None:
    (found,) = look(*rows, (11, 1, "mcp-server-time")).instances
    assert (found.client, found.agent) == (ORPHAN, 0)


def test_an_agent_that_is_a_server_keeps_its_own_servers_apart() -> None:
    rows = (10, 1, "claude"), (11, 10, "codex mcp-server"), (12, 11, "mcp-server-time")
    assert [(each.client, each.pids) for each in look(*rows).instances] == [("Claude Code", (11,)), ("Codex", (12,))]


def test_a_server_that_only_a_clients_file_names_is_found() -> None:
    entry = ConfiguredCommand("notes", "python3", ("/srv/notes.py", "${HOME}/notes"))
    rows = (10, 1, "claude"), (11, 10, "/usr/bin/python3 /srv/notes.py /me/notes"), (12, 10, "python3 /srv/other.py")
    (found,) = look(*rows, entries=(entry,)).instances
    assert (found.name, found.pids, found.entry) == ("notes", (11,), entry)


@pytest.mark.parametrize(
    ("command", "argv", "expected"),
    [
        ("/usr/bin/notes", "/bin/sh /usr/bin/notes --all", True),
        ("notes", "notes --all", True),
        ("notes", "notes", False),
        ("notes", "notes --some", False),
    ],
)
def test_an_entry_fits_a_command_line_with_the_same_words(command: str, argv: str, expected: bool) -> None:
    assert fits(ConfiguredCommand("notes", command, ("--all",)), argv.split()) is expected


def test_an_entry_of_a_runner_fits_its_package() -> None:
    entry = ConfiguredCommand("tools", "npx", ("-y", "tools@1.2"))
    assert fits(entry, ["npm", "exec", "tools@1.2"])
    assert not fits(entry, ["npm", "exec", "other"])


def test_a_program_that_reads_a_terminal_is_no_server() -> None:
    assert look((10, 1, "claude"), (11, 10, "mcp-server-time"), on_pipes=False).instances == []


def test_where_standard_input_tells_nothing_a_server_has_a_client() -> None:
    assert len(look((10, 1, "claude"), (11, 10, "mcp-server-time"), on_pipes=None).instances) == 1
    assert look((1, 0, "systemd"), (11, 1, "mcp-server-time"), on_pipes=None).instances == []


def test_processes_of_hearth_are_not_waste() -> None:
    found = look(
        (10, 1, "claude"), (11, 10, "/v/bin/python -I -S /v/hearth/bridge/main.py --server time"),
        (20, 1, "/v/bin/python -I -m hearth.daemon --detach"), (21, 20, "/v/bin/python -I -m hearth.daemon --detach"),
        (22, 21, "mcp-server-time"), (23, 22, "helper"),
    )  # fmt: skip
    assert found == Survey([], [20], [11], [22, 23], [11, 20, 21])


def test_parents_in_a_circle_do_not_hold_it_up() -> None:
    assert len(look((5, 6, "mcp-server-a"), (6, 5, "mcp-server-b")).instances) <= 2


# --- memory now, and the estimate of it through Hearth

MB = 1_000_000


def instance(pid: int, words: str, entry: ConfiguredCommand | None = None) -> RunningServer:
    return RunningServer(words.split()[-1], "Codex", pid - 1, (pid,), tuple(words.split()), entry)


def of(
    instances: Sequence[RunningServer], folders: dict[int, str] | None = None, tokens: dict[int, str] | None = None
) -> list[running.ServerWeight]:
    return running.servers_of(
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
    found = running.estimate(servers, daemon_runs=False)
    assert found.now_bytes == 150 * MB
    assert found.servers_bytes == 150 * MB - 4 * 20 * MB
    assert found.with_hearth_bytes == found.servers_bytes + running.DAEMON_BYTES + 5 * running.BRIDGE_BYTES
    assert running.estimate(servers, daemon_runs=True).daemon_bytes == 0


def test_nothing_that_runs_costs_nothing() -> None:
    assert running.estimate([], daemon_runs=False).with_hearth_bytes == 0
