"""Splitter of shell commands: a command line to its simple commands, as bash, dash and zsh would. Pure.

The rules:

- Splitting is either certain or refused. Certain means that sh, bash, dash, zsh and fish, whatever their options, their
  environment and the files around them, make the same words of the line; on Windows also cmd.exe and PowerShell.
- Words consist of plain ASCII characters, of single-quoted text, and of double-quoted text without expansions.
- Simple commands are separated by `;`, `&&`, `||` and `|`. Everything else that means something to a shell is refused,
  with a phrase about it: expansion, substitution, globs, braces, tildes, redirections, background jobs, grouping,
  assignments, reserved words, comments, backslashes outside quotes, line ends, control characters, and characters
  outside ASCII unless they are quoted.
- Quoted characters outside ASCII are kept, except invisible ones and ones that change the direction of text: a person
  who is shown the command would read another one.
"""

import itertools
import os
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

# A command that a person could still judge; longer ones are asked.
COMMAND_CHARACTERS_LIMIT = 16 * 1024
# More than any granted command has; templates are matched recursively, word by word.
WORDS_LIMIT = 128

_TOKEN = re.compile(
    r"""
    (?P<blank>[ \t]+)
  | (?P<plain>[A-Za-z0-9_@%+=:,./-]+)
  | '(?P<single>[^'\\\n\r]*)'
  | "(?P<double>(?:[^"\\$`!\n\r]|\\["\\$`])*)"
  | (?P<operator>&&|\|\||;|\|)
    """,
    re.VERBOSE,
)
# Single quotes, `^` and `%` are no quotes, an escape and a variable to cmd.exe; `,`, `@` and `--%` mean something to
# PowerShell, and `;` separates commands only there.
_ODD_ON_WINDOWS = re.compile(r"['%^,;@]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ESCAPED = re.compile(r'\\(["\\$`])')
# Words that a shell reads as syntax where a command begins: POSIX's, and those of bash and zsh.
RESERVED = frozenset({
    "!", "{", "}", "case", "coproc", "do", "done", "elif", "else", "end", "esac", "fi", "for", "foreach",
    "function", "if", "in", "nocorrect", "noglob", "repeat", "select", "then", "time", "until", "while", "[[", "]]",
    "always", "-",
})  # fmt: skip
_QUOTES = re.compile(r"['\"\\]")
# Expansions and substitutions anywhere, globs and braces where a command begins, and programs that take a program.
_MAKES_NAMES = re.compile(
    r"[$`]|(?:^|[;&|(){}!\n])\s*[^\s;&|]*[*?\[{~]|\b(?:eval|exec|source|env|sudo|xargs|sh|bash|zsh|dash|base64|alias)\b"
)
_PHRASES = {
    "$": "an expansion or a substitution (`$`)",
    "`": "a substitution (backtick)",
    "(": "a group or a function (parenthesis)",
    ")": "a group or a function (parenthesis)",
    "{": "a brace",
    "}": "a brace",
    "<": "a redirection (`<`)",
    ">": "a redirection (`>`)",
    "*": "a glob (`*`)",
    "?": "a glob (`?`)",
    "[": "a glob (`[`)",
    "]": "a glob (`]`)",
    "~": "a tilde",
    "#": "a comment (`#`)",
    "!": "a history expansion or a negation (`!`)",
    "&": "a background job (`&`)",
    "^": "a caret, which some shells expand",
    "\\": "a backslash outside quotes, or one in double quotes that shells read differently",
    "'": "a quote that is not closed, or a line end or a backslash inside quotes",
    '"': "a quote that is not closed, or an expansion, a `!` or a line end inside double quotes",
    "\n": "a line end",
    "\r": "a line end",
    "\0": "a NUL character",
}
# Categories of characters that are not seen, or that change how others are seen.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


# Programs that run none of the words after them.
_RUNNING_NOTHING = frozenset({"cp", "ln", "mkdir", "mv", "rm", "rmdir", "touch"})
# Programs that work in the folder after one of these options.
_WITH_FOLDERS = frozenset({"cargo", "git", "gmake", "make", "ninja", "npm", "pnpm", "poetry", "tar", "uv", "yarn"})
_FOLDER_OPTIONS = frozenset({"-C", "--cwd", "--directory", "--prefix"})
_PLAIN_FOLDER = re.compile(r"[A-Za-z0-9_.~/-]+")


class Unsplittable(ValueError):
    """Error for a command that cannot be split for certain: a phrase to follow "the command has"."""


class SimpleCommand(NamedTuple):
    """One simple command: its words, quotes removed."""

    words: tuple[str, ...]


@lru_cache(maxsize=16)
def split(command: str, for_windows: bool = os.sep == "\\") -> tuple[SimpleCommand, ...]:
    """Return the simple commands of a command line, in their order. Raises Unsplittable."""
    # Remembered, because the guard and the decision, and those of a project's policy, split the same command.
    if len(command) > COMMAND_CHARACTERS_LIMIT:
        raise Unsplittable(f"over {COMMAND_CHARACTERS_LIMIT} characters")
    if for_windows and (odd := _ODD_ON_WINDOWS.search(command)):
        raise Unsplittable(f"`{odd[0]}`, which the shells of Windows read differently")
    return tuple(_Splitter(command).split())


def may_run(command: str, program: str) -> bool:
    """Tell whether a command that cannot be split might run a program: its name occurs, or may be put together.

    For rules that take access away; a program that runs others (`bash x`, `make`) is not seen through.
    """
    bare = _QUOTES.sub("", command).casefold()
    return program.casefold() in bare or not bare.isascii() or _MAKES_NAMES.search(bare) is not None


def may_be_programs(words: Sequence[str]) -> Sequence[str]:
    """Return the words of one command without those that only name a file or folder: `make -C hearth install`."""
    if words[0] in _RUNNING_NOTHING or list(words[:2]) == ["git", "worktree"]:
        return words[:1]
    if words[0] not in _WITH_FOLDERS:
        return words
    # Behind the first word that is no option, another program may follow with options of its own.
    options = itertools.takewhile(lambda index: words[index].startswith("-"), range(1, len(words) - 1))
    for index in options:
        if words[index] in _FOLDER_OPTIONS and _PLAIN_FOLDER.fullmatch(words[index + 1]):
            return [*words[: index + 1], *words[index + 2 :]]
    return words


def without_folder(text: str) -> str:
    """Return a text that cannot be split without the folder that its first program is told to work in."""
    words = text.split(" ")
    return " ".join(may_be_programs(words)) if words[0] in _WITH_FOLDERS and words[1:2] != ["worktree"] else text


def unseen(text: str) -> str | None:
    """Return the first character that a person would not see, or that hides others; None if there is none."""
    if text.isascii() and text.isprintable():
        return None
    for character in text:
        # Spaces other than the plain one look like it, and are none to a shell.
        category = unicodedata.category(character)
        if category in _UNSEEN or (category == "Zs" and character != " "):
            return character
    return None


class _Splitter:
    """State of splitting one command line."""

    def __init__(self, command: str) -> None:
        self._text = command
        self._commands: list[SimpleCommand] = []
        self._words: list[str] = []
        self._word: str | None = None  # as far as it is read
        self._count = 0

    def split(self) -> list[SimpleCommand]:
        position, previous, operator = 0, "", ""
        for token in _TOKEN.finditer(self._text):
            begin, end = token.span()
            if begin != position:
                break
            kind = token.lastgroup or ""
            if kind == "blank":
                if self._word is not None:
                    self._end_word()
            elif kind == "plain":
                self._add_plain(token[0])
            elif kind == "operator":
                operator = token[0]
                self._end_command(operator)
            elif kind == "single" and previous == "single":
                # zsh may be told (RC_QUOTES) to read '' inside quotes as a quote.
                raise Unsplittable("two quoted texts side by side")
            else:
                self._add_quoted(kind, token[kind])
            position, previous = end, kind
        if position < len(self._text):
            raise Unsplittable(_phrase(self._text[position]))
        self._end_word()
        if self._words:
            self._take_command()
        elif operator != ";":
            raise Unsplittable("no command behind an operator" if operator else "no command in it")
        return self._commands

    def _add_quoted(self, kind: str, piece: str) -> None:
        if (character := unseen(piece)) is not None:
            raise Unsplittable(_phrase(character))
        if kind == "double":
            piece = _ESCAPED.sub(r"\1", piece)
        self._word = piece if self._word is None else self._word + piece

    def _add_plain(self, piece: str) -> None:
        if self._word is not None:
            self._word += piece
            return
        if piece[0] in "=%":
            raise Unsplittable(f"a word that begins with `{piece[0]}`, which some shells expand")
        if not self._words and _ASSIGNMENT.match(piece):
            raise Unsplittable("an assignment before the command")
        self._word = piece

    def _end_word(self) -> None:
        if self._word is None:
            return
        self._words.append(self._word)
        self._word = None
        self._count += 1
        if self._count > WORDS_LIMIT:
            raise Unsplittable(f"over {WORDS_LIMIT} words")

    def _end_command(self, operator: str) -> None:
        self._end_word()
        if not self._words:
            raise Unsplittable(f"no command before `{operator}`")
        self._take_command()

    def _take_command(self) -> None:
        if self._words[0] in RESERVED:
            raise Unsplittable(f"the reserved word `{self._words[0]}`")
        if not self._words[0]:
            raise Unsplittable("an empty word for a command")
        if self._words[0].startswith("%"):
            raise Unsplittable("a job (`%`) for a command")
        self._commands.append(SimpleCommand(tuple(self._words)))
        self._words = []


def _phrase(character: str) -> str:
    if character in _PHRASES:
        return _PHRASES[character]
    if character.isascii() and not character.isprintable():
        return f"a control character (U+{ord(character):04X})"
    shown = character if unseen(character) is None else ""
    name = f"U+{ord(character):04X}"
    return (
        f"the character {shown} ({name}), which is not ASCII" if shown else f"the character {name}, which is not seen"
    )
