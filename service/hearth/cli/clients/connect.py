"""`hearth connect` and `hearth disconnect`."""

import os
from typing import Any

import click

from hearth import config
from hearth.bridge.options import MODES
from hearth.cli.clients import client_changes, import_
from hearth.cli.clients.import_ import Manner, with_manner
from hearth.cli.daemon_choice import with_places
from hearth.cli.messages import complain, note, print_json, styled, tell
from hearth.clients import backups, bridge_entries, discovery, hooks
from hearth.clients.bridge_entries import TableOutcome
from hearth.clients.discovery import ClientServer
from hearth.clients.launcher import bridge_command, client_config
from hearth.clients.table import KINDS, PROJECT, SCOPES, Table
from hearth.errors import ConfigError
from hearth.ops import connect_clients, tool_caller
from hearth.ops.connect_clients import NO_HOOKS, HookPlan, LeftAlone, TablePlan, linked
from hearth.ops.import_servers import title
from hearth.output import table, terminal
from hearth.output.terminal import Spinner
from hearth.paths import Places

_FOR_PRINT = {
    "servers": "--server",
    "name": "--name",
    "mode": "--mode",
    "role": "--role",
    "agent_id": "--agent-id",
}


@click.command(short_help="Connect MCP clients to Hearth.")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...", shell_complete=client_changes.complete_client)
@click.option("--all", "every", is_flag=True, help="Every client on this machine.")
@click.option("--each", "way", flag_value="each", help="Replace entries that Hearth serves; add none.")
@click.option("--one", "way", flag_value="one", help="Add one entry that offers every server; replace none.")
@click.option("--scope", type=click.Choice(SCOPES), help="Only these files. Those of a project are touched only so.")
@click.option("--hooks", "with_hooks", is_flag=True, help="Also have its hooks ask Hearth's policy.")
@click.option("--no-try", is_flag=True, help="Replace entries without trying their servers through Hearth first.")
@with_manner
@click.option("--print", "print_only", is_flag=True, help="Print an entry to paste; change nothing.")
@click.option("--server", "servers", multiple=True, metavar="NAME", help="With --print: offer only this server.")
@click.option("--name", metavar="KEY", help="With --print: the entry's name in the client.  [default: hearth]")
@click.option("--mode", type=click.Choice(MODES), help="With --print: how tools are offered.")
@click.option("--role", metavar="ROLE", help="With --print: the role that the agent claims.")
@click.option("--token-file", metavar="PATH", type=click.Path(dir_okay=False),
              help="With --print or --hooks: the file with its role token, from `hearth role token`.")  # fmt: skip
@click.option("--agent-id", metavar="ID", help="With --print: the id that the agent claims.")
@with_places
def connect(
    places: Places,
    clients: tuple[str, ...],
    every: bool,
    way: str | None,
    scope: str | None,
    with_hooks: bool,
    token_file: str | None,
    no_try: bool,
    manner: Manner,
    print_only: bool,
    **entry: Any,
) -> int:
    """Connect MCP clients to Hearth, in their own config files. Entries of servers that Hearth serves, too, give way to
    a bridge to that server, under the same name, so that tools keep their names; a client that has none gets one
    entry, `hearth`, that offers everything. Comments, order and every other byte stay; `hearth disconnect`
    brings back what was there. The change is shown first, without secrets. Each server is tried before its
    entry is replaced; an entry whose server does not answer through Hearth stays as it is, with the reason.

    Without a client it lists those that are on this machine. Files of a project (.mcp.json, .vscode/mcp.json and the
    like) are shared with others and are touched only with --scope project.

    With --hooks the client's own tools (Bash, Edit and so on) are held to the policy, too: Claude Code, Codex and
    Gemini CLI then run `hearth hook` before each of them. Without a policy.toml these hooks do nothing.

    With --print nothing is written: it prints the entry as most clients want it, as JSON. With --server that
    offers one server under its tools' own names; with --mode search the agent is given five tools that find,
    describe and call all others, with --mode auto only where there are many.

    \b
    Examples:
      hearth connect
      hearth connect claude-code cursor
      hearth connect --all --dry-run
      hearth connect codex --one --yes
      hearth connect claude-code --hooks
      hearth connect --print --server github --server time
      hearth connect --print --mode search
      hearth connect --print --token-file ~/.local/state/hearth/roles/mcp/dev.token
    """
    if print_only:
        _print(places, clients, every, {**entry, "token_file": token_file})
        return 0
    for name, option in _FOR_PRINT.items():
        if entry[name]:
            raise click.UsageError(f"{option} goes with --print.")
    if clients and every:
        raise click.UsageError("Name clients, or say --all: not both.")
    if token_file and not with_hooks:
        raise click.UsageError("--token-file goes with --print or --hooks.")
    if not clients and not every:
        return show_clients(manner.as_json)
    planned, found, problems = _plans(places, client_changes.check_names(clients), scope, way)
    code = ConfigError.exit_code if problems else 0
    hooked = _hooked(clients, planned, token_file) if with_hooks else NO_HOOKS
    links = linked(planned, places, True, hooked)
    left: list[LeftAlone] = []
    if not manner.dry_run and links.changed:
        if not manner.as_json:
            _show(links.outcomes)
        manner.ask_for_leave("Change it?", " to do it, or --dry-run to look", default=False)
        if not no_try:
            planned, left = _answering(places, planned, found)
        links = linked(planned, places, False, hooked)
    problems += [problem for problem in links.problems if problem not in problems]
    if manner.as_json:
        changes = [client_changes.document(outcome, "connected", manner.dry_run) for outcome in links.outcomes]
        stayed = [{**import_.place(each.found), "reason": each.reason} for each in left]
        print_json({"clients": changes, "left": stayed, "problems": problems})
    else:
        _say_left(left)
        _report(links.outcomes, manner.dry_run)
        complain(*problems)
    return code or links.exit_code


# --- plans


def _plans(
    places: Places, clients: list[str], scope: str | None, way: str | None
) -> tuple[list[TablePlan], list[ClientServer], list[str]]:
    """Return the plans of all clients, their entries, and problems. A broken file does not stop other clients."""
    servers = config.load(places).servers
    planned: list[TablePlan] = []
    entries: list[ClientServer] = []
    problems: list[str] = []
    folder = discovery.here()
    for client in clients or KINDS:
        tables = [each for each in discovery.tables(folder, [client]) if _is_meant(each, scope)]
        if not tables and clients:
            problems.append(discovery.NOWHERE if scope == PROJECT and folder is None else _absent(client, scope))
        found = {}
        for each in tables:
            try:
                found[each] = discovery.read(each)
            except ConfigError as exc:
                problems += exc.problems
        if found:
            planned += connect_clients.plans(found, servers, backups.imported, way)
            entries += [each for mine in found.values() for each in mine]
    return planned, entries, problems


def _hooked(clients: tuple[str, ...], planned: list[TablePlan], token_file: str | None) -> HookPlan:
    """Return the plan for hooks: of the named clients, or of all that are on this machine and have hooks."""
    for client in clients:
        if client not in hooks.HOOKED:
            message = f"{title(client)} has no hooks that Hearth knows"
            raise click.UsageError(f"{message}; --hooks is for {', '.join(hooks.HOOKED)}.")
    here = dict.fromkeys(plan.table.client for plan in planned)
    return HookPlan(hooks.tables(list(here)), token_file and os.path.abspath(os.path.expanduser(token_file)))


def _answering(
    places: Places, planned: list[TablePlan], found: list[ClientServer]
) -> tuple[list[TablePlan], list[LeftAlone]]:
    """Try the servers of the entries to replace; return the plans and the entries to leave alone."""
    servers = dict.fromkeys(server for _, server in connect_clients.newly_replaced(planned, found))
    commands = {server: bridge_command(places, ["--server", server]) for server in servers}
    with Spinner("trying the servers") as spinner:
        return connect_clients.without_failed(planned, found, tool_caller.try_all(places, commands, spinner.tell))


def _is_meant(where: Table, scope: str | None) -> bool:
    return where.scope == scope if scope else where.scope != PROJECT


def _absent(client: str, scope: str | None) -> str:
    if scope == PROJECT:
        return f"{title(client)} has no file of its own in this project"
    if scope:
        return f"{title(client)} has no servers of scope {scope}"
    return f"{title(client)} was not found on this machine: neither its command nor a folder of its settings"


# --- reports


def _show(outcomes: list[TableOutcome]) -> None:
    for outcome in outcomes:
        for line in client_changes.shown(outcome):
            click.echo(styled(line))


def _show_all(outcomes: list[TableOutcome], dry_run: bool) -> None:
    """Print the diffs of a dry run, and the notes."""
    if dry_run:
        _show(outcomes)
    for outcome in outcomes:
        note(*(f"{title(outcome.table.client)}: {each}" for each in outcome.notes))


def _say_left(left: list[LeftAlone]) -> None:
    for each in left:
        note(table.clean(f"{title(each.found.table.client)}: {each.found.name} stays as it is: {each.reason}"))
    if left:
        click.echo("Mend the servers and connect again; --no-try replaces their entries all the same.", err=True)


def _report(outcomes: list[TableOutcome], dry_run: bool) -> None:
    _show_all(outcomes, dry_run)
    changed = [outcome for outcome in outcomes if outcome.changes]
    for outcome in changed:
        if outcome.table.scope == PROJECT:
            note(f"{outcome.table.path} is shared with others, and has paths of this machine in it now")
    if dry_run:
        click.echo(f"{len(changed)} of {len(outcomes)} would change." if changed else "Nothing would change.")
        return
    for outcome in changed:
        names = client_changes.enumeration(change.name for change in outcome.changes)
        click.echo(f"{title(outcome.table.client)} is connected: {names} in {outcome.table.path}.")
    if changed:
        clients = " ".join(dict.fromkeys(outcome.table.client for outcome in changed))
        click.echo(f"Restart your clients to pick up the change. Undo: `hearth disconnect {clients}`.")
    elif outcomes:
        click.echo("Nothing had to be changed.")


# --- printing


def _print(places: Places, clients: tuple[str, ...], every: bool, entry: dict[str, Any]) -> None:
    if clients or every:
        raise click.UsageError("With --print nothing is written, so no client can be named.")
    _note_unknown(places, entry["servers"])
    extra = [word for key in ("mode", "role", "agent_id") if entry[key] for word in (_FOR_PRINT[key], entry[key])]
    if entry["token_file"]:
        # The client starts the bridge in a folder of its own choice.
        extra += ["--token-file", os.path.abspath(os.path.expanduser(entry["token_file"]))]
    print_json(client_config(places, entry["servers"], entry["name"] or bridge_entries.WHOLE, extra))


def _note_unknown(places: Places, servers: tuple[str, ...]) -> None:
    """Note servers that are not configured. Their entries are printed all the same: a server may be added later."""
    if not servers:
        return
    try:
        known = config.load(places).servers
    except ConfigError:
        # A config with mistakes says nothing reliable; `hearth config check` reports them.
        return
    for server in servers:
        if server not in known:
            click.echo(f"hearth: note: no server {server!r} is configured in {places.config_file()}.", err=True)


# --- list of clients


def show_clients(as_json: bool) -> int:
    """Print the clients on this machine."""
    rows = [_client_row(each) for each in discovery.tables(discovery.here())]
    cells = [[row["client"], row["scope"], row["path"], _client_state(row)] for row in rows]
    lines = table.columns(["CLIENT", "SCOPE", "FILE", "STATE"], cells, terminal.width())
    step = "`hearth connect CLIENT` connects one, `hearth connect --all` every one; files of a project with --scope."
    nothing = "No MCP client was found on this machine. `hearth connect --print` prints what to give to any."
    tell(as_json, rows, *([*lines, "", step] if rows else [nothing]))
    return 0


def _client_row(each: Table) -> dict[str, Any]:
    row: dict[str, Any] = {"client": each.client, "scope": each.scope, "path": each.path, "keys": list(each.keys)}
    try:
        found = discovery.read(each)
    except ConfigError as exc:
        return row | {"error": str(exc), "connected": [], "others": []}
    return row | {"error": None, "connected": _entry_names(found, True), "others": _entry_names(found, False)}


def _entry_names(found: list[ClientServer], ours: bool) -> list[str]:
    return [entry.name for entry in found if (entry.bridge_to is not None) == ours]


def _client_state(row: dict[str, Any]) -> str:
    if row["error"]:
        return str(row["error"]).removeprefix(f"{row['path']}:").strip()
    connected, others = row["connected"], row["others"]
    if not connected:
        return f"not connected ({len(others)} of its own)" if others else "not connected"
    return f"connected: {client_changes.enumeration(connected)}" + (f" ({len(others)} of its own)" if others else "")


@click.command(short_help="Bring MCP clients' files back.")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...", shell_complete=client_changes.complete_client)
@click.option("--all", "every", is_flag=True, help="Every client that is connected.")
@click.option("--below", metavar="FOLDER", help="With --all: only entries that start a program below FOLDER.")
@click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def disconnect(clients: tuple[str, ...], every: bool, below: str | None, dry_run: bool, as_json: bool) -> int:
    """Undo `hearth connect`: a client's file becomes what it was, byte for byte. If the client has saved it since,
    only Hearth's entries give way to what was there before, and the rest stays. An entry that somebody has changed
    meanwhile is left, and said. A file that was made for it is removed. An entry that somebody has removed is
    not brought back; the file as it was is then kept, and its place is said.

    Servers that were imported stay in Hearth's config.

    \b
    Examples:
      hearth disconnect cursor
      hearth disconnect --all --dry-run
      hearth disconnect --all
    """
    names = client_changes.check_names(clients)
    if below is not None and not every:
        raise click.UsageError("--below goes with --all: name clients, or say --all.")
    connected = bridge_entries.connected() if below is None else connect_clients.connected_below(below)
    if bool(names) == every:
        there = client_changes.enumeration(dict.fromkeys(each.client for each in connected)) if connected else "none"
        raise click.UsageError(f"Name clients, or say --all. Connected: {there}.")
    # The client of a damaged trace is unknown: the trace may belong to any client that was named and not found.
    damaged = bridge_entries.damaged()
    known = {each.client for each in connected}
    absent = [name for name in names if name not in known]
    is_in_the_way = every or bool(absent)
    chosen = (table for table in connected if every or table.client in names)
    done = connect_clients.restored(Places(), chosen, dry_run)
    problems = (damaged if is_in_the_way else []) + done.problems
    code = ConfigError.exit_code if is_in_the_way and damaged else done.exit_code
    if as_json:
        changes = [client_changes.document(outcome, "disconnected", dry_run) for outcome in done.outcomes]
        print_json({"clients": changes, "problems": problems})
    else:
        report_restored(done.outcomes, dry_run)
        for name in absent:
            click.echo(f"{title(name)} is not connected.")
        complain(*problems)
        note(*(damaged if not is_in_the_way else ()))
    return code


def report_restored(outcomes: list[TableOutcome], dry_run: bool) -> None:
    """Print the diff of a dry run, or each client file that was restored; and the notes."""
    _show_all(outcomes, dry_run)
    for outcome in outcomes:
        if outcome.changes and not dry_run:
            click.echo(f"{title(outcome.table.client)} is disconnected: {_deed(outcome)}.")
    if not outcomes:
        click.echo("Nothing had to be undone.")


def _deed(outcome: TableOutcome) -> str:
    if outcome.is_removed:
        return f"{outcome.table.path} was made for it, and is removed"
    names = client_changes.enumeration(change.name for change in outcome.changes)
    exactly = ", every byte as it was" if outcome.is_exact else ""
    return f"{names} in {outcome.table.path}{exactly}"
