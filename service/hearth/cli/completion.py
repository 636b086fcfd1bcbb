"""`hearth completion`: the scripts for shells, the classes that parse their requests, and the script's installation.

click's own scripts have defects: the bash script offers `timezone=` again after `timezone=`, because bash splits words
at `=`; the fish script truncates descriptions at a comma; the zsh script ignores the second TAB when it was loaded from
`fpath`, and removes `--transport=` when it completes the value.
"""

import os
from typing import ClassVar, NamedTuple

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

from hearth.cli.main import COMPLETION_VARIABLE
from hearth.cli.messages import json_option, print_json, tell
from hearth.errors import HearthError
from hearth.host import edited_files

# Marks the cursor: no typed word contains this character.
_CURSOR = "\x01"

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion kind value current="${COMP_WORDS[COMP_CWORD]}"

    response=$(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_CURRENT="$current" \\
        %(complete_var)s=bash_complete "$1")

    for completion in $response; do
        kind="${completion%%%%,*}"
        value="${completion#*,}"

        if [[ $kind == dir ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $kind == file ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $kind == plain ]]; then
            # The value of an argument follows its name without a space.
            [[ $value == *= ]] && compopt -o nospace
            [[ $current == [\\"\\']* ]] || printf -v value %%q "$value"
            COMPREPLY+=("$value")
        fi
    done

    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a plain described open response
    local kind value description
    (( ! $+commands[%(prog_name)s] )) && return 1

    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \\
        %(complete_var)s=zsh_complete %(prog_name)s)}")

    for kind value description in ${response}; do
        if [[ $kind == dir ]]; then
            _path_files -/
        elif [[ $kind == file ]]; then
            _path_files -f
        elif [[ $value == *= ]]; then
            # The value of an argument follows its name without a space.
            open+=("$value")
        elif [[ $description == _ ]]; then
            plain+=("$value")
        else
            described+=("${value//:/\\\\:}:$description")
        fi
    done

    (( $#described )) && _describe -V unsorted described -U
    (( $#plain )) && compadd -U -V unsorted -a plain
    (( $#open )) && compadd -U -S '' -V unsorted -a open
}

if [[ $funcstack[1] == _%(prog_name)s ]]; then
    # Loaded from fpath: this file is the function that zsh calls with each TAB.
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""

_FISH = """\
function %(complete_func)s
    set -l response (env %(complete_var)s=fish_complete COMP_LINE=(commandline -cp | string collect) %(prog_name)s)

    for completion in $response
        # Values and descriptions may have commas in them.
        set -l parts (string split --max 1 "," -- $completion)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain
                echo $parts[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


def split_line(line: str) -> tuple[list[str], str]:
    """Return the words between the program's name and the cursor, and the word at the cursor."""
    *words, last = split_arg_string(line + _CURSOR)
    return words[1:], last.removesuffix(_CURSOR)


def option_prefix(word: str) -> str:
    """Return the `--option=` part of a word, or ""; click completes only the value."""
    name, equals, _ = word.partition("=")
    return f"{name}=" if equals and name.startswith("-") else ""


def separate_prefix(word: str, current: str) -> str:
    """Return the part of the word at the cursor that bash treats as separate words, and keeps.

    Bash splits words at unquoted `=` and `:`; `current` is the last of these words.
    """
    if current in ("=", ":") and word.endswith(current):
        return word
    if not current or current[0] in "\"'" or not word.endswith(current):
        return ""
    return word.removesuffix(current)


class _WholeLine(ShellComplete):
    """Completion for a shell whose script hands over the line up to the cursor."""

    _prefix = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the one at it."""
        if "COMP_LINE" in os.environ:
            words, last = split_line(os.environ["COMP_LINE"])
        else:  # a script of an older version, or of zsh
            words, last = super().get_completion_args()
        self._prefix = self._prefix_of(last)
        return words, last

    def _prefix_of(self, word: str) -> str:
        return option_prefix(word)


class Bash(_WholeLine, BashComplete):
    """Completion for bash."""

    source_template: ClassVar[str] = _BASH

    def _prefix_of(self, word: str) -> str:
        return separate_prefix(word, os.environ.get("COMP_CURRENT", ""))

    def format_completion(self, item: "CompletionItem[str]") -> str:
        """Return the kind of an item and the text that bash inserts."""
        return f"{item.type},{str(item.value).removeprefix(self._prefix)}"


class Zsh(_WholeLine, ZshComplete):
    """Completion for zsh."""

    source_template: ClassVar[str] = _ZSH

    def format_completion(self, item: "CompletionItem[str]") -> str:
        """Return three lines: the kind, the value, and the description or `_`."""
        return f"{item.type}\n{self._prefix}{item.value}\n{_one_line(item) or '_'}"


class Fish(_WholeLine, FishComplete):
    """Completion for fish."""

    source_template: ClassVar[str] = _FISH

    def format_completion(self, item: "CompletionItem[str]") -> str:
        """Return the kind of an item and its value, with the description after a tab."""
        description = _one_line(item)
        return f"{item.type},{self._prefix}{item.value}" + (f"\t{description}" if description else "")


def _one_line(item: "CompletionItem[str]") -> str:
    return " ".join((item.help or "").split())


_CLASSES: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}
SHELLS = tuple(_CLASSES)


def register() -> None:
    """Register these shells with click."""
    for shell, kind in _CLASSES.items():
        add_completion_class(kind, shell)


def script(shell: str, cli: click.Command) -> str:
    """Return the completion script of a shell."""
    made = _CLASSES[shell](cli, {}, "hearth", COMPLETION_VARIABLE)
    return made.source_template % made.source_vars()


# --- the verb

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
@json_option()
@click.pass_context
def install(ctx: click.Context, /, shell: str | None, remove: bool, dry_run: bool, as_json: bool) -> None:
    """Put the completion script where your shell reads it; the shell is that of $SHELL unless you name one. The
    script is for you alone, and is put there again without harm; do so after an upgrade.

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
        print_json({"shell": chosen, "path": place.path, "changed": changed, "removed": remove, "dryRun": dry_run})
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
        tell(as_json, {"shell": shell, "script": text}, text)

    help_text = f"""Print the completion script of {shell}.

    \b
    Examples:
      hearth completion {shell}
    """
    return click.command(shell, help=help_text)(json_option("Print the script in a JSON object.")(print_script))


for _shell in SHELLS:
    completion.add_command(_printer(_shell))
