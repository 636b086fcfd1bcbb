"""`hearth bridge`, for the help and for completion: the command itself is run before click is imported."""

import re

import click

from hearth.bridge.options import MODES, USAGE
from hearth.cli import target


def described() -> list[tuple[str, str]]:
    """Return the options of the bridge's own help: the names with their metavar, and the help text."""
    listed = USAGE.partition("Options:\n")[2].partition("\n\n")[0]
    # A continuation line belongs to the option above it.
    found = re.findall(r"^  (-.+?)  +(.+)$", re.sub(r"\n {6,}", "  ", listed), flags=re.MULTILINE)
    return [(names, " ".join(text.split())) for names, text in found]


def _option(names: str, text: str) -> click.Option:
    words, _, value = names.partition(" ") if not names.startswith("-h") else (names, "", "")
    if not value:
        return click.Option(words.split(", "), is_flag=True, help=text)
    kinds: dict[str, click.Choice[str] | click.Path] = {
        "--mode": click.Choice(MODES),
        "--config": click.Path(dir_okay=False),
        "--socket": click.Path(dir_okay=False),
    }
    completions = {"--server": target.complete_server, "--profile": target.complete_profile}
    return click.Option([words], metavar=value, help=text, type=kinds.get(words), shell_complete=completions.get(words))


class BridgeCommand(click.Command):
    """Command whose options are known to completion only; otherwise the bridge parses them itself."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options during completion, else the unparsed arguments."""
        return [_option(*each) for each in described()] if ctx.resilient_parsing else super().get_params(ctx)


@click.command(
    cls=BridgeCommand,
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
