"""`hearth completion`."""

import click
from click.shell_completion import get_completion_class


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes verbs, options and the names of profiles, servers and tools in your shell.

    \b
    Examples:
      hearth completion bash > ~/.local/share/bash-completion/completions/hearth
      hearth completion zsh > ~/.zfunc/_hearth
      hearth completion fish > ~/.config/fish/completions/hearth.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click knows no completion for {shell}.")
    click.echo(kind(ctx.find_root().command, {}, "hearth", "_HEARTH_COMPLETE").source())
