"""A client's file that is connected and disconnected, and what Hearth keeps of it."""

import json
import os
from pathlib import Path
from typing import Any

from hearth.clients import bridge_entries
from hearth.clients.table import Table
from hearth.config.document import parse
from hearth.paths import Places

GIT = {"command": "uvx", "args": ["mcp-server-git"], "env": {"TOKEN": "s3cret"}, "timeout": 5}
TIME = {"url": "https://time.example/mcp", "headers": {"Authorization": "Bearer x"}}
TREE = {"theme": "dark", "mcpServers": {"git": GIT, "time": TIME}}
ORIGINAL = json.dumps(TREE, indent=2)


def table(file: Path, client: str = "cursor", *keys: str) -> Table:
    return Table(client, str(file), keys or ("mcpServers",), "user", None)


def connect(file: Path, whole: bool = False, client: str = "cursor", **replace: str) -> bridge_entries.TableOutcome:
    return bridge_entries.connect(table(file, client), replace, whole, Places())


def disconnect(file: Path) -> bridge_entries.TableOutcome:
    return bridge_entries.disconnect(table(file))


def tree(file: Path) -> dict[str, Any]:
    return parse(str(file), file.read_bytes()).tree


def kept(state: Path) -> list[str]:
    folder = state / "state" / "hearth" / "clients"
    return os.listdir(folder) if folder.exists() else []


def copies(state: Path) -> list[str]:
    return [path.read_text() for path in (state / "state" / "hearth" / "clients").iterdir() if path.suffix != ".json"]


def path_in(note: str) -> str:
    return next(word for word in note.replace(": ", " ").split() if word.endswith((".kept", ".original")))


def only_copy(state: Path, note: str = "") -> str:
    """What is kept, once nothing is connected; a note, if given, has its place."""
    (copy,) = (state / "state" / "hearth" / "clients").iterdir()
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not note or path_in(note) == str(copy)
    return copy.read_text()
