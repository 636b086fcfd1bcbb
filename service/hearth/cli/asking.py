"""Questions to the user at the terminal, and a spinner while waiting. `ops` decides; this module only asks."""

import sys
import time

import click

from hearth.clients.importer.placeholders import Input
from hearth.control_client.connection import ControlConnection
from hearth.control_client.running_daemon import RunningDaemon
from hearth.errors import Refused
from hearth.output import status_lines, table, terminal
from hearth.output.terminal import Spinner


def can_ask() -> bool:
    """Return whether a user at a terminal can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, default: bool = False) -> bool:
    """Ask for yes or no."""
    try:
        return click.confirm(question, default=default, err=True)
    except click.Abort:
        # The cursor is still on the line of the question.
        click.echo(err=True)
        raise


def ask(obstacle: str, action: str, as_json: bool = False) -> None:
    """Ask whether to go on. Raises Refused for a no, without a terminal, and for a program that reads JSON."""
    if as_json:
        raise Refused(f"{obstacle}, and --json asks nothing: say --yes to {action} anyway")
    if not sys.stdin.isatty():
        raise Refused(f"{obstacle} and no terminal to ask at: say --yes to {action} anyway")
    if not confirm(f"{obstacle}. {action.capitalize()} anyway?"):
        raise Refused("nothing was done")


def ask_about_sessions(control: ControlConnection, action: str, yes: bool, as_json: bool = False) -> None:
    """Let the user decide when sessions are attached. Raises Refused for a no, and when no user can be asked.

    HTTP sessions between two requests outlive the daemon, so their clients notice nothing.
    """
    if yes:
        return
    attached = [each for each in control.status().get("sessions") or [] if not status_lines.is_idle(each)]
    if not attached:
        return
    for line in status_lines.session_lines(attached, time.time(), terminal.width()):
        click.echo(line, err=True)
    ask(f"{status_lines.count(len(attached), 'session')} attached", action, as_json)


def stop_daemon(control: ControlConnection, daemon: RunningDaemon, restart: bool, seconds: float) -> None:
    """Stop the daemon, with a spinner until it has ended. Raises as `RunningDaemon.end` does."""
    with Spinner(f"waiting for the calls in flight, then for pid {daemon.pid} to go"):
        daemon.end(control, restart, seconds)


def ask_for_input(question: Input) -> str:
    """Ask for the value of a VS Code input; the input of a password is hidden."""
    return str(
        click.prompt(
            table.clean(question.description),
            default=question.default,
            hide_input=question.is_password,
            show_default=not question.is_password,
            type=click.Choice(question.choices) if question.choices else str,
            err=True,
        )
    )


def ask_to_store_secret(name: str) -> bool:
    """Ask whether to store a secret in the keyring, with only a reference in the file."""
    question = f"{table.clean(name)} looks like a secret. Keep it in the keyring, and only a reference in the file?"
    return click.confirm(question, default=True, err=True)
