"""`hearth demo`."""

import json
import os
import shlex
import shutil
import sys

import click

from hearth.cli.numbers import WholeNumber
from hearth.output.spinner import Spinner
from hearth.paths import Places


@click.command(short_help="See what Hearth is for, in a scratch home.")
@click.option("--agents", type=WholeNumber(2, 20), default=5, show_default=True, help="How many agents.")
@click.option("--json", "as_json", is_flag=True, help="Print every figure as JSON.")
def demo(agents: int, as_json: bool) -> int:
    """Show what Hearth is for, in a scratch home: several real bridges light one daemon and share one
    server; the daemon is killed and nobody notices; it goes out when the last agent has left.

    Memory and times are compared with servers that every agent starts for itself where a server of realistic weight
    is installed beside Hearth: mcp-server-time, which the extra `demo` brings.

    Every figure is measured in this very run. Nothing of yours is touched, no process and no file stays
    behind. Exits with 1 when the run did not show what it promises.

    \b
    Examples:
      hearth demo
      hearth demo --agents 10 --json
    """
    from hearth.cli import demo_report
    from hearth.clients.launcher import bridge_file
    from hearth.demo.run import run
    from hearth.demo.scratch import PROFILE
    from hearth.demo.stage import Commands
    from hearth.output import terminal

    places = Places(PROFILE)
    status = [sys.executable, "-I", "-m", "hearth", "status", "--json", *places.arguments()]
    # As clients start it, and without the socket of this shell's daemon: the scratch home has its own.
    bridge = [sys.executable, "-I", "-S", bridge_file(), *places.arguments()]
    with Spinner("preparing a scratch home") as spinner:
        report = run(Commands(bridge, status), agents, spinner.tell)
    if as_json:
        click.echo(json.dumps(report.as_document(), indent=2))
    else:
        click.echo("\n".join(demo_report.report_lines(report, terminal.shows_unicode(), _program())))
    return 0 if demo_report.is_good(report) else 1


def _program() -> str:
    """Return how this command was typed, or would be typed again."""
    typed = sys.argv[0]
    found = shutil.which("hearth")
    if os.path.basename(typed) != "hearth" or (found and os.path.samefile(found, typed)):
        return "hearth"
    return shlex.quote(typed)
