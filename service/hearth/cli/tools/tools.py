"""`hearth tools`: lists tools or searches them, hides and shows them, and is the group of other verbs about tools."""

from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from hearth.cli import config_changes, daemon_choice
from hearth.cli.config_changes import ConfigEdit
from hearth.cli.daemon_choice import WholeNumber, with_places
from hearth.cli.messages import completed, suggestion, tell
from hearth.cli.tools.pinned import approve, diff
from hearth.config import ServerSpec, editor
from hearth.config.schema import PACKS_KEY, SERVERS
from hearth.errors import ConfigError
from hearth.mcp import catalog
from hearth.ops import edit_config, tool_catalog
from hearth.output import table, terminal
from hearth.paths import Places

# A list that can be read at a glance.
FOUND_BY_DEFAULT = 10
# Longer than a query that is typed. A header has room for more, but the index ignores the rest.
QUERY_LIMIT_CHARACTERS = 1000
# Name of the command that runs a query. No typed word is empty, and any other word may begin a query.
_DEFAULT = ""
_KEY = "blocked_tools"


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
@click.option("--server", metavar="NAME", shell_complete=daemon_choice.complete_server, help="Only of this server.")
@click.option("--limit", type=WholeNumber(1), metavar="N", help=f"At most N; {FOUND_BY_DEFAULT} with a QUERY.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, with full definitions.")
@with_places
def find(places: Places, query: tuple[str, ...], server: str | None, limit: int | None, as_json: bool) -> None:
    """List the tools of your servers, or those that fit a QUERY."""
    words = " ".join(query).strip()[:QUERY_LIMIT_CHARACTERS]
    if server is not None:
        _check_server(places, server)
    found = tool_catalog.current(places, words, server, limit or (FOUND_BY_DEFAULT if words else 0))
    tell(as_json, found["tools"], *lines(found, words, terminal.width()))


def _check_server(places: Places, server: str) -> None:
    try:
        known = daemon_choice.served(places)
    except ConfigError:
        return
    daemon_choice.check_server_names([server], known, places.config_file())


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


# --- block and unblock


class NamedTool(NamedTuple):
    """Tool of a server, by the server's own name for it."""

    server: str
    name: str


def _complete_known(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    places = daemon_choice.places_of(ctx)
    # Only the catalog cache is read: completion does not ask the daemon.
    found = tool_catalog.document(places, "", None, 0)["tools"] if places else []
    return completed((each["name"] for each in found), incomplete)


def _complete_blocked(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    places = daemon_choice.places_of(ctx)
    found = _blocked(daemon_choice.served(places)) if places else {}
    return completed(found, incomplete)


@click.command(short_help="Hide a tool from every client.")
@click.argument("name", shell_complete=_complete_known)
@config_changes.with_edit
def block(edit: ConfigEdit, name: str) -> None:
    """Hide a tool from every client: it is in no list and in no search, and a call of it is refused. NAME is the name
    that `hearth tools` shows. The name is written into the server's entry in the config, as `blocked_tools`; a running
    daemon takes it up at once and tells the clients.

    Exits with 0 also if it is blocked already, with 2 if there is no such tool.

    \b
    Examples:
      hearth tools block github__delete_repo
      hearth tools block github__delete_repo --dry-run
      hearth config get mcpServers.github.blocked_tools
    """
    tool = _blocked(daemon_choice.served(edit.places)).get(name) or _known(edit.places, name)
    _change(edit, name, tool, True)


@click.command(short_help="Offer a blocked tool again.")
@click.argument("name", shell_complete=_complete_blocked)
@config_changes.with_edit
def unblock(edit: ConfigEdit, name: str) -> None:
    """Offer a tool again that `hearth tools block` has hidden. Exits with 2 if no tool of that name is blocked.

    \b
    Examples:
      hearth tools unblock github__delete_repo
    """
    blocked = _blocked(daemon_choice.served(edit.places))
    if name not in blocked:
        known = f" Blocked: {', '.join(blocked)}." if blocked else " No tool is blocked."
        raise click.UsageError(f"Tool {name!r} is not blocked.{known}")
    _change(edit, name, blocked[name], False)


def _blocked(servers: dict[str, ServerSpec]) -> dict[str, NamedTool]:
    """Return the blocked tools by the names that clients would see them under."""
    tools = [NamedTool(spec.name, tool) for spec in servers.values() for tool in spec.blocked_tools]
    return {catalog.prefixed_name(*tool): tool for tool in tools}


def _known(places: Places, name: str) -> NamedTool:
    """Return the tool of a name. Raises click.UsageError for a tool that no server is known to have."""
    found = tool_catalog.current(places, "", None, 0)
    tools = {each["name"]: NamedTool(each["server"], each["tool"]) for each in found["tools"]}
    if name in tools:
        return tools[name]
    for server in found["unknown"]:
        # The server's tools are not known yet: the name is accepted as it is.
        if name.startswith(catalog.name_prefix(server)):
            return NamedTool(server, name.removeprefix(catalog.name_prefix(server)))
    hint = suggestion(name, tools, "`hearth tools` lists those that are known.")
    raise click.UsageError(f"There is no tool {name!r}. {hint}")


def _change(edit: ConfigEdit, name: str, tool: NamedTool, blocks: bool) -> None:
    path = edit.path

    def make(data: bytes | None) -> bytes:
        found = edit_config.examined(path, data).config
        servers = found.served
        daemon_choice.check_server_names([tool.server], servers, path)
        assert data is not None
        former = servers[tool.server].blocked_tools
        wanted = [*(each for each in former if each != tool.name), *([tool.name] if blocks else [])]
        if sorted(wanted) == sorted(former):
            return data
        at = (PACKS_KEY if tool.server in found.packs else SERVERS, tool.server, _KEY)
        return editor.assigned(path, data, at, wanted) if wanted else editor.unassigned(path, data, at)

    edit.value(name, "blocked" if blocks else "unblocked", make)


tools.commands[_DEFAULT] = find
for _command in (diff, approve, block, unblock):
    tools.add_command(_command)
