"""How the command line fails: one sentence on stderr, one exit code. The only place that turns errors into
codes.

0  done, or there was nothing to do
1  something is wrong, and the sentence says what
2  the configuration, or the command as typed, cannot be used
3  another daemon runs
4  the daemon did not answer
5  refused
130  interrupted
"""

import sys

import click

from hearth.errors import ConfigError, HearthError

INTERRUPTED = 130
# As a shell reports a process that SIGPIPE ended: `hearth logs | head` is no failure to talk about.
PIPE_CLOSED = 141


def report(error: BaseException) -> int:
    """Say what went wrong; return the exit code. What is not expected here is raised again."""
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort | KeyboardInterrupt):
        click.echo("hearth: interrupted.", err=True)
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The interpreter flushes stdout once more on its way out, into the same closed pipe.
        sys.stdout = None
        return PIPE_CLOSED
    if isinstance(error, HearthError):
        for sentence in error.problems if isinstance(error, ConfigError) else [str(error)]:
            click.echo(f"{click.style('hearth:', fg='red')} {sentence}", err=True)
        return error.exit_code
    raise error
