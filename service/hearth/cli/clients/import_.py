"""`hearth import`."""

import functools
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from hearth.cli.clients import client_changes
from hearth.cli.daemon_choice import Verb, with_places
from hearth.cli.messages import ask_for_input, can_ask, confirm, json_option, note, print_json, suggestion
from hearth.clients.discovery import ClientServer
from hearth.clients.importer.planner import ImportedServer, ImportPlan
from hearth.clients.table import KINDS, SCOPES
from hearth.errors import ConfigError, Refused
from hearth.mcp.isolation import Mode
from hearth.ops import import_servers
from hearth.ops.import_servers import ALL, Answers, Gathered, origin
from hearth.output import table, terminal
from hearth.output.terminal import Spinner
from hearth.paths import Places

WAITING = "looking at your clients; a keyring may want to be unlocked"
# Isolation modes, as shown to the user.
MODES: dict[Mode, str] = {"shared": "one for all", "workspace": "one per folder", "session": "one per session"}
_INDENT = "  "


class Manner(NamedTuple):
    """Mode of a run: the options `--dry-run`, `--yes` and `--json`."""

    dry_run: bool
    yes: bool
    as_json: bool

    @property
    def can_ask(self) -> bool:
        """Whether a user is at a terminal, and no option forbids questions."""
        return can_ask() and not (self.yes or self.as_json or self.dry_run)

    def ask_for_leave(self, question: str, advice: str, default: bool = True) -> None:
        """Ask the user to confirm; without a terminal, only --yes does. Raises Refused for a no, and click.Abort."""
        if self.can_ask:
            if not confirm(question, default):
                raise Refused("nothing was done")
        elif not self.yes:
            reason = "with --json nobody is asked" if self.as_json else "there is no terminal to ask at"
            raise Refused(f"nothing was done, as {reason}: say --yes{advice}")


def client_options(function: Verb) -> Verb:
    """Add the options that select clients and their files."""
    client = click.option(
        "--client", "clients", multiple=True, type=click.Choice(list(KINDS)), metavar="NAME", help="Only this client."
    )
    scope = click.option(
        "--scope",
        "scopes",
        multiple=True,
        type=click.Choice([*SCOPES, ALL]),
        help="Whose servers: yours everywhere (user), yours in one project (local), everybody's in the project"
        " of this folder (project). Without it, user and local.",
    )
    disabled = click.option("--disabled", is_flag=True, help="Also servers that are switched off in the client.")
    return client(scope(disabled(function)))


def with_manner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--dry-run`, `--yes` and `--json` to a verb, and pass it `manner` instead of them."""

    @click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing, ask nothing.")
    @click.option("--yes", "-y", is_flag=True, help="Do not ask.")
    @json_option("Print what was found and done as JSON; asks nothing, so say --yes.")
    @functools.wraps(function)
    def verb(*arguments: Any, dry_run: bool, yes: bool, as_json: bool, **options: Any) -> Any:
        return function(*arguments, manner=Manner(dry_run, yes, as_json), **options)

    return verb


@click.command("import", short_help="Take over the servers of your MCP clients.")
@click.argument("targets", nargs=-1, metavar="[CLIENT | FILE]...", shell_complete=client_changes.complete_client)
@client_options
@with_manner
@with_places
def import_(
    places: Places,
    targets: tuple[str, ...],
    clients: tuple[str, ...],
    scopes: tuple[str, ...],
    disabled: bool,
    manner: Manner,
) -> None:
    """Take over the servers of MCP clients into Hearth's config, or those of a file: mcpServers JSON, VS Code's
    mcp.json, Codex's TOML. The clients' files are only read; `hearth connect` then points the clients at Hearth.

    The same server in several clients becomes one. Tokens go where `hearth secret` keeps them, and the config
    gets references. Variables are resolved in this shell, as the service does not see it. The output says who
    shares each server, with the reason.

    \b
    Examples:
      hearth import --dry-run             what would come of all clients
      hearth import claude-code codex
      hearth import ~/old/mcp.json
      hearth import --scope project       the servers of this folder's project
    """
    named, files = _split_targets(targets)
    found = _gather([*clients, *named], files, scopes, places.config_file())
    answers = Answers(None, is_later=manner.can_ask or manner.dry_run)
    with Spinner(WAITING):
        made = import_servers.plan(places, found.found, answers, disabled)
    if not manner.as_json:
        note(*(f"{problem}; its servers are left out" for problem in found.problems))
        lines = plan_lines(made, places.config_file(), terminal.width())
        click.echo("\n".join(lines) or nothing_found(found))
        if not files:
            say_more([*clients, *named], scopes, answers)
    if manner.dry_run or not made.links():
        _finish(made, None, places, manner.as_json)
        return
    if manner.can_ask or made.servers:
        manner.ask_for_leave("Import them?", ", or --dry-run to look only")
    if manner.can_ask:
        made = import_servers.plan(places, found.found, Answers(ask_for_input), disabled)
    with Spinner("storing"):
        done = import_servers.carry_out(places, made)
    _finish(made, done, places, manner.as_json)


def _split_targets(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split arguments into clients and files. Raises click.UsageError for one that is neither."""
    clients, files = [], []
    for word in words:
        if word in KINDS:
            clients.append(word)
        elif os.path.exists(word) or os.sep in word or word.endswith((".json", ".jsonc", ".toml")):
            files.append(word)
        else:
            hint = suggestion(word, KINDS, f"Known: {', '.join(KINDS)}.")
            raise click.UsageError(f"{word!r} is neither a client nor a file. {hint}")
    return clients, files


def _gather(clients: list[str], files: list[str], scopes: tuple[str, ...], own: str) -> Gathered:
    if not files:
        found = import_servers.gather(clients, scopes, own)
        if found.problems and not found.tables:
            raise ConfigError(found.problems)
        return found
    parts = [import_servers.gather_file(path) for path in files]
    if clients:
        parts.append(import_servers.gather(clients, scopes, own))
    return Gathered(
        [table for part in parts for table in part.tables],
        [found for part in parts for found in part.found],
        [problem for part in parts for problem in part.problems],
    )


def say_more(clients: Sequence[str], scopes: Sequence[str], answers: Answers) -> None:
    """Print which inputs will be asked for, and which files were not read."""
    if answers.pending:
        click.echo(f"To be asked for: {', '.join(table.clean(each.description) for each in answers.pending)}.")
    for path in import_servers.left_out(clients, scopes):
        click.echo(f"{path} is this project's, and others': left out without --scope project.")


def nothing_found(found: Gathered) -> str:
    """Return the message for a search that found no server."""
    if found.tables:
        names = ", ".join(import_servers.title(client) for client in found.clients())
        return f"No server was found in {names}."
    return f"No MCP client was found; looked for {', '.join(kind.title for kind in KINDS.values())}."


def _finish(made: ImportPlan, done: import_servers.Imported | None, places: Places, as_json: bool) -> None:
    if as_json:
        document = as_document(made, places.config_file())
        document["imported"] = done is not None
        document["daemon"] = done.daemon if done else None
        print_json(document)
        return
    if done is None:
        return
    if done.changed:
        click.echo(f"{len(made.servers)} added to {done.changed.path}. {done.daemon}")
        if done.secrets_in:
            click.echo(f"Secrets are kept in {done.secrets_in}.")
        words = shlex.join(["hearth", "remove", "NAME", *places.arguments()])
        click.echo(f"`{words}` takes one out again.")
    clients = dict.fromkeys(found.table.client for found, _ in made.links() if found.table.client in KINDS)
    if clients:
        words = shlex.join(["hearth", "connect", *clients, *places.arguments()])
        click.echo(f"The clients still start their own; `{words}` points them at Hearth.")


# --- text and document


def plan_lines(plan: ImportPlan, path: str, width: int) -> list[str]:
    """Return the lines of the plan, in groups; empty groups are left out."""
    notes = [f"{each.name}: {text}" for each in plan.servers for text in each.notes]
    notes += [f"{each.name}: {text}" for each in plan.matched for text in each.notes]
    bridges = by_client((found, "") for found in plan.bridges)
    secrets = [f"{name} ({', '.join(each.servers)})" for name, each in plan.secrets.items()]
    sections = {
        "Hearth has already:": [f"{match.name} ({_origins(match.sources)})" for match in plan.matched],
        "Bridges to Hearth already:": [f"{where}: {names}" for where, names, _ in bridges],
        "Kept as secrets, with only a reference in the config:": secrets,
        "Left where they are:": [f"{where}: {names}: {reason}" for where, names, reason in by_client(plan.left)],
        "To know:": notes,
    }
    lines = _servers(plan.servers, path, width)
    for heading, said in sections.items():
        lines += [heading, *(_INDENT + table.clean(line) for line in said)] if said else []
    return lines


def _servers(servers: Sequence[ImportedServer], path: str, width: int) -> list[str]:
    if not servers:
        return []
    rows = [(each.name, f"{MODES[each.mode]} ({each.reason})", f"from {_origins(each.sources)}") for each in servers]
    # The headers are left out: they would add nothing to the cells.
    lines = table.columns(("", "", ""), rows, width - len(_INDENT))[1:]
    said = [(_INDENT + line, _INDENT * 3 + started(each.entry)) for line, each in zip(lines, servers, strict=True)]
    return [f"To be added to {path}:", *(line for pair in said for line in pair)]


def started(entry: Mapping[str, Any]) -> str:
    """Return the full command line or address of an entry: a truncated part could be the hostile one.

    Secrets are references at this point. Unprintable characters are shown as escapes.
    """
    if entry.get("url"):
        return visible(entry["url"])
    variables = [f"{name}={value}" for name, value in entry.get("env", {}).items()]
    words = shlex.join([*variables, entry["command"], *entry.get("args", [])])
    return visible(f"{words} (in {entry['cwd']})" if entry.get("cwd") else words)


def visible(text: str) -> str:
    """Escape the characters of a text that a terminal would interpret or not show."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _origins(sources: Iterable[ClientServer]) -> str:
    return ", ".join(dict.fromkeys(map(origin, sources)))


def by_client(entries: Iterable[tuple[ClientServer, str]]) -> list[tuple[str, str, str]]:
    """Group the entries of a client that share a phrase. Return tuples of client, entry names and phrase."""
    groups: dict[tuple[str, str], list[str]] = {}
    for found, said in entries:
        groups.setdefault((origin(found), said), []).append(found.name)
    return [(where, ", ".join(dict.fromkeys(names)), said) for (where, said), names in groups.items()]


def as_document(plan: ImportPlan, path: str) -> dict[str, Any]:
    """Return the plan as a JSON document."""
    return {
        "config": path,
        "servers": [
            {
                "name": each.name,
                "entry": each.entry,
                "isolation": each.mode,
                "reason": each.reason,
                "from": list(map(place, each.sources)),
                "secrets": each.secrets,
                "notes": each.notes,
            }
            for each in plan.servers
        ],
        "present": [
            {"name": each.name, "from": list(map(place, each.sources)), "notes": each.notes} for each in plan.matched
        ],
        "bridges": list(map(place, plan.bridges)),
        "left": [{**place(each.found), "reason": each.reason} for each in plan.left],
        "secrets": [
            {"name": name, "servers": each.servers, "stored": not each.is_new} for name, each in plan.secrets.items()
        ],
    }


def place(found: ClientServer) -> dict[str, Any]:
    """Return the location of an entry as a JSON document."""
    where = found.table
    return {key: getattr(where, key) for key in ("client", "path", "scope", "folder")} | {"name": found.name}
