"""`hearth tools block` and `hearth tools unblock`."""

from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from hearth.cli import target
from hearth.cli.config import change
from hearth.cli.target import with_places
from hearth.config import ServerSpec, editor
from hearth.config.schema import PACKS_KEY, SERVERS
from hearth.config.spelling import nearest
from hearth.mcp import catalog
from hearth.ops import edit_config, tool_catalog
from hearth.output import documents
from hearth.paths import Places

_KEY = "blocked_tools"


class NamedTool(NamedTuple):
    """Tool of a server, by the server's own name for it."""

    server: str
    name: str


def _complete_known(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    places = target.places_of(ctx)
    # Only the catalog cache is read: completion does not ask the daemon.
    found = tool_catalog.document(places, "", None, 0)["tools"] if places else []
    return [CompletionItem(each["name"]) for each in found if each["name"].startswith(incomplete)]


def _complete_blocked(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    places = target.places_of(ctx)
    found = _blocked(target.served(places)) if places else {}
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


@click.command(short_help="Hide a tool from every client.")
@click.argument("name", shell_complete=_complete_known)
@click.option("--dry-run", is_flag=True, help="Show the lines that would change; change nothing.")
@documents.json_option()
@with_places
def block(places: Places, name: str, dry_run: bool, as_json: bool) -> None:
    """Hide a tool from every client: it is in no list and in no search, and a call of it is refused. NAME is the name
    that `hearth tools` shows. It is written into the server's entry in the config, as `blocked_tools`; a running
    daemon takes it up at once and tells the clients.

    Exits with 0 also if it is blocked already, with 2 if there is no such tool.

    \b
    Examples:
      hearth tools block github__delete_repo
      hearth tools block github__delete_repo --dry-run
      hearth config get mcpServers.github.blocked_tools
    """
    tool = _blocked(target.served(places)).get(name) or _known(places, name)
    _change(places, name, tool, True, dry_run, as_json)


@click.command(short_help="Offer a blocked tool again.")
@click.argument("name", shell_complete=_complete_blocked)
@click.option("--dry-run", is_flag=True, help="Show the lines that would change; change nothing.")
@documents.json_option()
@with_places
def unblock(places: Places, name: str, dry_run: bool, as_json: bool) -> None:
    """Offer a tool again that `hearth tools block` has hidden. Exits with 2 if no tool of that name is blocked.

    \b
    Examples:
      hearth tools unblock github__delete_repo
    """
    blocked = _blocked(target.served(places))
    if name not in blocked:
        known = f" Blocked: {', '.join(blocked)}." if blocked else " No tool is blocked."
        raise click.UsageError(f"Tool {name!r} is not blocked.{known}")
    _change(places, name, blocked[name], False, dry_run, as_json)


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
    near = nearest(name, list(tools))
    hint = f"Did you mean {near!r}?" if near else "`hearth tools` lists those that are known."
    raise click.UsageError(f"There is no tool {name!r}. {hint}")


def _change(places: Places, name: str, tool: NamedTool, blocks: bool, dry_run: bool, as_json: bool) -> None:
    path = places.config_file()

    def make(data: bytes | None) -> bytes:
        found = edit_config.examined(path, data).config
        servers = found.served
        target.check_server_names([tool.server], servers, path)
        assert data is not None
        former = servers[tool.server].blocked_tools
        wanted = [*(each for each in former if each != tool.name), *([tool.name] if blocks else [])]
        if sorted(wanted) == sorted(former):
            return data
        at = (PACKS_KEY if tool.server in found.packs else SERVERS, tool.server, _KEY)
        return editor.assigned(path, data, at, wanted) if wanted else editor.unassigned(path, data, at)

    action = "blocked" if blocks else "unblocked"
    change.apply_change(places, name, action, make, dry_run, as_json)
