"""`hearth add`."""

import shlex
from collections.abc import Sequence
from typing import Any

import click

from hearth.cli import asking, config_changes
from hearth.cli.target import with_places
from hearth.config import editor
from hearth.errors import Refused
from hearth.ops import edit_config, import_servers
from hearth.paths import Places

Entry = dict[str, Any]


class Adding(click.Command):
    """Command that explains an unknown option: options of the server's command are easily mistaken for Hearth's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises click.UsageError with a hint for an unknown option, probably the server's own."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f"{error.format_message()} If it is for the server, put `--` before the server's command.", ctx
            ) from error


@click.command(cls=Adding, short_help="Put an MCP server into the config.")
@click.argument("name")
@click.argument("command", nargs=-1, metavar="[-- COMMAND [ARG]...]", type=click.UNPROCESSED)
@click.option("--url", metavar="URL", help="The address of a server that runs elsewhere, instead of a command.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable for the command.")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="An HTTP header for the URL.")
@click.option("--cwd", metavar="PATH", help="The folder that the command runs in.")
@click.option(
    "--isolation",
    type=click.Choice(["auto", "shared", "workspace", "session"]),
    help="Who shares a process of it.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any other key of a server's entry.")
@click.option("--force", is_flag=True, help="Add it although its program is not there.")
@click.option("--replace", is_flag=True, help="Put it in the place of the server that has this name.")
@click.option("--dry-run", is_flag=True, help="Show the lines that would change; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON, and ask nothing.")
@with_places
def add(
    places: Places,
    name: str,
    force: bool,
    replace: bool,
    dry_run: bool,
    as_json: bool,
    settings: tuple[str, ...],
    **options: Any,
) -> None:
    """Put an MCP server into the config. The file keeps its comments, its order and every other byte; one with mistakes
    is refused and stays as it is. A running daemon takes it up at once. Nothing is started or tried; but a command that
    is given by its path must be a program, unless --force is said.

    Values may refer to secrets that are kept elsewhere: ${keyring:NAME}, ${file:PATH}, ${env:NAME}. Quote them,
    or the shell takes them away.

    \b
    Examples:
      hearth add time -- uvx mcp-server-time
      hearth add github --env 'GITHUB_TOKEN=${keyring:github}' -- npx -y @modelcontextprotocol/server-github
      hearth add search --url https://example.com/mcp --header 'Authorization: Bearer ${keyring:search}'
      hearth add build --cwd ~/src --set call_timeout=60 --dry-run -- ./mcp-build
    """
    if not name.strip() or any(not character.isprintable() for character in name):
        raise click.UsageError("The name must not be empty, or have control characters in it.")
    entry = make_entry(settings=settings, **options)
    if not force and (problem := import_servers.program_problem(entry)):
        raise Refused(f"{problem}, and nothing was added: correct the path, or say --force to add it all the same")
    asks = asking.can_ask() and not as_json and not dry_run
    notes = import_servers.place_elsewhere(name, entry, asking.ask_to_store_secret if asks else None)
    replaced = False

    def make(data: bytes | None) -> bytes:
        nonlocal replaced
        path = places.config_file()
        replaced = name in edit_config.examined(path, data).config.servers
        if replaced and not replace:
            raise Refused(f"there is a server {name!r} in {path} already: say --replace, or choose another name")
        return editor.added(path, data, name, entry)

    changed = edit_config.change(places, make, dry_run)
    daemon = None if dry_run else edit_config.tell_daemon(places)
    about = [each for each in changed.warnings if f"server {name!r}" in each]
    words = shlex.join([name, *places.arguments()])
    # The replaced entry is lost: removing the new one does not restore it.
    undo = "" if replaced else f" Undo: `hearth remove {words}`."
    said = (f"{name} is in {changed.path}. {daemon}", f"Try it: `hearth call {words}`.{undo}")
    action = "replaced" if replaced else "added"
    edit = config_changes.ConfigEdit(places, dry_run, as_json)
    edit.show(action, name, changed._replace(warnings=about), daemon, notes, notes + about, *said)


# --- the entry


def make_entry(
    command: Sequence[str],
    url: str | None,
    variables: Sequence[str],
    headers: Sequence[str],
    settings: Sequence[str],
    **keys: str | None,
) -> Entry:
    """Return the entry from the options, with its keys in the usual order. Raises click.UsageError."""
    if bool(command) == bool(url):
        raise click.UsageError("Give either a command, behind `--`, or --url." + (" Not both." if url else ""))
    made: Entry = {"command": command[0], "args": list(command[1:])} if command else {"url": url}
    made["env"] = dict(_pair(each, "=", "--env", "NAME=VALUE") for each in variables)
    made["headers"] = dict(_pair(each, ":", "--header", "'NAME: VALUE'") for each in headers)
    made |= keys
    made = {key: value for key, value in made.items() if value not in (None, [], {})}
    for setting in settings:
        key, text = _pair(setting, "=", "--set", "KEY=VALUE")
        made[key] = config_changes.parse_setting(key, text)
    for key, value in made.items():
        config_changes.check_setting(key, value)
    return made


def _pair(text: str, separator: str, option: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name.strip():
        raise click.UsageError(f"{option} takes {form}, not {_shown(text)!r}.")
    return name.strip(), value.strip() if separator == ":" else value


def _shown(text: str) -> str:
    # Text without a separator may be a bare secret instead of a name and a value.
    return text if len(text) <= 12 else text[:4] + "…"
