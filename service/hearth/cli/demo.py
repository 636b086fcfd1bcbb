"""`hearth demo`."""

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from statistics import median

import click

from hearth.cli.daemon_choice import WholeNumber
from hearth.cli.messages import tell
from hearth.clients.launcher import bridge_file
from hearth.demo.scratch import PROFILE
from hearth.demo.stage import Commands, Report, Side, run
from hearth.output import table, terminal
from hearth.output.status_lines import count
from hearth.output.table import box
from hearth.output.terminal import Spinner
from hearth.paths import Places

# Width of the first table's label column: with two columns of figures the table fills 80 cells.
LABEL_CELLS = 47


@click.command(short_help="See what Hearth is for, in a scratch home.")
@click.option("--agents", type=WholeNumber(2, 20), default=5, show_default=True, help="How many agents.")
@click.option("--json", "as_json", is_flag=True, help="Print every figure as JSON.")
def demo(agents: int, as_json: bool) -> int:
    """Show what Hearth is for, in a scratch home: several real bridges light one daemon and share one
    server; the daemon is killed and nobody notices; it exits when the last agent has left.

    Memory and times are compared with servers that every agent starts for itself where a server of realistic weight
    is installed beside Hearth: mcp-server-time, which the extra `demo` brings.

    Every figure is measured in this very run. Nothing of yours is touched, no process and no file stays
    behind. Exits with 1 when the run did not show what it promises.

    \b
    Examples:
      hearth demo
      hearth demo --agents 10 --json
    """
    places = Places(PROFILE)
    status = [sys.executable, "-I", "-m", "hearth", "status", "--json", *places.arguments()]
    # The bridge is started as clients do, without the socket of this shell's daemon: the scratch home has its own.
    bridge = [sys.executable, "-I", "-S", bridge_file(), *places.arguments()]
    with Spinner("preparing a scratch home") as spinner:
        report = run(Commands(bridge, status), agents, spinner.tell)
    tell(as_json, report.as_document(), *report_lines(report, terminal.shows_unicode(), _program()))
    return 0 if is_good(report) else 1


def _program() -> str:
    """Return the command as it was typed, or as it can be typed again."""
    typed = sys.argv[0]
    found = shutil.which("hearth")
    if os.path.basename(typed) != "hearth" or (found and os.path.samefile(found, typed)):
        return "hearth"
    return shlex.quote(typed)


# --- report


def report_lines(report: Report, unicode: bool, program: str) -> list[str]:
    """Return the lines of the whole report, with the next command to type at the end."""
    compared = figures(report, report.apart, unicode) if report.apart else []
    return [*compared, *proofs(report, unicode), "", *conclusion(report), "", *next_step(program)]


def figures(report: Report, apart: Side, unicode: bool) -> list[str]:
    """Return the table that compares shared with separate servers."""
    servers = " and ".join(report.servers)
    title = f"{report.agents} agents that use {servers}".ljust(LABEL_CELLS)
    agents = report.agents
    groups: list[dict[str, Callable[[Side], str]]] = [
        {"processes of MCP servers": lambda side: str(len(side.server_pids))},
        {
            f"memory of everything ({report.measure})": lambda side: megabytes(side.total_bytes),
            "  MCP servers": lambda side: megabytes(side.servers_bytes),
            "  daemon": lambda side: megabytes(side.daemon_bytes),
            f"  {agents} bridges": lambda side: megabytes(side.bridges_bytes),
        },
        {
            f"first answer, {agents} agents at once, none running": lambda side: _ms(side.together.first_answer),
            f"tools listed, {agents} agents at once, none running": lambda side: _ms(side.together.tools_listed),
            "first answer, one more agent": lambda side: _ms(side.one_more.first_answer),
            "tools listed, one more agent": lambda side: _ms(side.one_more.tools_listed),
        },
    ]
    rows = [[[label, show(apart), show(report.hearth)] for label, show in group.items()] for group in groups]
    return box([[[title, "each its own", "with Hearth"]], *rows], unicode)


def proofs(report: Report, unicode: bool) -> list[str]:
    """Return the results that do not fit into two columns of figures."""
    kill, idle = report.kill, report.idle
    greeted = f"{report.daemon_ids.count(report.daemon_ids[0])} of {report.agents} agents"
    pids = " and ".join(f"pid {pid}" for pid in sorted(set(report.answered_by)))
    eras = " and ".join(f"{report.eras.count(era)} {era}" for era in dict.fromkeys(report.eras))
    rows = [
        ["one daemon", f"pid {report.daemon_pid} greeted {greeted}; the first bridge lit it"],
        ["one server", f"{len(report.answered_by)} agents asked who answers: {pids}"],
        ["one counter", f"each agent counted once, they got {' '.join(map(str, sorted(report.counts)))}"],
        ["both eras", f"{eras} of MCP on the same servers"],
        [
            "kill -9",
            f"pid {kill.pid_before} killed with {kill.calls} calls in flight: {kill.answered} of {kill.calls}"
            f" answered within {kill.seconds:.1f} s by pid {kill.pid_after}; {kill.bridges_alive} of"
            f" {report.agents} bridges alive",
        ],
        ["idle exit", f"pid {idle.pid} gone {idle.seconds:.1f} s after the last agent left"],
        ["left behind", f"{count(report.processes_left, 'process', 'es')}, {count(report.files_left, 'file')}"],
    ]
    return box([rows], unicode)


def conclusion(report: Report) -> list[str]:
    """Return the lines on what the figures mean for other servers."""
    fixed = report.hearth.daemon_bytes + report.hearth.bridges_bytes
    meaning = (
        f"Daemon and bridges take {megabytes(fixed)}, whatever the servers are: for {report.agents} agents"
        " that is less than servers of their own as soon as one agent's servers weigh"
        f" {megabytes(report.break_even_bytes)}."
    )
    if report.apart:
        return textwrap.wrap(meaning, 80)
    missing = (
        "There is no MCP server of realistic weight here to compare with: the demo's own takes"
        f" {megabytes(report.hearth.servers_bytes)}. Install mcp-server-time beside Hearth (the extra `demo` of the"
        " package mcp-hearth) to see memory and times with and without Hearth."
    )
    return [*textwrap.wrap(missing, 80), "", *textwrap.wrap(meaning, 80)]


def next_step(program: str) -> list[str]:
    """Return the lines with the next command to type."""
    return [
        "Next: see what it would do for your own MCP clients. Nothing is changed by it.",
        "",
        f"  {program} setup --dry-run",
    ]


def is_good(report: Report) -> bool:
    """Return whether the run showed what it promises."""
    return (
        sorted(report.counts) == list(range(1, report.agents + 1))
        and len(set(report.daemon_ids)) == 1
        and len(set(report.answered_by)) == 1
        and len(report.hearth.server_pids) == len(report.servers)
        and report.kill.answered == report.kill.calls
        and report.kill.bridges_alive == report.agents
        and report.kill.pid_after != report.kill.pid_before
        and not report.processes_left
        and not report.files_left
    )


def megabytes(size: float) -> str:
    """Format a number of bytes as megabytes."""
    return table.megabytes(size or None, 1)


def _ms(seconds: Sequence[float]) -> str:
    return f"{median(seconds) * 1000:.0f} ms"
