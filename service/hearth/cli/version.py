"""`hearth version`."""

import json
import platform
import sys

import click

from hearth import __version__
from hearth.wire.frames import PROTOCOL_VERSION


@click.command(short_help="Print the version.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def version(as_json: bool) -> None:
    """Print the version of this command, not of a daemon that may run (that is in `hearth status`).

    \b
    Examples:
      hearth version
      hearth version --json
    """
    known = {"version": __version__, "protocol": PROTOCOL_VERSION, "python": platform.python_version()}
    click.echo(json.dumps({**known, "executable": sys.executable}) if as_json else f"hearth {__version__}")
