"""`hearth reload`."""

import click

from hearth.cli import asking
from hearth.cli.target import with_places
from hearth.control_client import running_daemon
from hearth.errors import ConfigError
from hearth.output import documents
from hearth.paths import Places


@click.command(short_help="Read the config again.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask, whoever is attached.")
@documents.json_option()
@with_places
def reload(places: Places, yes: bool, as_json: bool) -> None:
    """Have the daemon read its config again. A config with a mistake in it is refused as a whole: the old
    one goes on, the mistakes are printed and the exit code is 2. Calls in flight finish under the old one.

    \b
    Examples:
      hearth config check && hearth reload
      hearth reload --yes
      hearth reload --yes --json | jq .reloaded
    """
    daemon = running_daemon.find(places)
    if daemon is None:
        _say(as_json, False, "hearth is not running: it reads the config when it is lit.")
        return
    with daemon.control() as control:
        asking.ask_about_sessions(control, "reload", yes, as_json)
        ok, message = control.reload()
    if not ok:
        raise ConfigError(message.splitlines() or ["the daemon refused the config and did not say why"])
    _say(as_json, True, message or "Reloaded.")


def _say(as_json: bool, reloaded: bool, message: str) -> None:
    if as_json:
        documents.show({"reloaded": reloaded, "message": message})
    else:
        click.echo(message)
