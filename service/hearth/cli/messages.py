"""Messages of the command line, JSON documents for programs, and questions to the user; `ops` decides, this asks.

A failure is one sentence on stderr and one exit code; no other module maps them.

0  done, or there was nothing to do
1  something is wrong, and the sentence says what
2  the configuration, or the command as typed, cannot be used
3  another daemon runs
4  the daemon did not answer
5  refused
130  interrupted
"""

import errno
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from hearth import masking
from hearth.errors import ConfigError, HearthError, Refused
from hearth.output.table import clean, harmless
from hearth.output.terminal import Spinner, shows_colour, width

if TYPE_CHECKING:
    from hearth.clients.importer.placeholders import Input
    from hearth.control_client.connection import ControlConnection
    from hearth.control_client.running_daemon import RunningDaemon

INTERRUPTED = 130
# Exit code that a shell reports for SIGPIPE: `hearth logs | head` is no failure worth a message.
PIPE_CLOSED = 141
# Errors of write(2): full disk, quota, file size limit, broken device, descriptor opened for reading.
_OUTPUT_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def report(error: BaseException) -> int:
    """Print an error and return the exit code. An unexpected error is raised again."""
    if isinstance(error, click.ClickException):
        # The message may name a parameter, a tool or a server.
        shown = io.StringIO()
        error.show(shown)
        click.echo(harmless(shown.getvalue()), nl=False, err=True)
        return error.exit_code
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort | KeyboardInterrupt):
        click.echo("hearth: interrupted.", err=True)
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The interpreter flushes stdout once more when it exits, into the same closed pipe.
        sys.stdout = None
        return PIPE_CLOSED
    if isinstance(error, OSError) and error.filename is None and error.errno in _OUTPUT_ERRORS:
        sys.stdout = None
        click.echo(f"hearth: standard output cannot be written to: {error.strerror}.", err=True)
        return HearthError.exit_code
    if isinstance(error, HearthError):
        # The verb's context, which knew whether to use colour, has ended.
        colour = None if shows_colour(os.environ) else False
        for sentence in error.problems if isinstance(error, ConfigError) else [str(error)]:
            click.echo(f"{click.style('hearth:', fg='red')} {harmless(sentence)}", err=True, color=colour)
        return error.exit_code
    raise error


def styled(line: str) -> str:
    """Return a line of a diff in its colour."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    return click.style(line, fg=colours[line[0]]) if line[:1] in colours else line


def note(*texts: str) -> None:
    """Print notes on stderr."""
    for text in texts:
        click.echo(f"{click.style('note:', fg='yellow')} {text}", err=True)


def complain(*problems: str) -> None:
    """Print problems on stderr that do not end the verb."""
    for problem in problems:
        click.echo(f"{click.style('hearth:', fg='red')} {problem}", err=True)


# --- names that are typed


def suggestion(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return the question whether the most similar name was meant; `otherwise` if none is similar."""
    from hearth.config.schema import nearest

    near = nearest(word, list(known))
    return f"Did you mean {near!r}?" if near else otherwise


def completed(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin with the typed text, for completion."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


# --- JSON


def json_option(help_text: str = "Print what was done as JSON.") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--json` to a command, which gets it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def json_text(document: object, indent: int | None = 2) -> str:
    """Return a document as JSON, with every terminal control character escaped."""
    return masking.escaped(json.dumps(document, indent=indent, ensure_ascii=False))


def print_json(document: object) -> None:
    """Print a document on standard output."""
    click.echo(json_text(document))


def tell(as_json: bool, document: object, *lines: str) -> None:
    """Print a document for programs, or these lines for people."""
    if as_json:
        print_json(document)
    elif lines:
        click.echo("\n".join(lines))


# --- questions


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


def ask_about_sessions(
    control: "ControlConnection", action: str, yes: bool, as_json: bool = False, ends_turns: bool = True
) -> None:
    """Let the user decide when sessions are attached, or agents at work whose turns end with the daemon.

    Raises Refused for a no, and when no user can be asked.

    HTTP sessions between two requests outlive the daemon, so their clients notice nothing.
    """
    if yes:
        return
    from hearth.output import status_lines  # with pathlib, which `hearth version` saves

    document = control.status()
    attached = [each for each in document.get("sessions") or [] if not status_lines.is_idle(each)]
    turns = int(document.get("turns") or 0) if ends_turns else 0
    obstacles = [f"{status_lines.count(len(attached), 'session')} attached"] if attached else []
    if turns:
        obstacles.append(f"{status_lines.count(turns, 'agent')} at work, whose turns would be lost (`hearth agents`)")
    if not obstacles:
        return
    if attached:
        for line in status_lines.session_lines(attached, time.time(), width()):
            click.echo(line, err=True)
    ask(" and ".join(obstacles), action, as_json)


def stop_daemon(control: "ControlConnection", daemon: "RunningDaemon", restart: bool, seconds: float) -> None:
    """Stop the daemon, with a spinner until it has ended. Raises as `RunningDaemon.end` does."""
    with Spinner(f"waiting for the calls in flight, then for pid {daemon.pid} to go"):
        daemon.end(control, restart, seconds)


def ask_for_input(question: "Input") -> str:
    """Ask for the value of a VS Code input; the input of a password is hidden."""
    return str(
        click.prompt(
            clean(question.description),
            default=question.default,
            hide_input=question.is_password,
            show_default=not question.is_password,
            type=click.Choice(question.choices) if question.choices else str,
            err=True,
        )
    )


def ask_to_store_secret(name: str) -> bool:
    """Ask whether to store a secret in the keyring, with only a reference in the file."""
    question = f"{clean(name)} looks like a secret. Keep it in the keyring, and only a reference in the file?"
    return click.confirm(question, default=True, err=True)
