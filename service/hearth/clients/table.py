"""Table of MCP clients: their names, the paths of their files, and the signs that one is installed. No I/O.

A place may have `*` in a part of its path, because VS Code, say, has any number of profiles. If none of a client's
files exists, the first one that may be created is the one to create.
"""

import ntpath
import posixpath
from collections.abc import Callable, Mapping
from typing import NamedTuple

USER = "user"
PROJECT = "project"
LOCAL = "local"
SCOPES = (USER, LOCAL, PROJECT)


class Table(NamedTuple):
    """Table of servers in one file, which can be imported and connected."""

    client: str
    path: str  # as the client names it; a write follows links
    keys: tuple[str, ...]
    scope: str
    folder: str | None  # the project's, for "project" and "local"


class Machine(NamedTuple):
    """Facts about the machine that the paths of files depend on."""

    platform: str  # as in sys.platform
    home: str
    environ: Mapping[str, str]

    def join(self, *parts: str) -> str:
        return ntpath.join(*parts) if self.platform == "win32" else posixpath.join(*parts)

    def at_home(self, *parts: str) -> str:
        return self.join(self.home, *parts)

    def named(self, variable: str) -> str | None:
        """Return the folder that a variable names; None for a relative path, which is not reliable."""
        folder = self.environ.get(variable, "")
        is_absolute = (ntpath if self.platform == "win32" else posixpath).isabs(folder)
        return folder if is_absolute else None

    def dot_config(self) -> str:
        """Return `~/.config`, for programs that use it on every platform."""
        return self.named("XDG_CONFIG_HOME") or self.at_home(".config")

    def app_config(self) -> str:
        """Return the folder in which desktop programs keep their settings."""
        if self.platform == "win32":
            return self.named("APPDATA") or self.at_home("AppData", "Roaming")
        return self.at_home("Library", "Application Support") if self.platform == "darwin" else self.dot_config()

    def local_data(self) -> str:
        """Return the folder for settings that do not roam, on Windows."""
        return self.named("LOCALAPPDATA") or self.at_home("AppData", "Local")


class ConfigPlace(NamedTuple):
    """File that may hold servers, and the keys that lead to them."""

    path: str
    keys: tuple[str, ...]
    # False for a file of another program or of an earlier version: used if it exists, never created.
    is_made: bool = True


class ClientKind(NamedTuple):
    """Client in the table, with its files and its format."""

    name: str
    title: str
    dialect: str
    places: Callable[[Machine], list[ConfigPlace]]
    # Files in a project's folder, as parts of the path.
    project: tuple[tuple[str, ...], ...]
    project_keys: tuple[str, ...]
    # Commands that show that the client is installed; the folder of any of its files shows it, too.
    commands: tuple[str, ...] = ()
    # Folders that show it, where the folders of its files may belong to another program.
    signs: Callable[[Machine], list[str]] | None = None
    # Whether the user's own file has a table for each project, under `projects`.
    has_local: bool = False


_SERVERS = ("mcpServers",)
# Settings folders of VS Code and of its derivatives.
_EDITORS = ("Code", "Code - Insiders", "VSCodium")
_CLINE = ("globalStorage", "saoudrizwan.claude-dev", "settings", "cline_mcp_settings.json")


def _claude_code(machine: Machine) -> list[ConfigPlace]:
    folder = machine.named("CLAUDE_CONFIG_DIR")
    # The file of earlier versions; if it exists, Claude Code reads it.
    former = machine.join(folder or machine.at_home(".claude"), ".config.json")
    return [
        ConfigPlace(machine.join(folder or machine.home, ".claude.json"), _SERVERS),
        ConfigPlace(former, _SERVERS, is_made=False),
    ]


def _claude_desktop(machine: Machine) -> list[ConfigPlace]:
    name = "claude_desktop_config.json"
    places = [ConfigPlace(machine.join(machine.app_config(), "Claude", name), _SERVERS)]
    if machine.platform == "win32":
        # The program from the Microsoft Store sees a folder of its own under the usual name.
        package = ("Packages", "Claude_*", "LocalCache", "Roaming", "Claude", name)
        places.append(ConfigPlace(machine.join(machine.local_data(), *package), _SERVERS))
    return places


def _codex(machine: Machine) -> list[ConfigPlace]:
    folder = machine.named("CODEX_HOME") or machine.at_home(".codex")
    return [ConfigPlace(machine.join(folder, "config.toml"), ("mcp_servers",))]


def _gemini(machine: Machine) -> list[ConfigPlace]:
    home = machine.named("GEMINI_CLI_HOME") or machine.home
    return [ConfigPlace(machine.join(home, ".gemini", "settings.json"), _SERVERS)]


def _cursor(machine: Machine) -> list[ConfigPlace]:
    return [ConfigPlace(machine.at_home(".cursor", "mcp.json"), _SERVERS)]


def _vscode(machine: Machine) -> list[ConfigPlace]:
    users = [machine.join(machine.app_config(), editor, "User") for editor in _EDITORS]
    return [
        ConfigPlace(machine.join(user, *parts), ("servers",), is_made=not parts[1:])
        for user in users
        for parts in (("mcp.json",), ("profiles", "*", "mcp.json"))
    ]


def _windsurf(machine: Machine) -> list[ConfigPlace]:
    return [
        ConfigPlace(machine.at_home(".codeium", "windsurf", "mcp_config.json"), _SERVERS),
        ConfigPlace(machine.at_home(".codeium", "windsurf-next", "mcp_config.json"), _SERVERS),
        # The Windsurf plugin for other editors.
        ConfigPlace(machine.at_home(".codeium", "mcp_config.json"), _SERVERS, is_made=False),
    ]


def _zed(machine: Machine) -> list[ConfigPlace]:
    if machine.platform == "win32":
        folder = machine.join(machine.app_config(), "Zed")
    else:
        base = machine.at_home(".config") if machine.platform == "darwin" else machine.dot_config()
        folder = machine.join(base, "zed")
    return [ConfigPlace(machine.join(folder, "settings.json"), ("context_servers",))]


def _opencode(machine: Machine) -> list[ConfigPlace]:
    folder = machine.join(machine.dot_config(), "opencode")
    names = ("opencode.json", "opencode.jsonc", "config.json")
    named = machine.named("OPENCODE_CONFIG")
    return [
        *(ConfigPlace(machine.join(folder, name), ("mcp",), is_made=name == names[0]) for name in names),
        *([ConfigPlace(named, ("mcp",), is_made=False)] if named else []),
    ]


def _cline(machine: Machine) -> list[ConfigPlace]:
    editors = (*_EDITORS, "Cursor", "Windsurf")
    folder = machine.named("CLINE_DIR") or machine.at_home(".cline")
    return [
        *(ConfigPlace(machine.join(machine.app_config(), editor, "User", *_CLINE), _SERVERS) for editor in editors),
        # Cline's program for the terminal.
        ConfigPlace(machine.join(folder, "data", "settings", _CLINE[-1]), _SERVERS),
    ]


def _jetbrains(machine: Machine) -> list[ConfigPlace]:
    base = machine.local_data() if machine.platform == "win32" else machine.dot_config()
    return [
        ConfigPlace(machine.at_home(".junie", "mcp", "mcp.json"), _SERVERS),
        # GitHub Copilot's plugin; AI Assistant keeps its servers in the IDE's own settings.
        ConfigPlace(machine.join(base, "github-copilot", "intellij", "mcp.json"), ("servers",), is_made=False),
    ]


KINDS = {
    kind.name: kind
    for kind in (
        ClientKind(
            "claude-code",
            "Claude Code",
            "claude-code",
            _claude_code,
            ((".mcp.json",),),
            _SERVERS,
            ("claude",),
            lambda machine: [machine.named("CLAUDE_CONFIG_DIR") or machine.at_home(".claude")],
            has_local=True,
        ),
        ClientKind("claude-desktop", "Claude Desktop", "plain", _claude_desktop, (), _SERVERS),
        ClientKind("codex", "Codex", "codex", _codex, ((".codex", "config.toml"),), ("mcp_servers",), ("codex",)),
        ClientKind("gemini", "Gemini CLI", "gemini", _gemini, ((".gemini", "settings.json"),), _SERVERS, ("gemini",)),
        ClientKind(
            "cursor", "Cursor", "cursor", _cursor, ((".cursor", "mcp.json"),), _SERVERS, ("cursor", "cursor-agent")
        ),
        ClientKind("vscode", "VS Code", "vscode", _vscode, ((".vscode", "mcp.json"),), ("servers",), ("code",)),
        ClientKind("windsurf", "Windsurf", "windsurf", _windsurf, (), _SERVERS, ("windsurf",)),
        ClientKind("zed", "Zed", "zed", _zed, ((".zed", "settings.json"),), ("context_servers",), ("zed", "zeditor")),
        ClientKind(
            "opencode",
            "opencode",
            "opencode",
            _opencode,
            (("opencode.json",), ("opencode.jsonc",), (".opencode", "opencode.json"), (".opencode", "opencode.jsonc")),
            ("mcp",),
            ("opencode",),
        ),
        ClientKind("cline", "Cline", "cline", _cline, (), _SERVERS, ("cline",)),
        ClientKind(
            "jetbrains",
            "JetBrains (Junie)",
            "plain",
            _jetbrains,
            ((".junie", "mcp", "mcp.json"),),
            _SERVERS,
            ("junie",),
            lambda machine: [machine.at_home(".junie")],
        ),
    )
}


def signs(kind: ClientKind, machine: Machine) -> list[str]:
    """Return the folders that show that a client is installed; one of them is enough."""
    if kind.signs is not None:
        return kind.signs(machine)
    split = ntpath.dirname if machine.platform == "win32" else posixpath.dirname
    folders = [split(place.path) for place in kind.places(machine) if place.is_made]
    return list(dict.fromkeys(folders))
