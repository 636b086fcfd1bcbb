"""`hearth upstreams`."""

import time

import click

from hearth.cli.servers import server_names, upstream_lines
from hearth.cli.target import with_places
from hearth.control_client import running_daemon
from hearth.ops import server_states
from hearth.output import documents, terminal
from hearth.paths import Places


@click.command(short_help="List the MCP servers with their figures.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=server_names.complete_server)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array: `upstreams` of the status document.")
@with_places
def upstreams(places: Places, names: tuple[str, ...], as_json: bool) -> None:
    """List the MCP servers: state, processes, sessions that use them (USERS), calls in flight (BUSY), calls that
    ended and how many of these failed, the time that half of the last calls took at most (P50), and 95 of 100
    (P95), memory and restarts. Why one failed is said below. With a NAME, every instance of it is shown, too:
    servers are shared by all, by workspace or by nobody.

    Wakes nothing: with no daemon, it says what is configured, and what is known of it.

    \b
    Examples:
      hearth upstreams
      hearth upstreams github
      hearth upstreams --json | jq '.[] | select(.errors > 0).name'
    """
    _list(places, names, as_json)


@click.command(short_help="The same as `hearth upstreams`.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=server_names.complete_server)
@documents.json_option("Print a JSON array: `upstreams` of the status document.")
@with_places
def ls(places: Places, names: tuple[str, ...], as_json: bool) -> None:
    """List the MCP servers: a short name for `hearth upstreams`, with the same output and exit codes.

    Wakes nothing: with no daemon, it says what is configured, and what is known of it.

    \b
    Examples:
      hearth ls
      hearth ls github
      hearth ls --json | jq -r '.[].name'
    """
    _list(places, names, as_json)


def _list(places: Places, names: tuple[str, ...], as_json: bool) -> None:
    document = server_states.complete(places, running_daemon.document(places))
    found = server_states.described(places, document)
    server_names.check(names, (each["name"] for each in found), str(document.get("configPath")))
    chosen = [each for each in found if not names or each["name"] in names]
    if as_json:
        documents.show(chosen)
        return
    if not document.get("running"):
        click.echo(f"hearth is not running, so no server does. {document.get('lights', '')}".rstrip())
    if document.get("degraded"):
        click.echo(f"hearth cannot serve: {document['degraded']}")
    elif document.get("configError"):
        click.echo(f"The config cannot be used: {document['configError']}")
    if chosen:
        click.echo("\n".join(upstream_lines.lines(chosen, time.time(), terminal.width(), bool(names))))
    elif not document.get("configError"):
        click.echo("No MCP server is configured: `hearth add NAME -- COMMAND` adds one.")
