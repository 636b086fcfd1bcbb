"""Clients connected by a plan, or restored to what they were, file by file, with the problems that were met.

A file that cannot be changed keeps no other from being changed.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from hearth.clients import backups, connector, discovery
from hearth.clients.connector import TableOutcome
from hearth.clients.discovery import ClientServer
from hearth.clients.planning import TablePlan
from hearth.clients.table import Table
from hearth.errors import ConfigError, HearthError
from hearth.paths import Places


class Links(NamedTuple):
    """What is done with clients' files, and what stands in the way: sentences, and the exit code of the first."""

    plans: list[TablePlan]
    outcomes: list[TableOutcome]
    problems: list[str]
    exit_code: int = 0

    @property
    def changed(self) -> list[TableOutcome]:
        """Those files that change."""
        return [outcome for outcome in self.outcomes if outcome.changes]


def linked(plans: Iterable[TablePlan], places: Places, dry_run: bool) -> Links:
    """Connect them, or only say how."""
    done, code = Links(list(plans), [], []), 0
    for plan in done.plans:
        try:
            outcome = connector.connect(plan.table, plan.replace, plan.whole, places, dry_run)
            done.outcomes.append(outcome._replace(notes=outcome.notes + plan.notes))
        except HearthError as exc:
            code = code or exc.exit_code
            done.problems.extend(each for each in sentences(exc) if each not in done.problems)
    return done._replace(exit_code=code)


class Restored(NamedTuple):
    """Client files after `hearth disconnect`, and the problems it met, with the exit code of the first."""

    outcomes: list[TableOutcome]
    problems: list[str]
    exit_code: int = 0


def restored(tables: Iterable[Table], dry_run: bool) -> Restored:
    """Disconnect the tables, or only say how."""
    done, code = Restored([], []), 0
    for table in tables:
        try:
            done.outcomes.append(connector.disconnect(table, dry_run))
        except HearthError as exc:
            code = code or exc.exit_code
            done.problems.extend(sentences(exc))
    return done._replace(exit_code=code)


def connected_below(folder: str) -> list[Table]:
    """Return the connected tables with an entry that starts a program below a folder."""
    prefix = folder.rstrip(os.sep) + os.sep
    return _connected_where(lambda entry: any(word.startswith(prefix) for word in _words(entry)))


def connected_to(places: Places) -> list[Table]:
    """Return the connected tables with an entry for this profile; for the default profile, every connected table."""
    arguments = places.arguments()
    return _connected_where(lambda entry: _holds(list(_words(entry)), arguments))


def handwritten(folder: str | None) -> list[ClientServer]:
    """Return the entries that start Hearth and that no `hearth connect` wrote, as far as the files can be read."""
    ours = {(splice.table.path, splice.keys) for trace in backups.every().traces for splice in trace.splices}
    found = []
    for table in discovery.tables(folder):
        try:
            entries = discovery.read(table)
        except ConfigError:
            continue
        found += [
            each
            for each in entries
            if each.bridge_to is not None and (table.path, (*table.keys, each.name)) not in ours
        ]
    return found


def _connected_where(condition: Callable[[dict[str, Any]], bool]) -> list[Table]:
    splices = (splice for trace in backups.every().traces for splice in trace.splices)
    return list(dict.fromkeys(splice.table for splice in splices if condition(splice.entry)))


def _words(value: Any) -> Iterator[str]:
    """Yield every string of an entry, in the order of the file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _words(each)
    elif isinstance(value, list):
        for each in value:
            yield from _words(each)


def _holds(words: list[str], part: list[str]) -> bool:
    return any(words[start : start + len(part)] == part for start in range(len(words) - len(part) + 1))


def sentences(error: HearthError) -> list[str]:
    """What an error says, one finding each."""
    return error.problems if isinstance(error, ConfigError) else [str(error)]
