"""Removal of our entries from a file that its client has saved since: the original text returns, and the rest stays.

Pure: bytes in, bytes out.
"""

from typing import Any, NamedTuple

from hearth.clients.backups import Splice, Trace
from hearth.clients.formats import KEPT
from hearth.config import editor
from hearth.config.document import parse
from hearth.errors import ConfigError

# Values that mean nothing, and keys that clients add to an entry by themselves.
_EMPTY: tuple[object, ...] = ({}, [], None)
_ADDED = KEPT | {"type", "source", "transport"}


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
        return splice.was is not None and splice.at == splice.keys and not self._told(splice)

    def _told(self, splice: Splice) -> dict[str, Any]:
        """Return the settings that the user has changed on the bridge's entry since."""
        current = editor.value_at(self._current, splice.keys)
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
        if splice.was is None or not isinstance(former, dict):
            return _taken(self._trace.path, self.data, splice, editor.value_at(self._former, splice.at))
        # Settings that were made for the bridge apply to the original server, too.
        entry = {**former, **self._told(splice)}
        return editor.put(self._trace.path, self.data, splice.table.keys, {splice.name: entry})


def _is_ours(current: Any, entry: dict[str, Any]) -> bool:
    """Tell whether an entry still starts our bridge, whatever else the client keeps in it."""
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
