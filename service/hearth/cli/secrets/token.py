"""`hearth token show|rotate`."""

import click

from hearth.output import documents
from hearth.secrets import http_token


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
@documents.json_option("Print the token, its header and its file as JSON.")
def show(header: bool, as_json: bool) -> None:
    """Print it. One is made if there is none.

    \b
    Examples:
      hearth token show
      hearth token show --header | curl -H @- http://127.0.0.1:3847/status
      hearth token show --json | jq -r .path
    """
    found = http_token.ensure()
    line = f"Authorization: Bearer {found}"
    if as_json:
        documents.show({"token": found, "header": line, "path": http_token.path()})
    else:
        click.echo(line if header else found)


@token.command()
@documents.json_option()
def rotate(as_json: bool) -> None:
    """Make a new one. Whoever has the former one is locked out at once, without a restart.

    \b
    Examples:
      hearth token rotate
      hearth token rotate --json
    """
    http_token.rotate()
    if as_json:
        documents.show({"rotated": True, "path": http_token.path()})
        return
    click.echo(f"{http_token.path()} has a new token; `hearth token show` prints it.")
