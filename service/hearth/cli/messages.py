"""Messages of the command line. A failure is one sentence on stderr and one exit code; no other module maps them.

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
import os
import sys
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from hearth.errors import ConfigError, HearthError
from hearth.output.table import harmless
from hearth.output.terminal import shows_colour

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
