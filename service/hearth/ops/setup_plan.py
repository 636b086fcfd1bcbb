"""Plan of `hearth setup`, and its execution step by step: import, service, trial, clients.

`make` plans once. Every step executes the plan object that was shown; a step whose files have changed since then is
reported and not done, as nothing is planned a second time.

Each step is done completely or not at all. A step that fails is reported, and later steps are still tried, unless they
would lead clients to servers which Hearth does not have. A second run does the rest.
"""

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from hearth import config
from hearth.clients import backups, discovery
from hearth.clients.discovery import ClientServer
from hearth.clients.importer import planner
from hearth.clients.launcher import bridge_command
from hearth.clients.table import Table
from hearth.config import ServerSpec
from hearth.errors import ConfigError, HearthError, Refused
from hearth.host import install as installation
from hearth.host.install.service_files import Outcome as Units
from hearth.ops import connect_clients
from hearth.ops import import_servers as server_import
from hearth.ops.connect_clients import LeftAlone, Links, linked, newly_replaced, without_failed
from hearth.ops.import_servers import Gathered, Imported
from hearth.ops.tool_caller import Trial
from hearth.paths import Places

NO_SERVICE = "left out, as --no-service says"
BY_PATH = "left out: the daemon of a config that is given by its path is started by the first bridge"


class ServiceStep(NamedTuple):
    """Service step of a setup: the service manager's units, or the reason why there are none."""

    units: Units | None
    reason: str | None = None


class SetupPlan(NamedTuple):
    """Plan of a whole setup."""

    gathered: Gathered
    imports: planner.ImportPlan
    service: ServiceStep
    links: Links
    # Entries whose servers did not answer through Hearth, known after their trial.
    failed: Sequence[LeftAlone] = ()

    def left(self) -> list[planner.Left | LeftAlone]:
        """Return every entry that stays as it is, with the reason."""
        return [*self.imports.left, *self.failed]

    def tried(self, enabled: Container[str]) -> list[str]:
        """Return the servers to try: those that clients reach through a bridge, or are about to.

        A disabled server is tried only where it would replace an entry, which then stays.
        """
        replaced = [server for _, server in newly_replaced(self.links.plans, self.gathered.found)]
        names = [name for found, name in self.imports.links() if not found.disabled]
        names += [each.bridge_to for each in self.imports.bridges if each.bridge_to]
        return list(dict.fromkeys([*(name for name in names if name in enabled or name in replaced), *replaced]))

    def moved(self) -> list[ClientServer]:
        """Return the entries that bridges to Hearth have replaced in the changed files."""
        changed = {(each.table, change.name) for each in self.links.changed for change in each.changes}
        replaced = newly_replaced(self.links.plans, self.gathered.found)
        return [entry for entry, _ in replaced if (entry.table, entry.name) in changed]

    def is_done(self) -> bool:
        """Tell whether nothing is left to do."""
        units = self.service.units
        return not (self.imports.servers or (units and is_new(units)) or self.links.changed)


def is_new(units: Units) -> bool:
    """Tell whether a file of the service manager would change."""
    return bool(units.plan.write or units.plan.remove)


# --- service


def _plan_service(places: Places, wanted: bool) -> ServiceStep:
    """Plan the files that make the service manager hold the socket."""
    if not wanted:
        return ServiceStep(None, NO_SERVICE)
    if places.config:
        return ServiceStep(None, BY_PATH)
    try:
        units = installation.install(dry_run=True, profile=places.profile)
    except HearthError as exc:
        # Nothing can be installed here, or a file that is not Hearth's is in the way.
        return ServiceStep(None, str(exc))
    if units.manager_problem is not None:
        advice = "The first bridge starts the daemon; `hearth install` later, where it can be asked"
        return ServiceStep(None, f"left out, as {units.manager} cannot be asked: {units.manager_problem}. {advice}")
    return ServiceStep(units)


def install_service(places: Places, plan: SetupPlan) -> ServiceStep:
    """Make the service manager hold the socket, as planned. Raises HearthError if it refuses, or if files changed."""
    if plan.service.units is None:
        return plan.service
    now = installation.install(dry_run=True, profile=places.profile)
    if now.plan != plan.service.units.plan:
        raise Refused(f"files in {now.folder} were changed after the plan was shown")
    return ServiceStep(installation.install(profile=places.profile))


# --- clients


def _plan_links(places: Places, gathered: Gathered, imports: planner.ImportPlan, one: bool) -> Links:
    """Plan how to connect the clients after the import; change nothing."""
    names = {(found.table, found.name): name for found, name in imports.links()}
    servers = {**_configured(places), **{each.name: ServerSpec(name=each.name) for each in imports.servers}}

    def imported(table: Table, name: str) -> str | None:
        return names.get((table, name)) or backups.imported(table, name)

    plans = planned(gathered.found, gathered.tables, servers, imported, "one" if one else None) if servers else []
    return linked(plans, places, dry_run=True)


def planned(
    found: Iterable[ClientServer],
    tables: Iterable[Table],
    servers: Mapping[str, ServerSpec],
    imported: Callable[[Table, str], str | None],
    way: str | None,
) -> list[connect_clients.TablePlan]:
    """Return the plans for all tables, client by client."""
    by_client: dict[str, dict[Table, list[ClientServer]]] = {}
    for table in tables:
        by_client.setdefault(table.client, {})[table] = []
    for each in found:
        by_client[each.table.client][each.table].append(each)
    return [plan for mine in by_client.values() for plan in connect_clients.plans(mine, servers, imported, way)]


def connect(places: Places, plan: SetupPlan, trials: Iterable[Trial]) -> SetupPlan:
    """Connect the clients, except entries whose server failed its trial, and tables that changed."""
    changed = {each.table for each in plan.links.plans if _has_changed(each.table, plan.gathered)}
    kept = [each for each in plan.links.plans if each.table not in changed]
    plans, failed = without_failed(kept, plan.gathered.found, trials)
    done = linked(plans, places, dry_run=False)
    paths = dict.fromkeys(table.path for table in plan.gathered.tables if table in changed)
    done.problems.extend(f"{path}: its servers were changed after the plan was shown, so it is left" for path in paths)
    code = done.exit_code or (Refused.exit_code if changed else 0)
    return plan._replace(links=done._replace(exit_code=code), failed=failed)


def _has_changed(table: Table, gathered: Gathered) -> bool:
    """Tell whether a table has changed its entries since the plan was made.

    Only its entries are compared: clients keep writing state of their own into the same file.
    """
    try:
        now = {each.name: each.raw for each in discovery.read(table)}
    except ConfigError:
        # The connection reports the problem of the file.
        return False
    return now != {each.name: each.raw for each in gathered.found if each.table == table}


def _configured(places: Places) -> Mapping[str, ServerSpec]:
    return config.examine(places).config.servers


def enabled(places: Places) -> set[str]:
    """Return the servers that Hearth offers now."""
    return {name for name, spec in _configured(places).items() if not spec.disabled}


# --- the whole plan


def make(
    places: Places, gathered: Gathered, answers: server_import.Answers, *, disabled: bool, service: bool, one: bool
) -> SetupPlan:
    """Make the plan; change nothing. Raises ConfigError for a config with problems, and VaultError."""
    imports = server_import.plan(places, gathered.found, answers, disabled)
    return SetupPlan(gathered, imports, _plan_service(places, service), _plan_links(places, gathered, imports, one))


def import_servers(places: Places, plan: SetupPlan) -> Imported:
    """Import the planned servers, which is the first step. Raises HearthError, and then nothing is changed."""
    return server_import.carry_out(places, plan.imports)


def commands(places: Places, tables: Sequence[Table], names: Iterable[str]) -> dict[str, list[str]]:
    """Return the bridge command for each of these servers: that of the first client that has one, else our own."""
    found: dict[str, list[str]] = {}
    for each in (each for table in tables for each in discovery.readable(table)):
        if each.bridge_to and not each.disabled:
            found.setdefault(each.bridge_to, [each.entry["command"], *each.entry.get("args", [])])
    return {name: found.get(name) or bridge_command(places, ["--server", name]) for name in names}


def short(path: str, home: str) -> str:
    """Return a path as a person would write it."""
    return "~" + path[len(home) :] if path.startswith(home + os.sep) else path
