"""What was done to clients' files, for the way back: the bytes before the first change, and what was put there.

One trace for each file, under STATE/clients, and beside it the file as it was; for this user only: there are secrets in
clients' files. Written before the file is changed, so that no end in between leaves a change without its trace. A copy
whose content is nowhere else is set aside when its trace goes, and only a person removes it then.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from hearth import paths, places
from hearth.clients.table import Table
from hearth.config.loader import FILE_LIMIT_BYTES
from hearth.errors import ConfigError, Refused
from hearth.host import private_files
from hearth.host.file_lock import FileLock
from hearth.host.folders import make_private, refusal, remove_file

# A few kilobytes for each entry.
_SIZE_LIMIT_BYTES = 16 * 1024 * 1024
_ENDING = ".trace.json"
# Of the digest of a file's content, in the name of its copy: two of one file are never alike in it.
_NAME_CHARACTERS = 16

# Names by what was imported; None: it was not.
Former = Mapping[str, str | None]
# A few hundred bytes for each entry of each client.
_RECORD_LIMIT_BYTES = 16 * 1024 * 1024


class Splice(NamedTuple):
    """One entry that was put into a table."""

    table: Table
    name: str
    entry: dict[str, Any]  # as it was written
    at: tuple[str, ...]  # what was replaced or added: the entry, or the outermost table that was empty or not there
    was: str | None  # the characters that were there; None: nothing was

    @property
    def keys(self) -> tuple[str, ...]:
        """Return what leads to the entry."""
        return (*self.table.keys, self.name)


class KnownBackups(NamedTuple):
    """All traces that can be read, and sentences on those that cannot."""

    traces: list["Trace"]
    problems: list[str]


class Trace(NamedTuple):
    """What was done to one file."""

    path: str
    place: str  # of the trace itself
    original: bytes | None  # the file as it would be without us; None: there would be none
    left: str  # the digest of the file as we left it
    splices: list[Splice]

    @property
    def copy(self) -> str:
        """Return where the original is kept."""
        return f"{self._stem}.original"

    @property
    def aside(self) -> str:
        """Return where the original lies for a person, once nothing else has to do with it."""
        return f"{self._stem}.kept"

    @property
    def _stem(self) -> str:
        return f"{self.place.removesuffix(_ENDING)}.{digest(self.original or b'')[:_NAME_CHARACTERS]}"


def digest(data: bytes) -> str:
    """Return a short text that stands for the content of a file."""
    return hashlib.sha256(data).hexdigest()


def load(path: str) -> Trace | None:
    """Return the trace of a file; None if it was never touched. Raises ConfigError if its own cannot be read."""
    found = _read(place(path))
    if found is None:
        # A client may have put a file in the place of a link: what was done was done to what is called so.
        return next((trace for trace in every().traces if trace.path == path), None)
    return found


def every() -> KnownBackups:
    """Return all traces; one that is damaged concerns its own file only."""
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
    """Keep a trace, in the place of a former one of the same file. Raises StartError."""
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
    """Keep the original for a person, whatever becomes of the trace. Raises StartError."""
    make_private(folder())
    try:
        private_files.write(trace.aside, trace.original or b"", durable=True)
    except OSError as exc:
        raise refusal("write", trace.aside, exc) from exc


def forget(trace: Trace) -> None:
    """Remove a trace: everything is as it was, or the original was set aside. Raises StartError."""
    remove_file(trace.place)
    _remove_copies(trace)


def _remove_copies(trace: Trace, keep: str = "") -> None:
    stem = os.path.basename(trace.place).removesuffix(_ENDING)
    for name in os.listdir(folder()):
        path = os.path.join(folder(), name)
        if name.startswith(f"{stem}.") and name.endswith(".original") and path != keep:
            private_files.remove(path)


def place(path: str) -> str:
    """Return where the trace of a file lies: by the file itself, so that two names of it have one trace."""
    return os.path.join(folder(), paths.digest(os.path.realpath(path)) + _ENDING)


def _names() -> Iterator[str]:
    try:
        yield from (name for name in os.listdir(folder()) if name.endswith(_ENDING))
    except OSError:
        return


def _read(path: str) -> Trace | None:
    try:
        data = private_files.read(path, _SIZE_LIMIT_BYTES)
        # One that is empty is damaged: taken for none, its copy would go with the next change.
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


# --- records of imports


def folder() -> str:
    """Return where what is remembered of clients lies."""
    return os.path.join(places.state_dir(), "clients")


def imported(table: Table, name: str) -> str | None:
    """Return the name that the entry has among Hearth's servers, if it was imported."""
    return _read_record().get(_key(table, name))


def remember(table: Table, name: str, server: str) -> None:
    """Keep under which name an entry was imported. Raises StartError, Refused."""
    remember_all([(table, name, server)])


def remember_all(imported: Iterable[tuple[Table, str, str]]) -> Former:
    """Keep them all or none; returns what `take_back` wants. Raises StartError, Refused."""
    return _changed({_key(table, name): server for table, name, server in imported})


def take_back(former: Former) -> None:
    """Have it as it was before. Raises StartError, Refused."""
    _changed(former)


def _changed(new: Former) -> Former:
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
    # The file itself and not its name: a link to it means the same entry.
    return json.dumps([table.client, os.path.realpath(table.path), *table.keys, name])


def _read_record() -> dict[str, str]:
    try:
        found = json.loads(private_files.read(_path(), _RECORD_LIMIT_BYTES) or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: server for key, server in found.items() if isinstance(server, str)}
