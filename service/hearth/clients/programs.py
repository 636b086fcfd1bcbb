"""Which MCP client a running process is, by its command line. Pure.

A client runs as its own program (`codex`), as a script (`node /usr/bin/claude`) or as a package
(`node …/node_modules/@google/gemini-cli/dist/index.js`).
"""

from collections.abc import Sequence

from hearth.clients.table import KINDS
from hearth.mcp.packages import base, packages

# Names that a client's processes have besides its commands: packages, and programs of the desktop.
_NAMES: dict[str, tuple[str, ...]] = {
    "claude-code": ("@anthropic-ai/claude-code", "claude-code"),
    "claude-desktop": ("claude-desktop",),
    "codex": ("@openai/codex",),
    "gemini": ("@google/gemini-cli", "gemini-cli"),
    "vscode": ("code-insiders", "codium", "vscodium", "code helper (plugin)", "code-oss"),
    "cursor": ("cursor helper (plugin)",),
    "windsurf": ("windsurf-next", "windsurf helper (plugin)"),
    "zed": ("zed-editor",),
    "opencode": ("opencode-ai",),
    "jetbrains": ("idea", "pycharm", "webstorm", "goland", "clion", "rubymine", "phpstorm", "rider", "rustrover"),
}
_CLIENTS = {name: kind.name for kind in KINDS.values() for name in (*kind.commands, *_NAMES.get(kind.name, ()))}
# On macOS the program of the desktop has the name of Claude Code's command, but for its capital.
_DESKTOP_PROGRAM = "Claude"


def client_of(argv: Sequence[str]) -> str | None:
    """Return the name of the client that this command line runs; None for any other program."""
    if argv[0].endswith(f".app/Contents/MacOS/{_DESKTOP_PROGRAM}"):
        return "claude-desktop"
    return next((_CLIENTS[name] for name in (base(argv[0]), *packages(argv[0], argv[1:])) if name in _CLIENTS), None)
