"""Entries of clients to servers of Hearth's: what is merged, what it is called, what is said, what is left."""

import pytest

from hearth.clients.importer import planner
from hearth.config import ServerSpec
from unit.clients.imports import FOLDER, Shell, entry, found, plan, read

TIME = {"command": "uvx", "args": ["mcp-server-time"]}
# The same as imported: with the program's full path.
IMPORTED_TIME = {**TIME, "command": "/usr/bin/uvx"}
GITHUB = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"], "env": {"LOG": "info"}}


def names(made: planner.ImportPlan) -> list[str]:
    return [server.name for server in made.servers]


def links(made: planner.ImportPlan) -> dict[tuple[str, str], str]:
    return {(each.table.client, each.name): name for each, name in made.links()}


# --- merging


def test_a_server_that_several_clients_have_is_one() -> None:
    made = plan(found("time", TIME), found("time", TIME, "codex"), found("clock", TIME, "gemini"))
    assert names(made) == ["time"]
    assert links(made) == {("claude-code", "time"): "time", ("codex", "time"): "time", ("gemini", "clock"): "time"}
    assert made.servers[0].entry == IMPORTED_TIME


@pytest.mark.parametrize(
    "other",
    [
        {**GITHUB, "args": ["@modelcontextprotocol/server-github"]},
        {**GITHUB, "args": ["--yes", "@modelcontextprotocol/server-github"]},
        {**GITHUB, "command": "/usr/bin/npx"},
        {**GITHUB, "type": "stdio"},
        {**GITHUB, "timeout": 5000, "trust": True},
    ],
)
def test_what_does_not_change_the_server_keeps_nothing_apart(other: dict[str, object]) -> None:
    assert names(plan(found("github", GITHUB), found("github", other, "gemini"))) == ["github"]


def test_the_order_of_variables_does_not_count() -> None:
    one = {**TIME, "env": {"A": "1", "B": "2"}}
    other = {**TIME, "env": {"B": "2", "A": "1"}}
    assert names(plan(found("time", one), found("time", other, "cursor"))) == ["time"]


@pytest.mark.parametrize("url", ["https://Example.com/mcp/", "HTTPS://example.com/mcp"])
def test_an_address_is_the_same_with_a_slash_and_in_capitals(url: str) -> None:
    one = {"type": "http", "url": "https://example.com/mcp", "headers": {"X-A": "1"}}
    other = {"serverUrl": url, "headers": {"x-a": "1"}}
    assert names(plan(found("docs", one), found("docs", other, "windsurf"))) == ["docs"]


@pytest.mark.parametrize("url", ["https://example.com/MCP", "https://example.com/mcp?a=b", "https://other.com/mcp"])
def test_another_address_is_another_server(url: str) -> None:
    made = plan(found("docs", {"url": "https://example.com/mcp"}), found("docs", {"url": url}, "cursor"))
    assert names(made) == ["docs", "docs-cursor"]


def test_a_literal_token_and_a_variable_with_the_same_value_are_one_server() -> None:
    literal = {**TIME, "env": {"API_TOKEN": "abc123abc123"}}
    variable = {**TIME, "env": {"API_TOKEN": "${MY_TOKEN}"}}
    made = plan(found("x", literal), found("x", variable, "gemini"), MY_TOKEN="abc123abc123")
    assert names(made) == ["x"]
    assert list(made.secrets) == ["x-api-token"]


def test_one_of_a_project_that_depends_on_no_folder_is_the_same_as_the_users() -> None:
    made = plan(found("t", TIME, "cursor", FOLDER), found("time", TIME))
    assert links(made) == {("claude-code", "time"): "time", ("cursor", "t"): "time"}
    assert entry(made) == IMPORTED_TIME


def test_one_of_a_project_that_works_on_its_files_is_its_own() -> None:
    files = {"command": "npx", "args": ["@modelcontextprotocol/server-filesystem", "."]}
    made = plan(found("files", files), found("files", files, "claude-code", FOLDER))
    assert names(made) == ["files", "files-shop"]


# --- names


def test_the_same_name_for_something_else_gets_another() -> None:
    others = [{"command": "uvx", "args": [f"time-{number}"]} for number in range(3)]
    made = plan(found("time", TIME), *(found("time", other, "codex") for other in others))
    assert names(made) == ["time", "time-codex", "time-2", "time-3"]
    assert names(made) == names(plan(found("time", TIME), *(found("time", other, "codex") for other in others)))


def test_a_name_that_hearth_has_for_something_else_is_taken(shell: Shell) -> None:
    shell.servers = {"time": ServerSpec(name="time", command="other")}
    assert names(shell.plan(found("time", TIME))) == ["time-claude-code"]


@pytest.mark.parametrize(
    ("written", "mended"),
    [
        ("GitHub MCP", "GitHub-MCP"),
        ("@scope/name.js", "scope-name-js"),
        ("zeit 時", "zeit"),
        ("時", "server"),
        ("", "server"),
        ("x" * 200, "x" * 40),
        ("ok_-1", "ok_-1"),
        # A mended name keeps its letters.
        ("écho ✓", "echo"),
        ("Größe", "Gro-e"),
        ("ｆｕｌｌ", "full"),
        ("✓", "server"),
    ],
)
def test_a_name_that_tools_could_not_have_is_mended(written: str, mended: str) -> None:
    made = plan(found(written, TIME))
    assert names(made) == [mended]
    assert links(made) == {("claude-code", written): mended}


# --- what is there already


def test_a_second_import_adds_nothing() -> None:
    shell = Shell(TOKEN="ghp_" + "a" * 36)
    entries = (
        found("github", {**GITHUB, "env": {"GITHUB_TOKEN": "${TOKEN}", "SHOP": "${SHOP:-a}", "X": "${X}"}}),
        found("docs", {"url": "https://example.com/mcp/", "headers": {"Authorization": "Bearer abcdefgh12"}}, "cursor"),
        found("shell", {"command": "node", "args": ["-e", "`${x}`"]}, "codex"),
        found("files", {"command": "npx", "args": ["server-filesystem"]}, "claude-code", FOLDER),
    )
    first = shell.plan(*entries)
    assert len(first.servers) == 4
    shell.adopt(first)
    second = shell.plan(*entries)
    assert second.servers == [] == second.left
    assert second.secrets == {}
    assert links(second) == links(first)
    assert all(match.notes == [] for match in second.matched)


def test_what_was_imported_before_and_has_changed_since_is_not_imported_again(shell: Shell) -> None:
    shell.servers = {"time": ServerSpec(name="time", command="uvx", args=("mcp-server-time", "--new"))}
    shell.imported = {"time": "time"}
    made = shell.plan(found("time", TIME))
    assert made.servers == []
    assert links(made) == {("claude-code", "time"): "time"}
    assert "not the same any more" in made.matched[0].notes[0]


def test_what_was_imported_and_removed_from_hearth_is_imported_again(shell: Shell) -> None:
    shell.imported = {"time": "time"}
    assert names(shell.plan(found("time", TIME))) == ["time"]


def test_a_match_that_is_disabled_in_hearth_is_said(shell: Shell) -> None:
    shell.servers = {"clock": ServerSpec(name="clock", command="uvx", args=("mcp-server-time",), disabled=True)}
    made = shell.plan(found("time", TIME))
    assert links(made) == {("claude-code", "time"): "clock"}
    assert made.matched[0].notes == ["is disabled in Hearth's config"]


# --- what stays


def test_bridges_are_no_servers() -> None:
    bridge = {"command": "/usr/bin/python3", "args": ["-I", "-S", "/x/hearth/bridge/main.py", "--server", "time"]}
    made = plan(found("time", bridge), found("hearth", {"command": "hearth", "args": ["bridge"]}, "codex"))
    assert made.servers == [] == made.left
    assert [each.bridge_to for each in made.bridges] == ["time", ""]


def test_a_disabled_entry_is_taken_only_when_asked_for() -> None:
    disabled = found("time", {**TIME, "disabled": True}, "cline")
    made = plan(disabled)
    assert made.servers == []
    assert "--disabled" in made.left[0].reason
    assert names(Shell().plan(disabled, with_disabled=True)) == ["time"]


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"command": ""},
        {"command": 3},
        {"source": "extension", "settings": {"a": 1}},
        {"url": "ftp://example.com"},
        {"url": ""},
        {"command": "uvx", "args": [["a"]]},
        {"command": "uvx", "env": {"A": {"b": 1}}},
        {"command": "uvx", "env": {"A=B": "1"}},
        {"command": "uvx", "args": ["a\0b"]},
        {"url": "https://example.com", "headers": {"a b": "1"}},
    ],
)
def test_an_entry_that_makes_no_sense_is_left_with_a_reason_and_without_its_secrets(raw: dict[str, object]) -> None:
    made = plan(found("bad", raw), found("time", TIME))
    assert names(made) == ["time"]
    (left,) = made.left
    assert left.found.name == "bad"
    assert left.reason
    assert made.secrets == {}


def test_secrets_of_an_entry_that_is_left_are_not_stored() -> None:
    made = plan(found("bad", {"url": "ftp://x", "headers": {"Authorization": "Bearer abcdefgh"}}))
    assert made.servers == []
    assert made.secrets == {}


def test_keys_that_hearth_does_not_know_are_said() -> None:
    made = plan(found("time", {**TIME, "sandbox": {"x": 1}}, "vscode"))
    assert any("sandbox" in note for note in made.servers[0].notes)


@pytest.mark.parametrize("key", ["headersHelper", "authProviderType", "auth"])
def test_an_entry_that_needs_what_only_the_client_can_do_stays(key: str) -> None:
    made = plan(found("x", {"url": "https://example.com/mcp", key: "something"}))
    assert made.servers == []
    assert key in made.left[0].reason


# --- isolation


@pytest.mark.parametrize(
    ("raw", "mode", "reason"),
    [
        ({"command": "npx", "args": ["@playwright/mcp@latest"]}, "session", "browser"),
        ({"command": "npx", "args": ["@modelcontextprotocol/server-filesystem", "/x"]}, "workspace", "project"),
        ({"command": "uvx", "args": ["mcp-server-git"]}, "workspace", "repository"),
        ({"command": "uvx", "args": ["x", "./data"]}, "workspace", "folder"),
        ({"command": "uvx", "args": ["mcp-server-time"]}, "shared", "nothing"),
        ({"url": "https://example.com/mcp"}, "shared", "nothing"),
    ],
)
def test_who_shares_a_server_is_said_with_its_reason(raw: dict[str, object], mode: str, reason: str) -> None:
    (server,) = plan(found("x", raw)).servers
    assert server.mode == mode
    assert reason in server.reason
    assert "isolation" not in server.entry  # Hearth comes to it by itself, and may learn more


def test_a_projects_server_runs_in_its_folder_for_each_workspace() -> None:
    (server,) = plan(found("time", TIME, "claude-code", FOLDER)).servers
    assert server.entry == {**IMPORTED_TIME, "cwd": FOLDER, "isolation": "workspace"}
    assert "project" in server.reason


def test_a_browser_of_a_project_is_still_for_one_session() -> None:
    raw = {"command": "npx", "args": ["@playwright/mcp"]}
    assert entry(plan(found("b", raw, "cursor", FOLDER))) == {**raw, "command": "/usr/bin/npx", "cwd": FOLDER}


@pytest.mark.parametrize(
    ("cwd", "expected"), [(".", FOLDER), ("./sub", f"{FOLDER}/sub"), ("sub", f"{FOLDER}/sub"), ("/abs", "/abs")]
)
def test_a_projects_folder_is_where_relative_ones_begin(cwd: str, expected: str) -> None:
    assert entry(plan(found("t", {**TIME, "cwd": cwd}, "cursor", FOLDER)))["cwd"] == expected


def test_an_address_of_a_project_needs_no_folder() -> None:
    raw = {"url": "https://example.com/mcp"}
    assert entry(plan(found("docs", raw, "cursor", FOLDER), found("docs", raw))) == raw


def test_the_folder_in_a_variable_wants_a_process_for_each_workspace() -> None:
    raw = {"command": "uvx", "args": ["x"], "env": {"ROOT": "${workspaceFolder}/src"}}
    made = entry(plan(found("x", raw, "cursor")))
    assert made["isolation"] == "workspace"
    assert made["env"] == {"ROOT": "${workspaceFolder}/src"}


# --- what else an entry has


@pytest.mark.parametrize(
    ("client", "raw", "expected"),
    [
        ("codex", {"startup_timeout_sec": 120, "tool_timeout_sec": 7200}, {"start_timeout": 120, "call_timeout": 7200}),
        ("codex", {"startup_timeout_ms": 90_000}, {"start_timeout": 90}),
        ("codex", {"startup_timeout_sec": 5, "tool_timeout_sec": 30}, {}),
        ("gemini", {"timeout": 3_600_000}, {"call_timeout": 3600}),
        ("cline", {"timeout": 3600}, {"call_timeout": 3600}),
        ("opencode", {"timeout": 5000}, {}),
        ("gemini", {"timeout": "soon"}, {}),
    ],
)
def test_of_a_clients_patience_what_goes_beyond_hearths_is_taken(
    client: str, raw: dict[str, object], expected: dict[str, float]
) -> None:
    base = {"command": ["uvx", "x"]} if client == "opencode" else {"command": "uvx", "args": ["x"]}
    assert entry(plan(found("x", {**base, **raw}, client))) == {"command": "/usr/bin/uvx", "args": ["x"], **expected}


def test_the_most_patient_client_of_a_merged_server_counts() -> None:
    one, other = ({**TIME, "timeout": seconds} for seconds in (4000, 9000))
    assert entry(plan(found("t", one, "cline"), found("t", other, "cline")))["call_timeout"] == 9000


def test_the_old_transport_is_kept_and_a_disagreement_is_for_hearth_to_find_out() -> None:
    url = "https://example.com/sse"
    sse = found("a", {"type": "sse", "url": url})
    assert entry(plan(sse)) == {"url": url, "transport": "sse"}
    assert entry(plan(sse, found("a", {"url": url}, "cursor"))) == {"url": url}


def test_a_program_that_is_not_on_the_path_is_said() -> None:
    (server,) = plan(found("x", {"command": "gone", "args": ["a"]})).servers
    assert any("gone is not a program" in note for note in server.notes)
    for command in ("npx", "/usr/bin/npx", "./x"):
        (server,) = plan(found("x", {"command": command})).servers
        assert server.notes == []


# --- where its program is


def test_a_command_is_imported_with_the_full_path_that_the_client_finds(shell: Shell) -> None:
    shell.programs["weather"] = "/home/me/app/node_modules/.bin/weather"
    assert entry(shell.plan(found("w", {"command": "weather"}))) == {"command": shell.programs["weather"]}


def test_a_path_among_the_entrys_variables_is_the_one_that_is_searched(shell: Shell) -> None:
    shell.programs["/opt/tools/npx"] = "/opt/tools/npx"
    made = entry(shell.plan(found("x", {"command": "npx", "env": {"PATH": "/opt/tools"}})))
    assert made["command"] == "/opt/tools/npx"


def test_a_relative_command_is_found_in_its_folder_and_still_runs_once_per_folder(shell: Shell) -> None:
    shell.programs["serve"] = f"{FOLDER}/bin/serve"
    entries = (found("s", {"command": "./bin/serve"}, "cursor", FOLDER),)
    made = shell.plan(*entries)
    assert entry(made) == {"command": f"{FOLDER}/bin/serve", "cwd": FOLDER, "isolation": "workspace"}
    shell.adopt(made)
    assert shell.plan(*entries).servers == []


@pytest.mark.parametrize("command", ["gone", "./bin/gone", "/opt/gone", "${workspaceFolder}/serve"])
def test_a_command_that_is_not_found_is_imported_as_it_is_written(command: str) -> None:
    assert entry(plan(found("x", {"command": command}, "cursor")))["command"] == command


def test_numbers_and_flags_among_variables_are_texts() -> None:
    made = plan(found("x", {**TIME, "env": {"PORT": 8080, "ON": True, "NO": None}}, "vscode"))
    assert entry(made)["env"] == {"PORT": "8080", "ON": "true"}
    assert any("NO" in note for note in made.servers[0].notes)


def test_every_entry_becomes_something(shell: Shell) -> None:
    entries = [
        found("a", TIME),
        found("a", {**TIME, "disabled": True}, "cline"),
        found("b", {}, "codex"),
        found("c", {"command": "hearth", "args": ["bridge"]}, "gemini"),
        found("d", {"command": "uvx", "args": ["d"]}, "zed"),
    ]
    shell.servers = {"d": ServerSpec(name="d", command="uvx", args=("d",))}
    made = shell.plan(*entries)
    seen = [each for each, _ in made.links()] + [left.found for left in made.left] + made.bridges
    assert sorted(map(id, seen)) == sorted(map(id, entries))
    assert list(read(made)) == ["a"]
