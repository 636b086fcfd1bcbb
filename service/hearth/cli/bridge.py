"""`hearth bridge`, for the help only: the command itself is taken before click is imported."""

import click


@click.command(
    short_help="Join stdin and stdout to the daemon.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bridge(arguments: tuple[str, ...]) -> int:
    """Join standard input and output to the daemon: what an MCP client starts. It lights the daemon when it
    is out and survives its end.

    \b
    Examples:
      hearth bridge
      hearth bridge --server github
    """
    from hearth.bridge import main

    return int(main(list(arguments)) or 0)
