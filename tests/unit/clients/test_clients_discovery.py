"""Which clients are on a machine, and what their files say."""

import json
from pathlib import Path

import pytest

from hearth.clients import discovery
from hearth.clients.table import KINDS, Machine, Table
from hearth.errors import ConfigError

ENTRY = {"command": "npx", "args": ["x"]}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "home").mkdir()
    return Machine("linux", str(tmp_path / "home"), {"PATH": str(tmp_path / "bin")})


def write(machine: Machine, path: str, content: object = None) -> str:
    file = Path(machine.home, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content or {"mcpServers": {"a": ENTRY}}))
    return str(file)


def tables(machine: Machine, folder: str = "/", *clients: str) -> list[Table]:
    return discovery.tables(folder, clients or tuple(KINDS), machine)


def test_on_a_machine_without_clients_there_is_none(machine: Machine) -> None:
    assert tables(machine) == []


@pytest.mark.parametrize(
    ("client", "path"),
    [
        ("claude-code", ".claude.json"),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json"),
        ("codex", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".config/Code/User/mcp.json"),
        ("vscode", ".config/VSCodium/User/mcp.json"),
        ("vscode", ".config/Code/User/profiles/-5f3a/mcp.json"),
        ("windsurf", ".codeium/windsurf/mcp_config.json"),
        ("zed", ".config/zed/settings.json"),
        ("opencode", ".config/opencode/opencode.jsonc"),
        ("cline", ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
        ("cline", ".cline/data/settings/cline_mcp_settings.json"),
        ("jetbrains", ".junie/mcp/mcp.json"),
        ("jetbrains", ".config/github-copilot/intellij/mcp.json"),
    ],
)
def test_a_client_is_found_by_its_file(machine: Machine, client: str, path: str) -> None:
    file = write(machine, path, "")
    found = tables(machine, "/", client)
    assert file in [table.path for table in found]
    assert {table.scope for table in found} == {"user"}


@pytest.mark.parametrize("client", [name for name, kind in KINDS.items() if kind.commands])
def test_a_client_without_a_file_is_found_by_its_command(machine: Machine, client: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / KINDS[client].commands[0]
    command.touch(0o755)
    (table,) = tables(machine)
    assert table == (client, KINDS[client].places(machine)[0].path, KINDS[client].places(machine)[0].keys, "user", None)
    assert discovery.read(table) == []


@pytest.mark.parametrize(
    ("client", "folder", "path"),
    [
        ("claude-code", ".claude", ".claude.json"),
        ("cursor", ".cursor", ".cursor/mcp.json"),
        ("vscode", ".config/VSCodium/User", ".config/VSCodium/User/mcp.json"),
        ("jetbrains", ".junie", ".junie/mcp/mcp.json"),
        ("opencode", ".config/opencode", ".config/opencode/opencode.json"),
    ],
)
def test_a_client_without_a_file_is_found_by_its_folder(machine: Machine, client: str, folder: str, path: str) -> None:
    Path(machine.home, folder).mkdir(parents=True)
    (table,) = tables(machine)
    assert (table.client, table.path) == (client, str(Path(machine.home, path)))


def test_variables_move_files(machine: Machine, tmp_path: Path) -> None:
    environ = {name: str(tmp_path / name) for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME")}
    moved = machine._replace(environ=environ)
    for path in ("CODEX_HOME/config.toml", "CLAUDE_CONFIG_DIR/.claude.json", "XDG_CONFIG_HOME/zed/settings.json"):
        write(machine, str(tmp_path / path), "")
    assert [table.path.removeprefix(str(tmp_path)) for table in tables(moved)] == [
        "/CLAUDE_CONFIG_DIR/.claude.json",
        "/CODEX_HOME/config.toml",
        "/XDG_CONFIG_HOME/zed/settings.json",
    ]


def test_places_on_windows_and_macos() -> None:
    windows = Machine("win32", "C:\\Users\\a", {"APPDATA": "D:\\Roaming"})
    assert KINDS["vscode"].places(windows)[0].path == "D:\\Roaming\\Code\\User\\mcp.json"
    assert KINDS["zed"].places(windows)[0].path == "D:\\Roaming\\Zed\\settings.json"
    assert KINDS["codex"].places(windows)[0].path == "C:\\Users\\a\\.codex\\config.toml"
    mac = Machine("darwin", "/Users/a", {})
    assert KINDS["claude-desktop"].places(mac)[0].path == (
        "/Users/a/Library/Application Support/Claude/claude_desktop_config.json"
    )
    assert KINDS["zed"].places(mac)[0].path == "/Users/a/.config/zed/settings.json"


def test_claude_code_has_three_scopes(machine: Machine, tmp_path: Path) -> None:
    project = tmp_path / "p"
    (project / "src").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".mcp.json").write_text('{"mcpServers": {"c": {"command": "c"}}}')
    projects = {"/q": {"mcpServers": {"b": ENTRY}}, "/empty": {"mcpServers": {}}, "/odd": 5}
    path = write(machine, ".claude.json", {"mcpServers": {"a": ENTRY}, "projects": projects})
    found = tables(machine, str(project / "src"))
    assert found == [
        ("claude-code", path, ("mcpServers",), "user", None),
        ("claude-code", path, ("projects", "/q", "mcpServers"), "local", "/q"),
        ("claude-code", str(project / ".mcp.json"), ("mcpServers",), "project", str(project)),
    ]
    assert [entry.name for table in found for entry in discovery.read(table)] == ["a", "b", "c"]


def test_a_project_ends_at_its_repository_and_at_home(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text("{}")
    (tmp_path / "p" / ".git").mkdir(parents=True)
    write(machine, ".mcp.json", "{}")
    Path(machine.home, "work").mkdir()
    assert tables(machine, str(tmp_path / "p")) == []
    assert tables(machine, str(Path(machine.home, "work"))) == []


def test_an_entry_is_found_with_all_that_is_known_of_it(machine: Machine) -> None:
    raw = {"httpUrl": "https://a", "timeout": 5}
    bridge = {"command": "hearth", "args": ["bridge", "--server", "x"]}
    tree = {"mcp": {"excluded": ["a"]}, "mcpServers": {"a": raw, "b": bridge, "c": 5}}
    write(machine, ".gemini/settings.json", tree)
    (table,) = tables(machine)
    assert discovery.read(table) == [
        (table, "a", raw, {"url": "https://a", "transport": "http"}, True, None, []),
        (table, "b", bridge, bridge, False, "x", []),
        (table, "c", {}, {}, False, None, ["is not a table of settings"]),
    ]


def test_toml_is_read_too(machine: Machine) -> None:
    write(machine, ".codex/config.toml", '[mcp_servers.a]\ncommand = "a"\nenabled = false\n')
    (found,) = discovery.read(tables(machine)[0])
    assert (found.name, found.entry, found.disabled) == ("a", {"command": "a"}, True)


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        ("{", ":1: is not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"mcpServers": []}', ":1: mcpServers must be an object with servers in it"),
        ('{"mcpServers": 5}', ":1: mcpServers must be an object with servers in it"),
    ],
)
def test_a_broken_file_is_named(machine: Machine, content: str, phrase: str) -> None:
    path = write(machine, ".cursor/mcp.json", content)
    with pytest.raises(ConfigError) as error:
        discovery.read(tables(machine)[0])
    assert path in str(error.value)
    assert phrase in str(error.value)


def test_a_broken_file_has_its_table(machine: Machine) -> None:
    write(machine, ".claude.json", "{")
    assert [table.client for table in tables(machine)] == ["claude-code"]
