"""`hearth completion bash|zsh|fish`."""

import click

from hearth.cli import documents
from hearth.cli.completion_scripts import SHELLS, script


@click.group(short_help="Completion for your shell.")
def completion() -> None:
    """Print the script that completes verbs, options and the names of profiles, servers and tools in your shell.

    \b
    Examples:
      hearth completion bash > ~/.local/share/bash-completion/completions/hearth
      hearth completion zsh > ~/.zfunc/_hearth
      hearth completion fish > ~/.config/fish/completions/hearth.fish
    """


def _printer(shell: str) -> click.Command:
    """Return the command that prints the script of a shell."""

    @documents.json_option("Print the script in a JSON object.")
    def print_script(as_json: bool) -> None:
        if as_json:
            documents.show({"shell": shell, "script": script(shell)})
        else:
            click.echo(script(shell))

    print_script.__doc__ = f"""Print the completion script of {shell}.

    \b
    Examples:
      hearth completion {shell}
    """
    return click.command(shell)(print_script)


for _shell in SHELLS:
    completion.add_command(_printer(_shell))
