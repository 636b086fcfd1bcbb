"""Connection of clients by a plan, and its reversal, file by file, with the problems that occurred.

A file that cannot be changed does not prevent the change of another.
"""

import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from hearth.clients import backups, bridge_entries, discovery, hooks
from hearth.clients.bridge_entries import WHOLE, TableOutcome
from hearth.clients.discovery import ClientServer
from hearth.clients.table import Table
from hearth.config import ServerSpec
from hearth.control_client import running_daemon
from hearth.errors import ConfigError, HearthError
from hearth.ops.tool_caller import Trial
from hearth.paths import Places

# As the policy has it (hook_wait); a person needs that long to decide, and clients wait longer.
HOOK_WAIT_SECONDS = 50.0
_HOOK_WAIT_LIMIT = 600
# Keys of an entry that identify the server.
_DEFINITION = ("command", "args", "env", "cwd", "url", "headers")


class TablePlan(NamedTuple):
    """Plan for one table."""

    table: Table
    replace: dict[str, str]  # entry to server
    whole: bool
    notes: list[str]  # entries that stay as they are, in sentences


class Links(NamedTuple):
    """Changes of clients' files by plans, or back; problems as sentences, and the exit code of the first one."""

    plans: list[TablePlan]
    outcomes: list[TableOutcome]
    problems: list[str]
    exit_code: int = 0

    @property
    def changed(self) -> list[TableOutcome]:
        """Outcomes of the files that change."""
        return [outcome for outcome in self.outcomes if outcome.changes]


class HookPlan(NamedTuple):
    """Plan for the hooks of some clients; with a role token in a file, if one is given."""

    tables: Sequence[Table] = ()
    token_file: str | None = None


NO_HOOKS = HookPlan()


def linked(plans: Iterable[TablePlan], places: Places, dry_run: bool, hooked: HookPlan = NO_HOOKS) -> Links:
    """Connect the clients as planned, or only return the changes. Raises Refused below an agent under a policy."""
    if not dry_run:
        running_daemon.check_change(places, "connecting a client")
    plans = list(plans)
    wait = hook_wait(places) if hooked.tables else 0.0
    steps: list[Callable[[], TableOutcome]] = [partial(_link, plan, places, dry_run) for plan in plans]
    steps += [partial(hooks.connect, table, places, wait, hooked.token_file, dry_run) for table in hooked.tables]
    return _changed(steps)._replace(plans=plans)


def _link(plan: TablePlan, places: Places, dry_run: bool) -> TableOutcome:
    outcome = bridge_entries.connect(plan.table, plan.replace, plan.whole, places, dry_run)
    return outcome._replace(notes=outcome.notes + plan.notes)


def restored(places: Places, tables: Iterable[Table], dry_run: bool) -> Links:
    """Disconnect the tables, or only return the changes. Raises Refused below an agent under the profile's policy."""
    if not dry_run:
        running_daemon.check_change(places, "disconnecting a client")
    return _changed(partial(bridge_entries.disconnect, table, dry_run) for table in tables)


def _changed(steps: Iterable[Callable[[], TableOutcome]]) -> Links:
    done, code = Links([], [], []), 0
    for step in steps:
        try:
            done.outcomes.append(step())
        except HearthError as exc:
            code = code or exc.exit_code
            done.problems.extend(each for each in sentences(exc) if each not in done.problems)
    return done._replace(exit_code=code)


def has_policy(places: Places) -> bool:
    """Tell whether there is a policy file."""
    return os.path.exists(places.policy_file())


def hook_wait(places: Places) -> float:
    """Return the time that the policy gives a hook's decision, in seconds; the default without a usable policy."""
    try:
        with open(places.policy_file(), "rb") as file:
            found = tomllib.load(file).get("hook_wait")
    except (OSError, ValueError):
        return HOOK_WAIT_SECONDS
    return float(found) if isinstance(found, int | float) and 0 < found <= _HOOK_WAIT_LIMIT else HOOK_WAIT_SECONDS


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
    found = (each for table in discovery.tables(folder) for each in discovery.readable(table))
    bridges = [each for each in found if each.bridge_to is not None]
    return [each for each in bridges if (each.table.path, (*each.table.keys, each.name)) not in ours]


def _connected_where(condition: Callable[[object], bool]) -> list[Table]:
    splices = (splice for trace in backups.every().traces for splice in trace.splices)
    return list(dict.fromkeys(splice.table for splice in splices if condition(splice.entry)))


def _words(value: Any) -> Iterator[str]:
    """Yield every string of an entry, in the order of the file; a hook's command is one string of several words."""
    if isinstance(value, str):
        yield from value.split() if " hook " in value else (value,)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _words(each)
    elif isinstance(value, list):
        for each in value:
            yield from _words(each)


def _holds(words: list[str], part: list[str]) -> bool:
    return any(words[start : start + len(part)] == part for start in range(len(words) - len(part) + 1))


def sentences(error: HearthError) -> list[str]:
    """Return the sentences of an error, one for each problem."""
    return error.problems if isinstance(error, ConfigError) else [str(error)]


# --- plans


def plans(
    found: Mapping[Table, Sequence[ClientServer]],
    servers: Mapping[str, ServerSpec],
    imported: Callable[[Table, str], str | None],
    way: str | None = None,
) -> list[TablePlan]:
    """Return the plans for the tables of one client; `way` is "one", "each" or None."""
    planned: list[TablePlan] = []
    for tables in _by_folder(found):
        each = [_plan(table, found[table], servers, imported, way) for table in tables]
        leads = any(entry.bridge_to is not None for table in tables for entry in found[table])
        if way == "one" or (way is None and not leads and not any(plan.replace for plan in each)):
            each[0] = each[0]._replace(whole=True)
        planned += each
    return planned


def server_for(
    entry: ClientServer, servers: Mapping[str, ServerSpec], imported: Callable[[Table, str], str | None]
) -> str | None:
    """Return the name of Hearth's server that an entry equals; None if there is none."""
    known = imported(entry.table, entry.name)
    if known in servers:
        return known
    spec = servers.get(entry.name)
    return entry.name if spec is not None and _is_same(entry.entry, spec) else None


def _is_same(entry: Mapping[str, object], spec: ServerSpec) -> bool:
    own = {key: getattr(spec, key) or None for key in _DEFINITION}
    own["args"] = list(spec.args) or None
    return all((entry.get(key) or None) == own[key] for key in _DEFINITION)


def _by_folder(tables: Iterable[Table]) -> list[list[Table]]:
    """Group the tables that one installation of the client reads: opencode's two files, Claude Code's projects."""
    folders: dict[str, list[Table]] = {}
    for table in tables:
        folders.setdefault(os.path.dirname(table.path), []).append(table)
    return list(folders.values())


def _plan(
    table: Table,
    found: Sequence[ClientServer],
    servers: Mapping[str, ServerSpec],
    imported: Callable[[Table, str], str | None],
    way: str | None,
) -> TablePlan:
    plan = TablePlan(table, {}, False, [])
    for entry in found:
        server = server_for(entry, servers, imported)
        if entry.bridge_to is not None:
            # Hearth's own entries are planned again: Hearth may have moved.
            if entry.bridge_to in servers:
                plan.replace[entry.name] = entry.bridge_to
            elif entry.bridge_to == "" and entry.name == WHOLE:
                plan = plan._replace(whole=True)
        elif way == "one":
            if server and not entry.disabled:
                plan.notes.append(f"{entry.name}: stays, so its tools are offered twice; --each would replace it")
        elif server is not None:
            plan.replace[entry.name] = server
        else:
            plan.notes.append(f"{entry.name}: {_why_it_stays(entry)}")
    return plan


def _why_it_stays(entry: ClientServer) -> str:
    if not entry.entry.get("command") and not entry.entry.get("url"):
        return "stays as it is: it " + (entry.notes[0] if entry.notes else "has neither a command nor a url")
    return f"is not among Hearth's servers, and stays as it is; `hearth import {entry.table.client}` brings it there"


# --- entries that depend on a trial: one whose server does not answer through Hearth is left alone


class LeftAlone(NamedTuple):
    """Entry of a client that was not replaced, because its server failed the trial."""

    found: ClientServer
    reason: str
    server: str


def newly_replaced(plans: Iterable[TablePlan], found: Iterable[ClientServer]) -> list[tuple[ClientServer, str]]:
    """Return the entries that a bridge is about to replace, each with its server; without entries that are bridges."""
    entries = {(each.table, each.name): each for each in found if each.bridge_to is None and not each.disabled}
    pairs = [((plan.table, name), server) for plan in plans for name, server in plan.replace.items()]
    return [(entries[key], server) for key, server in pairs if key in entries]


def without_failed(
    plans: Iterable[TablePlan], found: Iterable[ClientServer], trials: Iterable[Trial]
) -> tuple[list[TablePlan], list[LeftAlone]]:
    """Return the plans without the entries whose server failed its trial, and those entries with the reason."""
    plans = list(plans)
    failed = {each.server: each.problem for each in trials if each.problem}
    left = [
        LeftAlone(entry, f"no answer through Hearth: {failed[server]}", server)
        for entry, server in newly_replaced(plans, found)
        if server in failed
    ]
    keys = {(each.found.table, each.found.name) for each in left}
    kept = [
        plan._replace(replace={name: to for name, to in plan.replace.items() if (plan.table, name) not in keys})
        for plan in plans
    ]
    return kept, left
