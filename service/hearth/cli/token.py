"""`hearth token show|rotate`."""

import click

from hearth import http_token


@click.group(short_help="The token for HTTP over TCP.")
def token() -> None:
    """The token that HTTP over TCP asks for: `Authorization: Bearer TOKEN`. On the Unix socket none is needed.

    \b
    Examples:
      curl -H "Authorization: Bearer $(hearth token show)" http://127.0.0.1:3847/status
      hearth token rotate
    """


@token.command()
def show() -> None:
    """Print it. One is made if there is none.

    \b
    Examples:
      hearth token show
    """
    click.echo(http_token.ensure())


@token.command()
def rotate() -> None:
    """Make a new one. Whoever has the former one is locked out at once, without a restart.

    \b
    Examples:
      hearth token rotate
    """
    http_token.rotate()
    click.echo(f"{http_token.path()} has a new token; `hearth token show` prints it.")
