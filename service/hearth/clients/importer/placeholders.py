"""Values between a client's file and Hearth's config: plain text, secrets, and references that stay. Pure.

"Bearer ", Secret("ghp_…")     is written  Bearer ${keyring:github-token}
Kept("${HOME:-/root}"), "/x"   is written  ${HOME:-/root}/x
"echo ${x}"                    is written  echo $${x}, where the client does not resolve it

References are read in each client's syntax, and resolved with the environment of the user's shell, because the
service's lacks it.

    ${NAME}  ${NAME:-default}          Claude Code, Gemini CLI
    $NAME                              Gemini CLI
    ${env:NAME}  ${input:id}  ${userHome}  ${workspaceFolder} …   VS Code, Cursor and their derivatives
    {env:NAME}  {file:PATH}            opencode

A client without a row in the table resolves nothing: text that looks like a reference is plain text there.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hearth import secret_patterns
from hearth.clients import discovery
from hearth.clients.table import Table
from hearth.config.loader import read_file
from hearth.errors import ConfigError
from hearth.secrets.references import WORKSPACE_VARIABLES

WORKSPACE = "${workspaceFolder}"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = re.compile(rf"({_NAME})(?::-(.*))?", re.DOTALL)
_FORMS = {
    "braces": r"\$\{(?P<braces>[^}]*)\}",
    "dollar": rf"\$(?P<dollar>{_NAME})",
    "curly": r"\{(?P<curly>(?:env|file):[^}]+)\}",
}
# References that only the editor can resolve.
_OF_THE_EDITOR = {
    "config": "is a setting of the editor",
    "command": "runs a command of the editor",
    "workspaceFolderBasename": "is the name of the folder that the editor has open",
}
# Enough for dozens of variables; a larger file is something else.
SIZE_LIMIT_BYTES = 1024 * 1024
_LINE = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(?P<name>[\w.-]+)[ \t]*=[ \t]*"
    r"(?:'(?P<raw>[^']*)'|\"(?P<quoted>(?:\\.|[^\"\\])*)\"|(?P<bare>[^#\r\n]*?))[ \t]*(?:#[^\r\n]*)?$",
    re.MULTILINE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
# Placeholder for secrets and references while a value is searched: a character that no value may contain.
_MARK = "\0"
_SCHEME = re.compile(r"((?:Bearer|Basic|Token|ApiKey|Api-Key) +)(\S.*)", re.IGNORECASE | re.DOTALL)
_HEADER = re.compile(r"([A-Za-z][\w-]*: *)(?!//)(.+)", re.DOTALL)


class Secret(NamedTuple):
    """Secret value, which must not be written into a file; `hint` is the client's name for it."""

    value: str
    hint: str

    def __repr__(self) -> str:
        return f"Secret({self.hint!r})"


class Kept(NamedTuple):
    """Reference in Hearth's own syntax, written as it is."""

    written: str


Text = tuple[str | Secret | Kept, ...]


class Input(NamedTuple):
    """Question of a VS Code input. `choices` are the allowed answers; any answer is allowed if it is empty."""

    name: str
    description: str
    default: str | None = None
    is_password: bool = False
    choices: tuple[str, ...] = ()
    # Only a command of the editor can answer.
    is_command: bool = False


class UnusablePlaceholder(Exception):
    """Error for an entry that cannot be imported; its text is a phrase that says why."""


class Syntax(NamedTuple):
    """Syntax of the references that a client resolves."""

    forms: tuple[str, ...] = ()
    variables: bool = False  # ${NAME}, with or without a default
    editor: bool = False  # ${env:NAME}, ${input:id} and so on


_EDITOR = Syntax(("braces",), editor=True)
SYNTAXES = {
    "claude-code": Syntax(("braces",), variables=True),
    "gemini": Syntax(("braces", "dollar"), variables=True),
    "opencode": Syntax(("curly",)),
    **dict.fromkeys(("vscode", "cursor", "windsurf", "cline", "jetbrains"), _EDITOR),
}
# A file named on the command line may be of any client.
ANY = Syntax(("braces",), variables=True, editor=True)
VARIABLES = Syntax(("braces",), variables=True)


class ImportEnvironment(NamedTuple):
    """Sources of the values that references stand for."""

    environ: Mapping[str, str]
    home: str
    # Returns the user's answer to an input of that table; raises UnusablePlaceholder if no user can be asked.
    answer: Callable[[Table, str], str | Secret | Kept]
    separator: str = "/"


class Reader:
    """Reader of the values of one entry; collects notes for the user."""

    def __init__(self, table: Table, surroundings: ImportEnvironment) -> None:
        self._table = table
        self._around = surroundings
        self.notes: list[str] = []
        self.unset: list[str] = []

    def text(self, value: str, syntax: Syntax) -> Text:
        """Return a value with its references resolved as far as possible. Raises UnusablePlaceholder."""
        if not syntax.forms:
            return (value,)
        pieces: list[str | Secret | Kept] = []
        at = 0
        for match in re.finditer("|".join(_FORMS[form] for form in syntax.forms), value):
            found = self._reference(match, syntax)
            if found is not None:
                pieces += [value[at : match.start()], found]
                at = match.end()
        return _joined([*pieces, value[at:]])

    def _reference(self, match: re.Match[str], syntax: Syntax) -> str | Secret | Kept | None:
        """Return the value of a match; None if the match is no reference."""
        form, inner = str(match.lastgroup), str(match[str(match.lastgroup)])
        if form == "curly":
            kind, _, name = inner.partition(":")
            return self._variable(name, None) if kind == "env" else self._file(name)
        if syntax.editor and (found := self._of_editor(inner)) is not None:
            return found
        if syntax.variables and (variable := _VARIABLE.fullmatch(inner)):
            return self._variable(variable[1], variable[2])
        return None

    def _of_editor(self, inner: str) -> str | Secret | Kept | None:
        kind, colon, name = inner.partition(":")
        if kind in ("workspaceFolder", "workspaceRoot") and not name.startswith("-"):
            return self._folder(name)
        if inner == "workspaceFolderBasename" and self._table.folder:
            return _basename(self._table.folder)
        if kind in _OF_THE_EDITOR:
            raise UnusablePlaceholder(f"${{{inner}}} {_OF_THE_EDITOR[kind]}, which Hearth cannot ask")
        if inner in ("userHome", "pathSeparator", "/"):
            return self._around.home if inner == "userHome" else self._around.separator
        if not colon or not name:
            return None
        if kind == "env":
            # Cursor and VS Code have no defaults; text in that form is meant as a default.
            variable = _VARIABLE.fullmatch(name)
            return self._variable(variable[1], variable[2]) if variable else None
        if kind == "input":
            return self._around.answer(self._table, name)
        return self._file(name) if kind == "file" else None

    def _folder(self, name: str) -> str | Kept:
        folder = self._table.folder
        if name and (not folder or _basename(folder) != name):
            self.notes.append(f"${{workspaceFolder:{name}}} becomes the folder of whichever client asks")
            return Kept(WORKSPACE)
        return folder or Kept(WORKSPACE)

    def _file(self, path: str) -> Kept:
        if not path.startswith(("/", "~")) and path[1:2] != ":":
            path = posixpath.normpath(posixpath.join(posixpath.dirname(self._table.path.replace("\\", "/")), path))
        return Kept(f"${{file:{path}}}")

    def _variable(self, name: str, default: str | None) -> str | Secret | Kept:
        if name in WORKSPACE_VARIABLES:
            return self._table.folder or Kept(f"${{{name}}}")
        value = self._around.environ.get(name)
        if value is None or (default is not None and not value):
            return self._unset(name, default)
        return Secret(value, name) if _is_secret(name, value) else value

    def _unset(self, name: str, default: str | None) -> str | Secret | Kept:
        if default is None:
            self.unset.append(name)
            return Kept(f"${{{name}}}")
        return Secret(default, name) if _is_secret(name, default) else Kept(f"${{{name}:-{default}}}")


def _is_secret(name: str, value: str) -> bool:
    return secret_patterns.is_secret(name, value) or secret_patterns.has_secret(value)


def _joined(pieces: list[str | Secret | Kept]) -> Text:
    """Join adjacent texts, and drop empty ones."""
    joined: list[str | Secret | Kept] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece != "":
            joined.append(piece)
    return tuple(joined)


def _basename(folder: str) -> str:
    return re.split(r"[/\\]", folder.rstrip("/\\"))[-1]


# --- texts


def plain(text: Text) -> str | None:
    """Return the whole text; None if it contains a secret or a reference."""
    return "".join(map(str, text)) if all(isinstance(piece, str) for piece in text) else None


def written(text: Text, place: Callable[[Secret], str]) -> str:
    """Return the text as written in the config; `place` returns the name under which a secret is stored."""
    return "".join(_written(piece, place) for piece in text)


def _written(piece: str | Secret | Kept, place: Callable[[Secret], str]) -> str:
    if isinstance(piece, Kept):
        return piece.written
    return f"${{keyring:{place(piece)}}}" if isinstance(piece, Secret) else escaped(piece)


def revealed(text: Text) -> str:
    """Return the text with its secrets, only for comparison with other texts."""
    return "".join(
        piece.written if isinstance(piece, Kept) else escaped(piece.value if isinstance(piece, Secret) else piece)
        for piece in text
    )


def escaped(text: str) -> str:
    """Escape plain text, so that Hearth reads no reference in it."""
    return text.replace("${", "$${")


# --- secrets in texts


def shapes(value: str) -> list[str]:
    """Return the parts of a value that look like secrets."""
    return [value[start:end] for start, end, _ in secret_patterns.spans(value)]


def named(name: str, text: Text) -> Text:
    """Return the value of a variable with its secrets separated."""
    value = plain(text)
    return (
        (Secret(value, name),) if value is not None and secret_patterns.is_secret(name, value) else _split(text, name)
    )


def header(name: str, text: Text) -> Text:
    """Return the value of an HTTP header with its secrets separated; the first word of `Bearer xyz` stays."""
    value = plain(text)
    if value is not None and secret_patterns.is_secret(name, value):
        hint = "token" if name.lower() == "authorization" else name
        scheme = _SCHEME.fullmatch(value)
        return (scheme[1], Secret(scheme[2], hint)) if scheme else (Secret(value, hint),)
    return _split(text, name)


def arguments(texts: Sequence[Text]) -> list[Text]:
    """Return arguments with their secrets separated.

    Secrets are `x` in `--token x`, `--token=x`, `TOKEN=x`, `Authorization: x` and `-k x`, and text that looks like a
    token.
    """
    hidden = []
    option = ""
    for text in texts:
        value = plain(text)
        hidden.append(_split(text, option.lstrip("-") or "token") if value is None else _argument(value, option))
        is_option = value is not None and value.startswith("-") and "=" not in value
        option = str(value) if is_option else ""
    return hidden


def _argument(value: str, option: str) -> Text:
    is_value = bool(option) and not value.startswith("-")
    if is_value and (meant := secret_patterns.of_short_option(option, value)):
        return (Secret(value, meant),)
    option = option.lstrip("-")
    if is_value and secret_patterns.is_secret(option, value):
        return (Secret(value, option),)
    if found := _HEADER.fullmatch(value):
        return (found[1], *header(found[1].rstrip(": "), (found[2],)))
    name, sign, rest = value.partition("=")
    if sign and re.fullmatch(r"[\w-]+", name) and secret_patterns.is_secret(name.lstrip("-"), rest):
        return (name + sign, Secret(rest, name.lstrip("-")))
    return _split((value,), option or "token")


def url(text: Text) -> Text:
    """Return an address with its secrets separated: a password, secret parameters, a token in the path."""
    return _split(text, "url-token")


def _split(text: Text, hint: str) -> Text:
    """Return the text with the parts that look like secrets separated; pieces that are not plain text stay."""
    value = "".join(piece if isinstance(piece, str) else _MARK for piece in text)
    others = (piece for piece in text if not isinstance(piece, str))
    pieces: list[str | Secret | Kept] = []
    at = 0
    for start, end, name in secret_patterns.spans(value):
        if start >= at and _MARK not in value[start:end]:
            pieces += [*_unmarked(value[at:start], others), Secret(value[start:end], name or hint)]
            at = end
    return tuple(piece for piece in (*pieces, *_unmarked(value[at:], others)) if piece != "")


def _unmarked(value: str, others: Iterator[Secret | Kept]) -> Iterator[str | Secret | Kept]:
    first, *rest = value.split(_MARK)
    yield first
    for part in rest:
        yield next(others, _MARK)
        yield part


# --- files of variables


def read_env_file(path: str) -> Mapping[str, str] | str:
    """Return the variables of a file, or a sentence on why there are none."""
    try:
        data = read_file(path, SIZE_LIMIT_BYTES)
    except ConfigError as exc:
        return f"its envFile {exc}"
    if data is None:
        return f"its envFile {path} does not exist"
    try:
        return parse_env_file(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return f"its envFile {path} is not text in UTF-8"


def parse_env_file(text: str) -> dict[str, str]:
    """Return the variables of a text; the last value of a repeated variable counts."""
    found = {}
    for match in _LINE.finditer(text.replace("\r\n", "\n")):
        quoted, raw = match["quoted"], match["raw"]
        plain = raw if raw is not None else match["bare"]
        if quoted is not None:
            plain = re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), quoted, flags=re.DOTALL)
        found[match["name"]] = plain
    return found


# --- inputs of VS Code


def read_inputs(path: str) -> dict[str, Input]:
    """Return the inputs of a file by name. Raises ConfigError for a file that cannot be read."""
    document = discovery.opened(path)
    listed = document.tree.get("inputs") if document else None
    found = [_input(each) for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return {each.name: each for each in found if each.name}


def _input(raw: dict[str, Any]) -> Input:
    name, description, default = (_text(raw.get(key)) for key in ("id", "description", "default"))
    options = raw.get("options")
    return Input(
        name or "",
        description or name or "",
        default,
        raw.get("password") is True,
        tuple(choice for each in options if (choice := _choice(each))) if isinstance(options, list) else (),
        raw.get("type") == "command",
    )


def _choice(raw: object) -> str | None:
    return _text(raw.get("value")) if isinstance(raw, dict) else _text(raw)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
