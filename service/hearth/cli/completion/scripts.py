"""Completion scripts for shells, and the classes that parse their requests and format the answers.

click's own scripts have defects: the bash script offers `timezone=` again after `timezone=`, because bash splits words
at `=`; the fish script truncates descriptions at a comma; the zsh script ignores the second TAB when it was loaded from
`fpath`, and removes `--transport=` when it completes the value.
"""

import os
from typing import ClassVar

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


class Bash(BashComplete):
    """Completion for bash."""

    source_template: ClassVar[str] = _BASH
    _prefix = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the one at it."""
        if "COMP_LINE" not in os.environ:  # a script of an older version
            return super().get_completion_args()
        words, last = split_line(os.environ["COMP_LINE"])
        self._prefix = separate_prefix(last, os.environ.get("COMP_CURRENT", ""))
        return words, last

    def format_completion(self, item: "CompletionItem[str]") -> str:
        """Return the kind of an item and the text that bash inserts."""
        return f"{item.type},{str(item.value).removeprefix(self._prefix)}"


class Zsh(ZshComplete):
    """Completion for zsh."""

    source_template: ClassVar[str] = _ZSH
    _prefix = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the one at it."""
        words, last = super().get_completion_args()
        self._prefix = option_prefix(last)
        return words, last

    def format_completion(self, item: "CompletionItem[str]") -> str:
        """Return three lines: the kind, the value, and the description or `_`."""
        return f"{item.type}\n{self._prefix}{item.value}\n{_one_line(item) or '_'}"


class Fish(FishComplete):
    """Completion for fish."""

    source_template: ClassVar[str] = _FISH
    _prefix = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the one at it."""
        if "COMP_LINE" not in os.environ:  # a script of an older version
            return super().get_completion_args()
        words, last = split_line(os.environ["COMP_LINE"])
        self._prefix = option_prefix(last)
        return words, last

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
