"""Connection of clients to Hearth, and the way back: entries are replaced by bridges, or one is added, and restored.

A file that is as we left it gets its original bytes back. In a file that the client has saved since, our entries are
replaced one by one by the original ones, and the rest stays. An edit that is saved meanwhile is never overwritten.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hearth.clients import backups, formats, launcher
from hearth.clients.backups import Splice, Trace
from hearth.clients.discovery import ClientServer, found_in, servers_of
from hearth.clients.launcher import entry_command
from hearth.clients.table import KINDS, Table
from hearth.config import editor
from hearth.config.document import Document, parse
from hearth.config.loader import FILE_LIMIT_BYTES, read_file
from hearth.errors import ConfigError, Refused
from hearth.host import edited_files
from hearth.paths import Places

# Name of the entry that offers every server.
WHOLE = "hearth"
# The server of each entry, "" for all servers, and the command of its bridge.
Bridges = Mapping[str, tuple[str, list[str]]]
# Attempts at an edit while the client saves the file at the same time.
_ATTEMPTS = 3


class EntryChange(NamedTuple):
    """Change of one entry: its text before and after, and its values before and after; None: the entry is absent."""

    name: str
    was: str | None
    now: str | None
    former: Any
    new: Any


class TableOutcome(NamedTuple):
    """Outcome of a change to a table, done or planned."""

    table: Table
    changes: list[EntryChange]
    notes: list[str]  # sentences on entries that were left unchanged
    is_made: bool = False  # the file did not exist
    is_removed: bool = False
    is_exact: bool = False  # every byte is as before


class EditStep(NamedTuple):
    """Planned change: the new bytes (None: no file) and the trace to keep from then on (None: no trace)."""

    outcome: TableOutcome
    data: bytes | None
    trace: Trace | None
    lost: Trace | None = None  # trace whose original must be set aside: no other copy exists


def connect(
    table: Table, replace: Mapping[str, str], whole: bool, places: Places, dry_run: bool = False
) -> TableOutcome:
    """Put bridges into a table: in place of entries (`replace`: entry to server), or one for all servers (`whole`).

    Entries that are disabled, or connected to Hearth already, are left. Raises ConfigError, Refused,
    FileAccessError; the file is then as it was.
    """
    if os.path.realpath(table.path) == os.path.realpath(places.config_file()):
        raise ConfigError(
            [f"{table.path}: is the config that Hearth reads its servers from; bridges in it would go round"]
        )
    servers = {**replace, **({WHOLE: ""} if whole else {})}
    prepared = launcher.prepared(write=not dry_run and bool(servers))
    bridges = {
        name: (server, entry_command(places, prepared, ["--server", server] if server else []))
        for name, server in servers.items()
    }
    return changed(table, dry_run, lambda data, trace: _connected(table, bridges, data, trace))


def disconnect(table: Table, dry_run: bool = False) -> TableOutcome:
    """Restore the original entries of a table. As in `connect`, an error leaves the file as it was."""
    return changed(table, dry_run, lambda data, trace: _disconnected(table, data, trace))


def connected() -> list[Table]:
    """Return the tables that are connected now, as far as their traces can be read."""
    return list(dict.fromkeys(splice.table for trace in backups.every().traces for splice in trace.splices))


def damaged() -> list[str]:
    """Return a sentence on each trace that cannot be read."""
    return backups.every().problems


def changed(table: Table, dry_run: bool, make: Callable[[bytes | None, Trace | None], EditStep]) -> TableOutcome:
    """Change a file in the way that `make` returns for its bytes and its trace. Raises Refused, FileAccessError."""
    with edited_files.held(table.path):
        former = backups.load(table.path)
        for _ in range(_ATTEMPTS):
            data = read_file(table.path, FILE_LIMIT_BYTES)
            step = make(data, former)
            if dry_run or _is_written(table.path, data, step, former):
                return step.outcome
    raise Refused(f"{table.path} is being changed by somebody else at the same time; nothing was done, try again")


def _is_written(path: str, data: bytes | None, step: EditStep, former: Trace | None) -> bool:
    """Write the change unless the file differs from `data`. Store first what is needed to undo the change."""
    if step.lost is not None:
        backups.set_aside(step.lost)
    if step.trace is not None and step.trace != former:
        backups.save(step.trace)
    try:
        is_done = step.data == data or _replace(path, data, step.data)
    except BaseException:
        _restore(former, step.trace)
        raise
    if not is_done:
        _restore(former, step.trace)
    elif step.trace is None and former is not None:
        backups.forget(former)
    return is_done


def _replace(path: str, former: bytes | None, data: bytes | None) -> bool:
    def is_due() -> bool:
        return read_file(path, FILE_LIMIT_BYTES) == former

    if data is not None:
        return edited_files.replace(path, data, is_due)
    if not is_due():
        return False
    edited_files.remove(path)
    return True


def _restore(former: Trace | None, new: Trace | None) -> None:
    if former is not None:
        backups.save(former)
    elif new is not None:
        backups.forget(new)


# --- connecting


def _connected(table: Table, bridges: Bridges, data: bytes | None, trace: Trace | None) -> EditStep:
    document = parse(table.path, data or b"")
    found = {each.name: each for each in found_in(table, document)}
    ours = {splice.name: splice for splice in splices_of(trace, table)}
    wanted, notes = _wanted(table, bridges, found, ours)
    if not wanted:
        return EditStep(TableOutcome(table, [], notes), data, trace)
    new = editor.put(table.path, data or b"", table.keys, wanted)
    former = editor.written(table.path, data or b"", table.keys, [name for name in wanted if name in found])
    now = editor.written(table.path, new, table.keys, wanted)
    changes = [
        EntryChange(name, former.get(name), now[name], found[name].raw if name in found else None, entry)
        for name, entry in wanted.items()
    ]
    splices = [
        ours[name]._replace(entry=entry)
        if name in ours
        else splice_for(table, name, entry, document, former.get(name), data)
        for name, entry in wanted.items()
    ]
    outcome = TableOutcome(table, changes, notes, is_made=data is None)
    made, is_lossy = traced(table, data, new, trace, splices)
    return keeping(EditStep(outcome, new, made), trace, is_lossy)


def keeping(step: EditStep, trace: Trace | None, is_lossy: bool) -> EditStep:
    """Return the step; it sets the original aside, with a note, if the original would be lost with its trace."""
    if trace is None or not trace.original or not is_lossy:
        return step
    if step.trace is not None and step.trace.original == trace.original:
        return step
    notes = [note.replace(trace.copy, trace.aside) for note in step.outcome.notes]
    advice = "take from it what you want, and remove it when you need it no longer"
    notes.append(f"{trace.path} as it was before it was connected is kept in {trace.aside}: {advice}")
    return step._replace(outcome=step.outcome._replace(notes=notes), lost=trace)


def splices_of(trace: Trace | None, table: Table) -> list[Splice]:
    """Return the splices of one table, under any name of the file and for any client."""
    return [splice for splice in trace.splices if splice.table.keys == table.keys] if trace else []


def _wanted(
    table: Table, bridges: Bridges, found: Mapping[str, ClientServer], ours: Mapping[str, Splice]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the entries to write, and notes on the entries that are left."""
    dialect = KINDS[table.client].dialect
    wanted, notes = {}, []
    for name, (server, command) in bridges.items():
        former = found.get(name)
        if former is None and server:
            raise ConfigError([f"{table.path}: has no entry {name!r} in {'.'.join(table.keys)}"])
        entry = formats.bridge(dialect, command, former.raw if former else None)
        if former and (reason := _reason_to_leave(former, entry, server, ours.get(name))):
            notes.append(f"{name}: {reason}")
        else:
            wanted[name] = entry
    return wanted, notes


def _reason_to_leave(former: ClientServer, entry: dict[str, Any], server: str, ours: Splice | None) -> str | None:
    if former.raw == entry:
        return "leads to Hearth already"
    if former.bridge_to is not None:
        # An outdated entry of ours (Hearth was moved, say) is rewritten; an entry written by hand is not touched.
        return (
            None if ours and former.raw == ours.entry else "leads to Hearth already, and was written by somebody else"
        )
    if not server:
        raise ConfigError(
            [f"{former.table.path}: has an entry {former.name!r} that is another server; rename it first"]
        )
    return "is switched off in the client, and was left as it is" if former.disabled else None


def splice_for(
    table: Table,
    name: str,
    entry: dict[str, Any] | list[Any],
    document: Document,
    former: str | None,
    data: bytes | None,
) -> Splice:
    """Return the splice that undoes one entry: it depends on what was in its place before."""
    if former is not None:
        return Splice(table, name, entry, (*table.keys, name), former)
    for size in range(1, len(table.keys) + 1):
        at = table.keys[:size]
        current = editor.value_at(document.tree, at)
        if current or (current == {} and not document.is_json):
            continue
        # Missing, null, or an empty object: the editor creates the first, and writes the others differently.
        is_there = at[-1] in (editor.value_at(document.tree, at[:-1]) or {})
        was = editor.written(table.path, data or b"", at[:-1], at[-1:])[at[-1]] if is_there else None
        return Splice(table, name, entry, at, was)
    return Splice(table, name, entry, (*table.keys, name), None)


def traced(
    table: Table, data: bytes | None, new: bytes, trace: Trace | None, splices: list[Splice]
) -> tuple[Trace, bool]:
    """Return the new trace, and whether the file lacks content that it had before it was first connected."""
    if trace is None or data is None or data == trace.original:
        # Never changed by us; or restored, or removed, by the user.
        return Trace(table.path, backups.place(table.path), data, backups.digest(new), splices), data is None
    names = {splice.keys for splice in splices}
    kept = [splice for splice in trace.splices if splice.keys not in names]
    original, is_lossy = trace.original, False
    if backups.digest(data) != trace.left:
        undone = backups.undone(trace, data, trace.splices)
        original, is_lossy = undone.data, undone.is_lossy
        kept = [splice for splice in kept if splice.keys not in undone.gone]
    return trace._replace(original=original, left=backups.digest(new), splices=[*kept, *splices]), is_lossy


# --- disconnecting


def _disconnected(table: Table, data: bytes | None, trace: Trace | None) -> EditStep:
    mine = splices_of(trace, table)
    if trace is None or not mine:
        return EditStep(TableOutcome(table, [], []), data, trace)
    rest = [splice for splice in trace.splices if splice not in mine]
    if data is None:
        # The removal may be deliberate. A copy can be put back by hand; a file that reappears is a surprise.
        note = f"{table.path} is gone, and was not brought back"
        step = EditStep(TableOutcome(table, [], [note]), data, trace._replace(splices=rest) if rest else None)
        return keeping(step, trace, is_lossy=True)
    if data == trace.original:
        note = f"{table.path} is as it was before it was connected; somebody has brought it back"
        return EditStep(TableOutcome(table, [], [note]), data, None)
    if not rest and backups.digest(data) == trace.left:
        changes = _changes_back(table, mine, data, trace.original)
        outcome = TableOutcome(table, changes, [], is_removed=trace.original is None, is_exact=True)
        return EditStep(outcome, trace.original, None)
    undone = backups.undone(trace, data, mine)
    changes = _changes_back(table, undone.splices, data, undone.data)
    outcome = TableOutcome(table, changes, undone.notes, is_removed=undone.data is None)
    left = [splice for splice in mine if splice not in undone.splices and splice.keys not in undone.gone]
    whole = backups.undone(trace, data, trace.splices) if rest else undone
    step = EditStep(outcome, undone.data, _trace_of_rest(trace, data, undone.data, whole.data, rest, left))
    return keeping(step, trace, whole.is_lossy)


def _trace_of_rest(
    trace: Trace, data: bytes, new: bytes | None, without: bytes | None, rest: list[Splice], left: list[Splice]
) -> Trace | None:
    """Return the trace of the entries left to undo, or None. A changed entry stays, but its original is kept.

    `without` is the file without any entry of ours.
    """
    if new is None or not (rest or left):
        return None
    is_as_left = backups.digest(data) == trace.left
    original = trace.original if is_as_left or not rest else without
    return trace._replace(original=original, left=backups.digest(new), splices=[*rest, *left])


def _changes_back(table: Table, splices: list[Splice], data: bytes, new: bytes | None) -> list[EntryChange]:
    names = [splice.name for splice in splices]
    was = editor.written(table.path, data, table.keys, names)
    servers = {} if new is None else servers_of(parse(table.path, new), table.keys)
    there = [name for name in names if name in servers]
    now = editor.written(table.path, new or b"", table.keys, there)
    return [
        EntryChange(splice.name, was[splice.name], now.get(splice.name), splice.entry, servers.get(splice.name))
        for splice in splices
    ]
