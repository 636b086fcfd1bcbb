"""The bridges in clients' files: what one needs, which daemon it leads to, and how it is written anew."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from hearth.clients import connector
from hearth.clients.table import KINDS, Table
from hearth.paths import Places


def words(entry: Mapping[str, Any]) -> list[str]:
    """The command of an entry, as words. Pure."""
    arguments = entry.get("args")
    found = (entry.get("command"), *(arguments if isinstance(arguments, list) else ()))
    return [word for word in found if isinstance(word, str)]


def needed(command: Sequence[str]) -> list[str]:
    """The files without which a bridge does not start: its program and, where there is one, the bridge's file. Pure."""
    script = [word for word in command[1:] if os.path.isabs(word) and os.path.basename(word).startswith("main.py")]
    return [*command[:1], *script[:1]]


def target(command: Sequence[str]) -> list[str]:
    """Which daemon it leads to, as `Places.arguments` has it. Pure."""
    for option in ("--profile", "--config"):
        value = _value_of(command, option)
        if value is not None:
            return [] if (option, value) == ("--profile", "mcp") else [option, value]
    return []


def leads_to(command: Sequence[str], places: Places) -> bool:
    """Return whether a bridge leads to the daemon of these places. Pure."""
    socket = _value_of(command, "--socket")
    return target(command) == places.arguments() and socket in (None, places.socket, places.folder + ".sock")


def _value_of(command: Sequence[str], wanted: str) -> str | None:
    for number, word in enumerate(command):
        option, equals, value = word.partition("=")
        if option == wanted:
            return value if equals else "".join(command[number + 1 : number + 2])
    return None


def packed(table: Table, name: str, server: str) -> str:
    """An entry as one text, for a deed; `unpacked` is the inverse. Pure."""
    return json.dumps([*table, name, server])


def unpacked(text: str) -> tuple[Table, str, str]:
    """The entry again: table, name, server. Pure."""
    client, path, keys, scope, folder, name, server = json.loads(text)
    return Table(client, path, tuple(keys), scope, folder), name, server


def prospect(text: str) -> str:
    """What writing it anew would do."""
    table, name, _ = unpacked(text)
    return f"have {name} of {KINDS[table.client].title}, in {table.path}, start the bridge of this installation"


def repoint(text: str, places: Places) -> None:
    """Write it anew, with what this installation starts. Raises ConfigError, Refused, StartError."""
    table, name, server = unpacked(text)
    is_whole = not server and name == connector.WHOLE
    connector.connect(table, {} if is_whole else {name: server}, is_whole, places)
