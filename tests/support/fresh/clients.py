"""The four clients: how each is told of its servers, and what each says of them in its own words."""

import json
import re
from typing import Any, NamedTuple, Protocol

from support.fresh.desk import Desk

SERVERS = ("memory", "notes", "time")
COMMANDS = {
    "memory": ["mcp-server-memory"],
    "notes": ["mcp-server-sqlite", "--db-path", "/home/ada/notes.db"],
    "time": ["mcp-server-time", "--local-timezone", "UTC"],
}
# None of them is known to keep anything for one client, asks for folders or has other tools for other clients: such
# servers have more than one process, or another list, on purpose. This is where the first one writes; else it would
# write into its package's folder, which is not the user's.
MEMORY_FILE = "/home/ada/memory.jsonl"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Listed(NamedTuple):
    """What a client says of one server."""

    connected: bool
    command: list[str]  # what it starts
    said: str  # the state, in its own words


class Client(Protocol):
    """One client."""

    name: str
    file: str  # its configuration, below the home

    def configure(self, desk: Desk) -> None:
        """Tell it of the three servers."""

    def listing(self, desk: Desk) -> dict[str, Listed]:
        """Have it connect to all of them."""


class ClaudeCode:
    """Told by its own command, which writes the file."""

    name = "claude-code"
    file = ".claude.json"

    def configure(self, desk: Desk) -> None:
        for server in SERVERS:
            settings = ["-e", f"MEMORY_FILE_PATH={MEMORY_FILE}"] if server == "memory" else []
            desk.run("claude", "mcp", "add", "--scope", "user", server, *settings, "--", *COMMANDS[server])

    def listing(self, desk: Desk) -> dict[str, Listed]:
        found = re.findall(r"^(\w+): (.+?) +- (.+)$", desk.run("claude", "mcp", "list"), re.MULTILINE)
        return {server: Listed(state == "✔ Connected", command.split(), state) for server, command, state in found}


class Codex:
    """A file by hand, behind a link as people have it who keep their dotfiles in one place."""

    name = "codex"
    file = "dotfiles/codex.toml"
    link = ".codex/config.toml"
    text = f"""\
# Codex, as Ada likes it
model = "gpt-5"   # the usual one

[mcp_servers.memory]
command = "mcp-server-memory"
env = {{ "MEMORY_FILE_PATH" = "{MEMORY_FILE}" }}	# one for all

  [mcp_servers.notes]   # indented
  command = 'mcp-server-sqlite'
  args = ["--db-path", "/home/ada/notes.db"]

[mcp_servers.time]
command = "mcp-server-time"
args = [
    "--local-timezone", # else it looks at the machine
    "UTC",
]
startup_timeout_sec = 40

[tui]
notifications = false
"""

    def configure(self, desk: Desk) -> None:
        desk.write(self.file, self.text)
        desk.run("mkdir", "-p", ".codex")
        desk.run("ln", "-s", f"../{self.file}", self.link)

    def listing(self, desk: Desk) -> dict[str, Listed]:
        statuses = self.statuses(desk)
        entries = json.loads(desk.run("codex", "mcp", "list", "--json"))
        commands = {entry["name"]: [entry["transport"]["command"], *entry["transport"]["args"]] for entry in entries}
        return {
            name: Listed(
                status["serverInfo"] is not None and not status["toolsError"], commands[name], str(status["toolsError"])
            )
            for name, status in statuses.items()
        }

    def statuses(self, desk: Desk) -> dict[str, dict[str, Any]]:
        """Its app-server's list of servers, with all their tools, by the servers' names."""
        with desk.start("codex", "app-server") as server:
            server.request("initialize", {"clientInfo": {"name": "e2e", "title": "e2e", "version": "1"}})
            server.notify("initialized")
            found = server.request("mcpServerStatus/list", {})["data"]
        return {status["name"]: status for status in found}

    def tools(self, desk: Desk) -> dict[str, dict[str, Any]]:
        """The tools of each server, as Codex has them."""
        return {name: status["tools"] for name, status in self.statuses(desk).items()}


class Gemini:
    """A file by hand, with comments, and the line ends of Windows."""

    name = "gemini"
    file = ".gemini/settings.json"
    text = f"""\
{{
  // Gemini CLI allows comments
  "mcpServers": {{
    "memory": {{"command": "mcp-server-memory", "env": {{"MEMORY_FILE_PATH": "{MEMORY_FILE}"}}}},
      "notes": {{
          "command": "mcp-server-sqlite", /* indented at will */
          "args": ["--db-path", "/home/ada/notes.db"]
      }},
    "time": {{ "command": "mcp-server-time", "args": ["--local-timezone", "UTC"], "timeout": 60000 }}
  }},
  "ui": {{"theme": "Default"}}
}}
""".replace("\n", "\r\n")

    def configure(self, desk: Desk) -> None:
        desk.write(self.file, self.text)

    def listing(self, desk: Desk) -> dict[str, Listed]:
        said = _COLOUR.sub("", desk.run("gemini", "mcp", "list", GEMINI_CLI_TRUST_WORKSPACE="true"))
        found = re.findall(r"^(.) (\w+): (.+) \(stdio\) - (\w+)$", said, re.MULTILINE)
        return {
            server: Listed((mark, state) == ("✓", "Connected"), command.split(), state)
            for mark, server, command, state in found
        }


class Opencode:
    """A file by hand, with comments and trailing commas."""

    name = "opencode"
    file = ".config/opencode/opencode.jsonc"
    text = f"""\
{{
	// opencode calls things by other names
	"mcp": {{
		"memory": {{
			"type": "local", "command": ["mcp-server-memory"],
			"environment": {{"MEMORY_FILE_PATH": "{MEMORY_FILE}"}},
		}},
		"notes": {{
			"enabled": true,
			"type": "local", "command": ["mcp-server-sqlite", "--db-path", "/home/ada/notes.db"]}},
		"time": {{"type": "local", "command": ["mcp-server-time", "--local-timezone", "UTC"], "timeout": 60000,}},
	}},
}}
"""

    def configure(self, desk: Desk) -> None:
        desk.write(self.file, self.text)

    def listing(self, desk: Desk) -> dict[str, Listed]:
        said = _COLOUR.sub("", desk.run("opencode", "mcp", "list"))
        found = re.findall(r"^● +(.) (\w+) (\w+)\s*\n│ +(.+)$", said, re.MULTILINE)
        return {
            server: Listed((mark, state) == ("✓", "connected"), command.split(), state)
            for mark, server, state, command in found
        }


CODEX = Codex()
CLIENTS: tuple[Client, ...] = (ClaudeCode(), CODEX, Gemini(), Opencode())
