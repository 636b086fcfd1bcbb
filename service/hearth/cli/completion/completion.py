"""`hearth completion`."""

import click

from hearth.cli.completion.install import install
from hearth.cli.completion.scripts import SHELLS, script
from hearth.output import documents


@click.group(short_help="Completion for your shell.")
def completion() -> None:
    """Complete verbs, options and the names of profiles, servers, tools and their arguments in your shell: `install`
    puts the script where the shell reads it, the name of a shell prints it.

    \b
    Examples:
      hearth completion install
      hearth completion bash > ~/.local/share/bash-completion/completions/hearth
      hearth completion zsh > ~/.zfunc/_hearth
      hearth completion fish > ~/.config/fish/completions/hearth.fish
    """


completion.add_command(install)


def _printer(shell: str) -> click.Command:
    """Return the command that prints the script of a shell."""

    @click.pass_context
    def print_script(ctx: click.Context, /, as_json: bool) -> None:
        text = script(shell, ctx.find_root().command)
        if as_json:
            documents.show({"shell": shell, "script": text})
        else:
            click.echo(text)

    help_text = f"""Print the completion script of {shell}.

    \b
    Examples:
      hearth completion {shell}
    """
    return click.command(shell, help=help_text)(
        documents.json_option("Print the script in a JSON object.")(print_script)
    )


for _shell in SHELLS:
    completion.add_command(_printer(_shell))
