"""Entries of ours taken out of a file that its client has saved since: what was there before comes back, in its own
characters, and everything else stays. Bytes in, bytes out.
"""

from typing import Any, NamedTuple

from hearth.clients.dialects import KEPT
from hearth.clients.traces import Splice, Trace
from hearth.config import edits
from hearth.config.document import parse
from hearth.errors import ConfigError

# What clients add to an entry by themselves, and what says nothing.
_EMPTY: tuple[object, ...] = ({}, [], None)
_ADDED = KEPT | {"type", "source", "transport"}


class Undone(NamedTuple):
    """A file without some of our entries."""

    data: bytes | None  # None: nothing is left of a file that we had made
    splices: list[Splice]  # those that were undone
    gone: set[tuple[str, ...]]  # the keys of those that are not there any more
    notes: list[str]


def undone(trace: Trace, data: bytes, splices: list[Splice]) -> Undone:
    """Undo these. Raises ConfigError for a file that is broken; one that cannot be edited is left, and said."""
    done: list[Splice] = []
    gone: set[tuple[str, ...]] = set()
    notes: list[str] = []
    former = parse(trace.path, trace.original or b"").tree
    # What was added first goes last: it may have made the table that the others are in.
    for splice in reversed(splices):
        current = edits.value_at(parse(trace.path, data).tree, splice.keys)
        if current is None:
            gone.add(splice.keys)
            notes.append(f"{splice.name}: somebody has removed it")
        elif not _is_ours(current, splice.entry):
            notes.append(f"{splice.name}: somebody has changed it, so it was left; the file as it was: {trace.copy}")
        else:
            try:
                data = _without(trace.path, data, splice, current, edits.value_at(former, splice.keys))
                done.append(splice)
            except ConfigError as exc:
                notes.append(f"{splice.name}: {exc}; the file as it was: {trace.copy}")
    is_nothing_left = trace.original is None and not parse(trace.path, data).tree
    return Undone(None if is_nothing_left else data, done[::-1], gone, notes[::-1])


def _is_ours(current: Any, entry: dict[str, Any]) -> bool:
    """Whether it still starts what we wrote, whatever else the client keeps in it."""
    if current == entry:
        return True
    return isinstance(current, dict) and _meaning(current) == _meaning(entry)


def _meaning(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in _ADDED and value not in _EMPTY}


def _without(path: str, data: bytes, splice: Splice, current: Any, former: Any) -> bytes:
    if splice.was is None or former is None:
        return _taken(path, data, splice)
    keys, name = splice.table.keys, splice.name
    changed = {key: value for key, value in current.items() if key in KEPT and value != splice.entry.get(key)}
    if changed and isinstance(former, dict):
        # What the person told the client meanwhile is as right for the server itself.
        return edits.put(path, data, keys, {name: {**former, **changed}})
    try:
        return edits.rewritten(path, data, keys, {name: splice.was}, {name: former})
    except ConfigError:
        # The client has written its tables in another way since.
        return edits.put(path, data, keys, {name: former})


def _taken(path: str, data: bytes, splice: Splice) -> bytes:
    """Without the entry, and without the tables that were made for it, unless something else is in them by now."""
    inside: Any = edits.value_at(parse(path, data).tree, splice.at)
    for key in splice.keys[len(splice.at) :]:
        if len(inside) > 1:
            return edits.taken(path, data, splice.keys)
        inside = inside[key]
    if splice.was is None:
        return edits.taken(path, data, splice.at)
    *keys, name = splice.at
    return edits.rewritten(path, data, tuple(keys), {name: splice.was}, {name: None})
