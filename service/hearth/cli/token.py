"""`hearth token show|rotate`."""

import click

from hearth import http_token


@click.group(short_help="The token for HTTP over TCP.")
def token() -> None:
    """The token that HTTP over TCP asks for: `Authorization: Bearer TOKEN`. On the Unix socket none is needed.

    \b
    Examples:
      hearth token show --header | curl -H @- http://127.0.0.1:3847/status
      hearth token rotate

    Give it to programs by a pipe, a file or a variable, not as an argument: every user of the machine can see those.
    """


@token.command()
@click.option("--header", is_flag=True, help="Print the whole header, as curl reads it with -H @-.")
def show(header: bool) -> None:
    """Print it. One is made if there is none.

    \b
    Examples:
      hearth token show
      hearth token show --header | curl -H @- http://127.0.0.1:3847/status
    """
    found = http_token.ensure()
    click.echo(f"Authorization: Bearer {found}" if header else found)


@token.command()
def rotate() -> None:
    """Make a new one. Whoever has the former one is locked out at once, without a restart.

    \b
    Examples:
      hearth token rotate
    """
    http_token.rotate()
    click.echo(f"{http_token.path()} has a new token; `hearth token show` prints it.")
