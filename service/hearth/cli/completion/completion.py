"""`hearth completion`."""

import os
from typing import NamedTuple

import click

from hearth.cli.completion.scripts import SHELLS, script
from hearth.errors import HearthError
from hearth.host import edited_files
from hearth.output import documents

_BEGIN = "# >>> hearth completion >>>"
_END = "# <<< hearth completion <<<"


class CompletionFile(NamedTuple):
    """File from which a shell reads completion, and the start-up file that must name its folder, if any."""

    path: str
    startup: str | None
    next_step: str


@click.command(short_help="Put the script where your shell reads it.")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--remove", is_flag=True, help="Take it away again.")
@click.option("--dry-run", is_flag=True, help="Say what would be written; write nothing.")
@documents.json_option()
@click.pass_context
def install(ctx: click.Context, /, shell: str | None, remove: bool, dry_run: bool, as_json: bool) -> None:
    """Put the completion script where your shell reads it; the shell is that of $SHELL unless you name one. It is for
    you alone, and done again without harm; do so after an upgrade.

    \b
    bash  ~/.local/share/bash-completion/completions/hearth (the package
          bash-completion reads it)
    zsh   ~/.zfunc/_hearth, and four lines in .zshrc that name that folder
    fish  ~/.config/fish/completions/hearth.fish

    Exits with 1 when a file cannot be written, with 2 when the shell is not one of these.

    \b
    Examples:
      hearth completion install
      hearth completion install zsh --dry-run
      hearth completion install fish --remove
    """
    chosen = shell or os.path.basename(os.environ.get("SHELL", ""))
    if chosen not in SHELLS:
        raise click.UsageError(f"Name your shell: {', '.join(SHELLS)}. ($SHELL is {chosen or 'not set'!r}.)")
    place = target(chosen)
    text = None if remove else script(chosen, ctx.find_root().command)
    wanted = {place.path: text}
    if place.startup:
        wanted[place.startup] = with_block(_read(place.startup), None if remove else os.path.dirname(place.path))
    changed = [path for path, content in wanted.items() if (content or "") != _read(path)]
    if not dry_run:
        for path in changed:
            _write(path, wanted[path], is_own=path == place.path)
    if as_json:
        documents.show({"shell": chosen, "path": place.path, "changed": changed, "removed": remove, "dryRun": dry_run})
        return
    deed = "would change" if dry_run else "changed"
    click.echo("\n".join(f"{deed} {path}" for path in changed) or f"{place.path} is as it should be.")
    if changed and not dry_run and not remove:
        click.echo(place.next_step)


def target(shell: str) -> CompletionFile:
    """Return the completion file of a shell for this user."""
    home = os.path.expanduser("~")
    if shell == "bash":
        data = os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
        folder = os.environ.get("BASH_COMPLETION_USER_DIR") or os.path.join(data, "bash-completion")
        step = "Open a new shell. It needs the package bash-completion, which most systems have."
        return CompletionFile(os.path.join(folder, "completions", "hearth"), None, step)
    if shell == "fish":
        config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        return CompletionFile(os.path.join(config, "fish", "completions", "hearth.fish"), None, "It works at once.")
    folder = os.environ.get("ZDOTDIR") or home
    return CompletionFile(
        os.path.join(folder, ".zfunc", "_hearth"), os.path.join(folder, ".zshrc"), "Open a new shell."
    )


def with_block(text: str, folder: str | None) -> str:
    """Return a .zshrc with the block that names the completion's folder, or without it; other lines stay."""
    before, begin, rest = text.partition(f"{_BEGIN}\n")
    _, end, after = rest.partition(_END)
    # Without its end marker the block has no bounds: the lines after its beginning stay.
    after = after.removeprefix("\n") if end else rest
    if folder is None:
        return before + after
    if not begin and before and not before.endswith("\n"):
        before += "\n"
    quoted = "'" + folder.replace("'", "'\\''") + "'"
    return f"{before}{_BEGIN}\nfpath=({quoted} $fpath)\nautoload -Uz compinit && compinit\n{_END}\n{after}"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise HearthError(f"cannot read {path}: {exc.strerror}") from exc


def _write(path: str, text: str | None, is_own: bool) -> None:
    try:
        if text is None and is_own:
            os.unlink(path)
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        edited_files.replace(path, (text or "").encode("utf-8", "surrogateescape"))
    except OSError as exc:
        raise HearthError(f"cannot write {path}: {exc.strerror}") from exc


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
