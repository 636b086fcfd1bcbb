"""Records of the changes to clients' files, and the way back: the bytes before the first change, and the new entries.

Each file has one trace under STATE/clients, with a copy of the original beside it. Only this user can read them:
clients' files contain secrets. The trace is written before the file is changed, so that a crash in between cannot leave
a change without its trace. A copy whose content is nowhere else is set aside when its trace is removed; from then on,
only a person removes it. In a file that its client has saved since, our entries alone are undone.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from hearth import paths, places
from hearth.clients.formats import KEPT
from hearth.clients.table import Table
from hearth.config import editor
from hearth.config.document import parse
from hearth.config.loader import FILE_LIMIT_BYTES
from hearth.errors import ConfigError, Refused
from hearth.host import private_files
from hearth.host.folders import make_private, refusal, remove_file
from hearth.host.private_files import FileLock

# Each entry takes a few kilobytes.
_SIZE_LIMIT_BYTES = 16 * 1024 * 1024
_ENDING = ".trace.json"
# Length of the digest in a copy's name: enough to tell the copies of one file apart.
_NAME_CHARACTERS = 16

# Server names by the key of the imported entry; None: the entry was not imported.
Former = Mapping[str, str | None]
# Each entry of each client takes a few hundred bytes.
_RECORD_LIMIT_BYTES = 16 * 1024 * 1024
# Values that mean nothing, and keys that clients add to an entry by themselves.
_EMPTY: tuple[object, ...] = ({}, [], None)
_ADDED = KEPT | {"type", "source", "transport"}


class Splice(NamedTuple):
    """Entry that was put into a table, and the text that it replaced."""

    table: Table
    name: str
    # As it was written. A list are the elements that were added to a list: the client's hooks.
    entry: dict[str, Any] | list[Any]
    at: tuple[str, ...]  # the replaced or added part: the entry, or the outermost table that was empty or missing
    was: str | None  # the text that was there; None: there was none

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that lead to the entry."""
        return (*self.table.keys, self.name)


class KnownBackups(NamedTuple):
    """Traces that can be read, and a sentence on each one that cannot."""

    traces: list["Trace"]
    problems: list[str]


class Trace(NamedTuple):
    """Record of the changes to one client file."""

    path: str
    place: str  # path of the trace itself
    original: bytes | None  # the file without our changes; None: there would be no file
    left: str  # digest of the file as we left it
    splices: list[Splice]

    @property
    def copy(self) -> str:
        """Path of the copy of the original."""
        return f"{self._stem}.original"

    @property
    def aside(self) -> str:
        """Path at which the original is kept for the user once no trace refers to it."""
        return f"{self._stem}.kept"

    @property
    def _stem(self) -> str:
        return f"{self.place.removesuffix(_ENDING)}.{digest(self.original or b'')[:_NAME_CHARACTERS]}"


def digest(data: bytes) -> str:
    """Return a digest of the content of a file."""
    return hashlib.sha256(data).hexdigest()


def load(path: str) -> Trace | None:
    """Return the trace of a file; None if the file was never changed. Raises ConfigError for a damaged trace."""
    found = _read(place(path))
    if found is None:
        # A client may have replaced a link by a file: the changes were made to the file of this name.
        return next((trace for trace in every().traces if trace.path == path), None)
    return found


def every() -> KnownBackups:
    """Return all traces. A damaged one affects only its own file."""
    known = KnownBackups([], [])
    for name in sorted(_names()):
        try:
            trace = _read(os.path.join(folder(), name))
        except ConfigError as exc:
            known.problems.extend(exc.problems)
        else:
            known.traces.extend([trace] if trace else [])
    return known


def save(trace: Trace) -> None:
    """Store a trace, replacing the previous one of the same file. Raises FileAccessError."""
    document = {
        "path": trace.path,
        "original": None if trace.original is None else digest(trace.original),
        "left": trace.left,
        "splices": [splice._asdict() | {"table": splice.table._asdict()} for splice in trace.splices],
    }
    make_private(folder())
    try:
        if trace.original is not None:
            private_files.write(trace.copy, trace.original, durable=True)
        private_files.write(trace.place, json.dumps(document, indent=2).encode() + b"\n", durable=True)
    except OSError as exc:
        raise refusal("write", trace.place, exc) from exc
    _remove_copies(trace, keep=trace.copy)


def set_aside(trace: Trace) -> None:
    """Keep the original for the user, independently of the trace. Raises FileAccessError."""
    make_private(folder())
    try:
        private_files.write(trace.aside, trace.original or b"", durable=True)
    except OSError as exc:
        raise refusal("write", trace.aside, exc) from exc


def forget(trace: Trace) -> None:
    """Remove a trace, once the file is restored or the original was set aside. Raises FileAccessError."""
    remove_file(trace.place)
    _remove_copies(trace)


def _remove_copies(trace: Trace, keep: str = "") -> None:
    stem = os.path.basename(trace.place).removesuffix(_ENDING)
    for name in os.listdir(folder()):
        path = os.path.join(folder(), name)
        if name.startswith(f"{stem}.") and name.endswith(".original") and path != keep:
            private_files.remove(path)


def place(path: str) -> str:
    """Return the path of a file's trace. Two names of one file share a trace: its path follows from the real path."""
    return os.path.join(folder(), paths.digest(os.path.realpath(path)) + _ENDING)


def _names() -> Iterator[str]:
    try:
        yield from (name for name in os.listdir(folder()) if name.endswith(_ENDING))
    except OSError:
        return


def _read(path: str) -> Trace | None:
    try:
        data = private_files.read(path, _SIZE_LIMIT_BYTES)
        # An empty trace is damaged. If it counted as missing, the next change would remove its copy.
        return _parsed(path, json.loads(data)) if data or os.path.lexists(path) else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as exc:
        raise ConfigError([f"{path}: what was done to a client's file cannot be read: {exc}"]) from exc


def _parsed(place: str, found: dict[str, Any]) -> Trace:
    splices = [_splice(**splice) for splice in found["splices"]]
    trace = Trace(str(found["path"]), place, None, str(found["left"]), splices)
    if found["original"] is None:
        return trace
    copy = f"{place.removesuffix(_ENDING)}.{found['original'][:_NAME_CHARACTERS]}.original"
    original = private_files.read(copy, FILE_LIMIT_BYTES)
    if digest(original) != found["original"]:
        raise ValueError(f"{copy} is not as it was written")
    return trace._replace(original=original)


def _splice(table: dict[str, Any], name: str, entry: dict[str, Any], at: list[str], was: str | None) -> Splice:
    return Splice(Table(**table | {"keys": tuple(table["keys"])}), name, entry, tuple(at), was)


# --- entries in a file that its client has saved since


class Undone(NamedTuple):
    """File content without some of our entries."""

    data: bytes | None  # None: a file that we created, with nothing left in it
    splices: list[Splice]  # the splices that were undone
    gone: set[tuple[str, ...]]  # keys of entries that no longer exist
    notes: list[str]
    is_lossy: bool  # entries were removed or changed by others, and part of the original is missing


def undone(trace: Trace, data: bytes, splices: list[Splice]) -> Undone:
    """Undo splices. Raises ConfigError for a broken file. An entry that cannot be edited stays, with a note."""
    undoing = _Undoing(trace, data)
    undoing.undo([splice for splice in splices if undoing.is_there(splice)])
    is_nothing_left = trace.original is None and not parse(trace.path, undoing.data).tree
    done = [splice for splice in splices if splice in undoing.done]
    is_lossy = undoing.is_lossy([splice for splice in splices if splice not in done])
    return Undone(None if is_nothing_left else undoing.data, done, undoing.gone, undoing.notes, is_lossy)


class _Undoing:
    """Undo operation on the entries of one file."""

    def __init__(self, trace: Trace, data: bytes) -> None:
        self.data = data
        self.done: list[Splice] = []
        self.gone: set[tuple[str, ...]] = set()
        self.notes: list[str] = []
        self._trace = trace
        self._current = parse(trace.path, data).tree
        self._former = parse(trace.path, trace.original or b"").tree

    def is_there(self, splice: Splice) -> bool:
        """Tell whether the entry is still the one that we wrote; note it if not."""
        current = editor.value_at(self._current, splice.keys)
        if current is None:
            self.gone.add(splice.keys)
            self.notes.append(f"{splice.name}: somebody has removed it")
        elif not _is_ours(current, splice.entry):
            copy = self._trace.copy
            self.notes.append(f"{splice.name}: somebody has changed it, so it was left; the file as it was: {copy}")
        else:
            return True
        return False

    def undo(self, splices: list[Splice]) -> None:
        """Undo the entries that are still ours: replaced ones in one edit where possible, then the rest one by one."""
        replaced = [splice for splice in splices if self._is_as_written(splice)]
        for keys in dict.fromkeys(splice.table.keys for splice in replaced):
            self._bring_back([splice for splice in replaced if splice.table.keys == keys])
        # The first added entry is removed last: the table of the others may have been created for it.
        for splice in reversed([splice for splice in splices if splice not in self.done]):
            try:
                self.data = self._without(splice)
                self.done.append(splice)
            except ConfigError as exc:
                self.notes.append(f"{splice.name}: {exc}; the file as it was: {self._trace.copy}")

    def is_lossy(self, failed: list[Splice]) -> bool:
        """Tell whether the file lacks original content because these entries were changed by others."""
        current = parse(self._trace.path, self.data).tree
        former = [(editor.value_at(self._former, splice.keys), splice.keys) for splice in failed]
        is_lost = any(value is not None and value != editor.value_at(current, keys) for value, keys in former)
        return bool(failed) and (is_lost or not _has_keys(current, self._former))

    def _is_as_written(self, splice: Splice) -> bool:
        if isinstance(splice.entry, list):
            whole = [*(editor.value_at(self._former, splice.keys) or ()), *splice.entry]
            if editor.value_at(self._current, splice.keys) != whole:
                return False
        return splice.was is not None and splice.at == splice.keys and not self._told(splice)

    def _told(self, splice: Splice) -> dict[str, Any]:
        """Return the settings that the user has changed on the bridge's entry since."""
        current = editor.value_at(self._current, splice.keys)
        if not isinstance(splice.entry, dict):
            return {}
        return {key: value for key, value in current.items() if key in KEPT and value != splice.entry.get(key)}

    def _bring_back(self, splices: list[Splice]) -> None:
        texts = {splice.name: splice.was or "" for splice in splices}
        former = {splice.name: editor.value_at(self._former, splice.keys) for splice in splices}
        try:
            self.data = editor.rewritten(self._trace.path, self.data, splices[0].table.keys, texts, former)
            self.done += splices
        except ConfigError:
            # The client has written its tables in another form since: restore them one by one, by their values.
            return

    def _without(self, splice: Splice) -> bytes:
        former = editor.value_at(self._former, splice.keys)
        if isinstance(splice.entry, list):
            rest = [each for each in editor.value_at(self._current, splice.keys) if each not in splice.entry]
            if rest:
                return editor.put(self._trace.path, self.data, splice.table.keys, {splice.name: rest})
        if splice.was is None or not isinstance(former, dict):
            return _taken(self._trace.path, self.data, splice, editor.value_at(self._former, splice.at))
        # Settings that were made for the bridge apply to the original server, too.
        entry = {**former, **self._told(splice)}
        return editor.put(self._trace.path, self.data, splice.table.keys, {splice.name: entry})


def _is_ours(current: Any, entry: dict[str, Any] | list[Any]) -> bool:
    """Tell whether an entry still starts our bridge, whatever else the client keeps in it."""
    if isinstance(entry, list):
        return isinstance(current, list) and any(each in current for each in entry)
    return isinstance(current, dict) and (current == entry or _meaning(current) == _meaning(entry))


def _meaning(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in _ADDED and value not in _EMPTY}


def _has_keys(current: Any, former: Any) -> bool:
    """Tell whether all former keys exist. Values do not count: clients update counters and notes all the time."""
    if not isinstance(former, dict) or not former:
        return True
    return isinstance(current, dict) and all(
        key in current and _has_keys(current[key], value) for key, value in former.items()
    )


def _taken(path: str, data: bytes, splice: Splice, former: Any) -> bytes:
    """Return the file without the entry and the tables created for it, unless these contain something else by now."""
    inside: Any = editor.value_at(parse(path, data).tree, splice.at)
    for key in splice.keys[len(splice.at) :]:
        if len(inside) > 1:
            return editor.taken(path, data, splice.keys)
        inside = inside[key]
    if splice.was is None:
        return editor.taken(path, data, splice.at)
    *keys, name = splice.at
    return editor.rewritten(path, data, tuple(keys), {name: splice.was}, {name: former})


# --- records of imports


def folder() -> str:
    """Return the folder of traces and import records."""
    return os.path.join(places.state_dir(), "clients")


def imported(table: Table, name: str) -> str | None:
    """Return the name of the server that an entry was imported as, or None."""
    return _read_record().get(_key(table, name))


def remember(imported: Iterable[tuple[Table, str, str]]) -> Former:
    """Record which entries (table and name) were imported as which servers, as `put_records` does."""
    return put_records({_key(table, name): server for table, name, server in imported})


def put_records(new: Former) -> Former:
    """Change records of imports, all or none; return what they were. Raises FileAccessError, Refused."""
    if not new:
        return {}
    make_private(folder())
    lock = FileLock(os.path.join(folder(), "imported.lock"))
    lock.acquire()
    try:
        known = _read_record()
        former = {key: known.get(key) for key in new}
        known = {key: server for key, server in {**known, **new}.items() if server is not None}
        data = json.dumps(known, indent=2, sort_keys=True).encode() + b"\n"
        if len(data) > _RECORD_LIMIT_BYTES:
            raise Refused(f"{_path()} would have over {_RECORD_LIMIT_BYTES} bytes; remove it and import anew")
        private_files.write(_path(), data)
        return former
    except OSError as exc:
        raise refusal("write", _path(), exc) from exc
    finally:
        lock.release()


def _path() -> str:
    return os.path.join(folder(), "imported.json")


def _key(table: Table, name: str) -> str:
    # The real path, not the name: a link to the file means the same entry.
    return json.dumps([table.client, os.path.realpath(table.path), *table.keys, name])


def _read_record() -> dict[str, str]:
    try:
        found = json.loads(private_files.read(_path(), _RECORD_LIMIT_BYTES) or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: server for key, server in found.items() if isinstance(server, str)}
