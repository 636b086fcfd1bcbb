"""`hearth bridge`, for the list of verbs: typed as such, it is taken before click is imported."""

import click


@click.command(
    short_help="Join stdin and stdout to the daemon.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def bridge(ctx: click.Context, /, arguments: tuple[str, ...]) -> int:
    """Join standard input and output to the daemon: what an MCP client starts. It lights the daemon when it
    is out and survives its end.

    \b
    Examples:
      hearth bridge
      hearth bridge --server github
      hearth bridge --to https://mcp.example.com/mcp
    """
    from hearth.bridge import main

    before = ((f"--{name}", ctx.find_root().params.get(name)) for name in ("profile", "config"))
    return main([word for option, value in before if value for word in (option, value)] + list(arguments))
