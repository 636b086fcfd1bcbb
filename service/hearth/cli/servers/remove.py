"""`hearth remove`."""

from collections.abc import Iterable

import click

from hearth.cli import target
from hearth.cli.config import change
from hearth.cli.target import with_places
from hearth.config import ServerSpec, editor
from hearth.errors import VaultError
from hearth.ops import edit_config
from hearth.output import documents, table
from hearth.paths import Places
from hearth.secrets import references
from hearth.secrets.vault import Vault


@click.command(short_help="Take an MCP server out of the config.")
@click.argument("name", shell_complete=target.complete_server)
@click.option("--dry-run", is_flag=True, help="Show the lines that would change; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@with_places
def remove(places: Places, name: str, dry_run: bool, as_json: bool) -> None:
    """Take an MCP server out of the config. The rest of the file stays as it is, comments above the entry included; one
    with mistakes is refused. A running daemon takes it up at once, and lets the server's calls in flight
    finish. To leave a server out for a while, use `hearth disable` instead.

    \b
    Examples:
      hearth remove time
      hearth remove time --dry-run
    """

    servers: dict[str, ServerSpec] = {}

    def make(data: bytes | None) -> bytes:
        nonlocal servers
        path = places.config_file()
        servers = dict(edit_config.examined(path, data).config.servers)
        target.check_server_names([name], servers, path)
        assert data is not None
        return editor.removed(path, data, name)

    changed = edit_config.change(places, make, dry_run)._replace(warnings=[])
    daemon = None if dry_run else edit_config.tell_daemon(places)
    notes = _left_over(servers.pop(name), servers.values())
    if as_json:
        document = change.document("removed", name, changed, dry_run, notes, daemon)
        documents.show(document)
    elif dry_run:
        click.echo("\n".join(change.diff(changed)))
    else:
        click.echo(table.clean(f"{name} is no longer in {changed.path}. {daemon}"))
        for note in notes:
            click.echo(f"{note[:1].upper()}{note[1:]}.")


def _left_over(removed: ServerSpec, others: Iterable[ServerSpec]) -> list[str]:
    """Return notes on the stored secrets that only the removed server referred to."""
    unused = references.secret_names(removed).difference(*map(references.secret_names, others))
    try:
        stored = Vault("secrets").entries() if unused else {}
    except VaultError:
        return []  # the removal is done; `hearth doctor` reports a damaged vault
    return [
        f"no server refers to the secret {secret!r} any more, and it is still kept: `hearth secret remove {secret}`"
        for secret in sorted(unused & stored.keys())
    ]
