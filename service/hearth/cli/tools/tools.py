"""`hearth tools`: lists tools, or searches them, and is the group of the other verbs about tools."""

from typing import Any

import click

from hearth.cli import target
from hearth.cli.target import WholeNumber, with_places
from hearth.cli.tools.approve import approve
from hearth.cli.tools.block import block, unblock
from hearth.cli.tools.diff import diff
from hearth.errors import ConfigError
from hearth.ops import tool_catalog
from hearth.output import documents, table, terminal
from hearth.paths import Places

# A list that can be read at a glance.
FOUND_BY_DEFAULT = 10
# Longer than a query that is typed. A header has room for more, but the index ignores the rest.
QUERY_LIMIT_CHARACTERS = 1000
# Name of the command that runs a query. No typed word is empty, and any other word may begin a query.
_DEFAULT = ""


class QueryGroup(click.Group):
    """Group whose arguments are a query, unless the first one is the name of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with the unnamed query command in front if no command is named."""
        if not args and ctx.resilient_parsing:
            # Completion of the first word: the name of a command, or an option of a query.
            return super().parse_args(ctx, args)
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands that have a name."""
        return [name for name in super().list_commands(ctx) if name != _DEFAULT]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options with those of a query, for the help; the query command itself parses them."""
        options = [each for each in self.commands[_DEFAULT].params if isinstance(each, click.Option)]
        return [*options, *super().get_params(ctx)]


@click.group(cls=QueryGroup, short_help="List tools, or find them by a question.", subcommand_metavar="[QUERY]...")
def tools(**_: object) -> None:
    """List the tools of your servers, or those that fit a QUERY, best first: the ranking that agents get which search
    (`hearth bridge --mode search`).

    A running daemon is asked; with none, what servers offered when they last ran. Wakes nothing. Words that are a
    command's name below are that command; after `--` they are a query.

    \b
    Examples:
      hearth tools
      hearth tools open a pull request
      hearth tools --server github --limit 3 review
      hearth tools --json | jq -r '.[].name'
      hearth tools diff                what servers have changed in their tools since you first saw them
      hearth tools approve github      accept what has changed
      hearth tools block github__delete_repo
    """


@click.command("tools")
@click.argument("query", nargs=-1, metavar="[QUERY]...")
@click.option("--server", metavar="NAME", shell_complete=target.complete_server, help="Only of this server.")
@click.option("--limit", type=WholeNumber(1), metavar="N", help=f"At most N; {FOUND_BY_DEFAULT} with a QUERY.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, with full definitions.")
@with_places
def find(places: Places, query: tuple[str, ...], server: str | None, limit: int | None, as_json: bool) -> None:
    """List the tools of your servers, or those that fit a QUERY."""
    words = " ".join(query).strip()[:QUERY_LIMIT_CHARACTERS]
    if server is not None:
        _check_server(places, server)
    found = tool_catalog.current(places, words, server, limit or (FOUND_BY_DEFAULT if words else 0))
    if as_json:
        documents.show(found["tools"])
    else:
        click.echo("\n".join(lines(found, words, terminal.width())))


tools.commands[_DEFAULT] = find
tools.add_command(diff)
tools.add_command(approve)
tools.add_command(block)
tools.add_command(unblock)


def _check_server(places: Places, server: str) -> None:
    try:
        known = target.served(places)
    except ConfigError:
        return
    target.check_server_names([server], known, places.config_file())


def lines(found: dict[str, Any], query: str, width: int) -> list[str]:
    """Return the lines of the text output."""
    rows = [[tool["name"], _described(tool["definition"])] for tool in found["tools"]]
    shown = table.columns(["TOOL", "WHAT IT IS FOR"], rows, width) if rows else [_nothing(found, query)]
    left = found["fitting"] - len(rows)
    if left:
        shown += [
            "",
            f"{left} more fit less well: --limit shows them." if query else f"{left} more: --limit shows them.",
        ]
    if found["unknown"]:
        names = ", ".join(map(table.clean, found["unknown"]))
        shown += ["", f"Not known yet, because they have never run: the tools of {names}."]
    return shown


def _described(definition: dict[str, Any]) -> str:
    text = definition.get("description") or definition.get("title") or ""
    return " ".join(text.split()) if isinstance(text, str) else ""


def _nothing(found: dict[str, Any], query: str) -> str:
    if query:
        return "No tool fits that: try other words."
    return "No tool is known." if found["unknown"] else "No tool is known: `hearth upstreams` shows your servers."
