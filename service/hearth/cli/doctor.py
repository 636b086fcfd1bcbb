"""`hearth doctor`."""

import json

import click

from hearth.cli.findings import as_document, is_well, verdict
from hearth.cli.target import with_places
from hearth.paths import Places

_COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}


@click.command(short_help="Look for what could be wrong.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@with_places
def doctor(places: Places, as_json: bool) -> int:
    """Look for what could keep Hearth from working: the installation, the config and its programs, folders
    and their rights, the socket, the registry, the units. Each finding says what to do. Changes nothing and
    wakes nothing. Exits with 1 when something is broken.

    \b
    Examples:
      hearth doctor
      hearth doctor --json | jq '.findings[] | select(.state == "broken")'
    """
    from hearth.cli.checks import examine

    findings = examine(places)
    if as_json:
        click.echo(json.dumps(as_document(findings), indent=2))
    else:
        for finding in findings:
            mark = click.style(finding.state.ljust(6), fg=_COLOURS[finding.state])
            click.echo(f"{mark}  {finding.check}: {finding.message}")
            if finding.fix:
                click.echo(f"        {finding.fix}")
        click.echo(verdict(findings))
    return 0 if is_well(findings) else 1
