"""Doctor's checks of MCP clients' files: whether their bridges still exist and lead to a configured server.

Reads only, because the files belong to the clients. Entries that are not Hearth's are compared, and never shown,
because they have secrets.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hearth import config
from hearth.clients import backups, bridge_entries, discovery, launcher
from hearth.clients.discovery import ClientServer
from hearth.clients.table import KINDS, Table
from hearth.doctor.context import CheckContext
from hearth.errors import ConfigError
from hearth.findings import Finding, FixRequest
from hearth.ops import connect_clients
from hearth.paths import Places


class ClientEntry(NamedTuple):
    """One entry of a client. `gone`: a missing file that its bridge needs; `shared`: Hearth's server that it equals."""

    client: str
    path: str
    name: str
    scope: str
    bridge_to: str | None
    # Whether the entry leads to the daemon that is checked.
    for_this: bool
    gone: str = ""
    shared: str = ""
    # Data with which `--fix` rewrites the entry; empty if `hearth connect` did not write it.
    ours: str = ""


class ClientFacts(NamedTuple):
    """Facts about clients: enabled entries, files that cannot be read, and outdated records of connections."""

    entries: Sequence[ClientEntry]
    unreadable: Sequence[tuple[str, str]]
    servers: Sequence[str]
    # Client and its outdated record, in words.
    leftovers: Sequence[tuple[str, str]]
    damage: str = ""


def look(context: CheckContext) -> ClientFacts:
    """Return the entries of every client on this machine, and of the project around the current folder."""
    specs = context.examined().config.servers
    entries: list[ClientEntry] = []
    unreadable: list[tuple[str, str]] = []
    for table in discovery.tables(discovery.here()):
        try:
            found = [each for each in discovery.read(table) if not each.disabled]
        except ConfigError as error:
            unreadable.append((table.client, str(error)))
            continue
        entries += [_look_at(each, specs, context.places) for each in found]
    known = backups.every()
    leftovers = [left for trace in known.traces for left in _left_over(trace)]
    # A file with several tables is reported once.
    return ClientFacts(
        entries, list(dict.fromkeys(unreadable)), list(specs), leftovers, damage="; ".join(known.problems)
    )


def _look_at(found: ClientServer, specs: Mapping[str, config.ServerSpec], places: Places) -> ClientEntry:
    table = found.table
    entry = ClientEntry(table.client, table.path, found.name, table.scope, found.bridge_to, False)
    if found.bridge_to is None:
        return entry._replace(shared=connect_clients.server_for(found, specs, backups.imported) or "")
    words = command_words(found.entry)
    return entry._replace(
        for_this=leads_to(words, places),
        gone=next((path for path in needed_files(words) if not _is_there(path)), "") or _missing(words),
        ours=pack_entry(table, found.name, found.bridge_to) if _is_ours(found) else "",
    )


def _is_there(path: str) -> bool:
    return os.path.exists(path) if os.path.isabs(path) else shutil.which(path) is not None


def _missing(words: Sequence[str]) -> str:
    """Return the missing file that the launcher among the words needs; empty without a launcher."""
    return launcher.missing(words[0]) if os.path.basename(words[0]) == launcher.NAME else ""


def _is_ours(found: ClientServer) -> bool:
    try:
        trace = backups.load(found.table.path)
    except ConfigError:
        return False
    mine = [splice for splice in trace.splices if splice.table.keys == found.table.keys] if trace else []
    return any(splice.name == found.name and splice.entry == found.raw for splice in mine)


def _left_over(trace: backups.Trace) -> Iterator[tuple[str, str]]:
    """Yield the connected files and entries that no longer exist."""
    clients = dict.fromkeys(splice.table.client for splice in trace.splices)
    if not os.path.exists(trace.path):
        yield from ((client, f"{trace.path} was connected, and is gone") for client in clients)
        return
    # Lists are hooks, which have checks of their own.
    entries = [splice for splice in trace.splices if not isinstance(splice.entry, list)]
    tables = dict.fromkeys(splice.table for splice in entries)
    try:
        there = {(table, each.name) for table in tables for each in discovery.read(table) if each.bridge_to is not None}
    except ConfigError:
        return  # reported already
    for splice in entries:
        if (splice.table, splice.name) not in there:
            yield splice.table.client, f"{trace.path}: {splice.name} led to Hearth, and does so no longer"


def judge(facts: ClientFacts) -> list[Finding]:
    """Return the findings on clients."""
    found = [*_unreadable(facts), *_bridges(facts), *_repetitions(facts), *_twice(facts), *_leftovers(facts)]
    return found or [Finding("clients.bridges", "ok", _summary(facts.entries))]


def _summary(entries: Sequence[ClientEntry]) -> str:
    clients = dict.fromkeys(entry.client for entry in entries)
    bridges = [entry.client for entry in entries if entry.bridge_to is not None]
    told = (f"{KINDS[client].title} {bridges.count(client)}" for client in clients)
    return f"entries that lead to Hearth: {', '.join(told)}" if clients else "no client has MCP servers of its own"


def _unreadable(facts: ClientFacts) -> Iterator[Finding]:
    for client, problem in facts.unreadable:
        message = f"{KINDS[client].title}: {problem}"
        yield Finding("clients.broken", "broken", message, "Mend the file: its client cannot read it either.", client)
    if facts.damage:
        fix = (
            "Look at it, and remove it if it is of no use: `hearth disconnect` then leaves that client's file as it is."
        )
        yield Finding("clients.record", "broken", facts.damage, fix)


def _bridges(facts: ClientFacts) -> Iterator[Finding]:
    for entry in facts.entries:
        where = f"{KINDS[entry.client].title}: {entry.name} in {entry.path}"
        if entry.bridge_to is None:
            continue
        if entry.gone:
            fix = (
                f"hearth connect {entry.client}"
                if entry.ours
                else "`hearth connect --print` shows what to write there."
            )
            request = FixRequest("repoint", entry.ours) if entry.ours and entry.for_this else None
            message = f"{where} starts a bridge that needs {entry.gone}, which is not there"
            yield Finding("clients.bridge", "broken", message, fix, entry.client, request)
        elif entry.for_this and entry.bridge_to and entry.bridge_to not in facts.servers:
            message = f"{where} leads to {entry.bridge_to!r}, and Hearth has no server of that name"
            fix = f"`hearth add {entry.bridge_to} -- COMMAND`, or `hearth disconnect {entry.client}`."
            yield Finding("clients.server", "broken", message, fix, entry.client)


def _repetitions(facts: ClientFacts) -> Iterator[Finding]:
    for entry in facts.entries:
        if entry.shared:
            message = (
                f"{KINDS[entry.client].title}: {entry.name} in {entry.path} runs a process of its own, although Hearth"
                f" has the same server as {entry.shared!r}"
            )
            yield Finding("clients.own", "note", message, f"hearth connect {entry.client}", entry.client)


def _twice(facts: ClientFacts) -> Iterator[Finding]:
    """Yield the findings on two entries of one file for the same server, which list its tools twice."""
    files: dict[tuple[str, str, str], list[ClientEntry]] = {}
    for entry in facts.entries:
        if entry.bridge_to is not None and entry.for_this:
            files.setdefault((entry.client, entry.path, entry.scope), []).append(entry)
    for (client, path, _), entries in files.items():
        if pair := _pair(entries):
            message = f"{KINDS[client].title}: {pair[0].name} and {pair[1].name} in {path} offer the same tools twice"
            fix = f"Remove one of the two: `hearth disconnect {client}`, then `hearth connect {client}`."
            yield Finding("clients.twice", "note", message, fix, client)


def _pair(entries: Sequence[ClientEntry]) -> tuple[ClientEntry, ClientEntry] | None:
    """Return two entries that lead to the same server; an entry without a server leads to all of them."""
    for number, one in enumerate(entries):
        for other in entries[number + 1 :]:
            if one.bridge_to == other.bridge_to or "" in (one.bridge_to, other.bridge_to):
                return one, other
    return None


def _leftovers(facts: ClientFacts) -> Iterator[Finding]:
    for client, what in facts.leftovers:
        yield Finding("clients.leftover", "note", what, f"hearth disconnect {client}", client)


# --- bridges in entries


def command_words(entry: Mapping[str, Any]) -> list[str]:
    """Return the command of an entry, as words. Pure."""
    arguments = entry.get("args")
    found = (entry.get("command"), *(arguments if isinstance(arguments, list) else ()))
    return [word for word in found if isinstance(word, str)]


def needed_files(command: Sequence[str]) -> list[str]:
    """Return the files that a bridge needs to start: its program and, if given, the bridge's file. Pure."""
    script = [word for word in command[1:] if os.path.isabs(word) and os.path.basename(word).startswith("main.py")]
    return [*command[:1], *script[:1]]


def daemon_arguments(command: Sequence[str]) -> list[str]:
    """Return the daemon that a bridge leads to, in the form of `Places.arguments`. Pure."""
    for option in ("--profile", "--config"):
        value = _value_of(command, option)
        if value is not None:
            return [] if (option, value) == ("--profile", "mcp") else [option, value]
    return []


def leads_to(command: Sequence[str], places: Places) -> bool:
    """Tell whether a bridge leads to the daemon of these places. Pure."""
    socket = _value_of(command, "--socket")
    return daemon_arguments(command) == places.arguments() and socket in (None, places.socket, places.folder + ".sock")


def _value_of(command: Sequence[str], wanted: str) -> str | None:
    for number, word in enumerate(command):
        option, equals, value = word.partition("=")
        if option == wanted:
            return value if equals else "".join(command[number + 1 : number + 2])
    return None


def pack_entry(table: Table, name: str, server: str) -> str:
    """Encode an entry as one text, for a fix; `unpack_entry` is the inverse. Pure."""
    return json.dumps([*table, name, server])


def unpack_entry(text: str) -> tuple[Table, str, str]:
    """Decode an entry: table, name, server. Pure."""
    client, path, keys, scope, folder, name, server = json.loads(text)
    return Table(client, path, tuple(keys), scope, folder), name, server


def repoint_description(text: str) -> str:
    """Return what `repoint` would do, in words."""
    table, name, _ = unpack_entry(text)
    return f"have {name} of {KINDS[table.client].title}, in {table.path}, start the bridge of this installation"


def repoint(text: str, places: Places) -> None:
    """Rewrite an entry to start the bridge of this installation. Raises ConfigError, Refused, FileAccessError."""
    table, name, server = unpack_entry(text)
    is_whole = not server and name == bridge_entries.WHOLE
    bridge_entries.connect(table, {} if is_whole else {name: server}, is_whole, places)
