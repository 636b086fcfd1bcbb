"""Output of `hearth connect` and `hearth disconnect` on a change to a client's file. Pure: an outcome in, text out.

Only the changed entries are shown, never the lines around them: a client's file may contain anything.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from hearth import secret_patterns
from hearth.cli.messages import suggestion
from hearth.clients.bridge_entries import EntryChange, TableOutcome
from hearth.clients.importer import placeholders
from hearth.clients.importer.placeholders import Secret
from hearth.clients.table import KINDS
from hearth.masking import Mask
from hearth.output.table import clean

_VARIABLES = frozenset({"env", "environment"})
_HEADERS = frozenset({"headers", "http_headers"})
_ARGUMENTS = frozenset({"args", "command"})
# Options whose value is a header, in curl and in bridges with similar options.
_HEADER_OPTIONS = frozenset({"-H", "--header", "--headers"})
_REFERENCE = re.compile(r"\$\{[^{}]*\}|\{(?:env|file):[^{}]+\}")
_DEFAULT = re.compile(r"\$\{(?P<name>[^{}]*?):-(?P<default>[^{}]*)\}")
_HEADER = re.compile(r"(?P<name>[A-Za-z][\w-]*):(?P<space>\s*)(?!//)(?P<value>.+)", re.DOTALL)
_SCHEME = re.compile(r"Bearer|Basic|Digest|Token|Api-?Key", re.IGNORECASE)
# Word next to a reference that counts as a secret even under a harmless name: long, with letters and digits.
_LONG = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.:~%+/=-]{16,}")


def diff(outcome: TableOutcome) -> list[str]:
    """Return the changed entries as a diff, without their secrets."""
    if not outcome.changes:
        return []
    path, nothing = outcome.table.path, "/dev/null"
    lines = [f"--- {nothing if outcome.is_made else path}", f"+++ {nothing if outcome.is_removed else path}"]
    for change in outcome.changes:
        lines.append(f"@@ {'.'.join((*outcome.table.keys, change.name))} @@")
        lines += [f"-{line}" for line in _lines(path, change.was, change.former, change)]
        lines += [f"+{line}" for line in _lines(path, change.now, change.new, change)]
    return lines


def shown(outcome: TableOutcome) -> list[str]:
    """Return the diff for a terminal, cleaned: the file may be a project's, with hostile names in it."""
    return [clean(line.expandtabs(4)) for line in diff(outcome)]


def _lines(path: str, text: str | None, value: Any, change: EntryChange) -> list[str]:
    if text is None:
        return []
    found = {*secrets_of(change.former), *secrets_of(change.new)}
    if found and "\\" in text:
        # A secret may be written with escapes, and would not be masked.
        text = _plain(path, value)
    return _dedented(Mask(found)(text).splitlines())


def _dedented(lines: list[str]) -> list[str]:
    """Return the lines without the indentation of the last one.

    The first line begins in the middle of a line of the file, so its indentation tells nothing.
    """
    indent = len(lines[-1]) - len(lines[-1].lstrip()) if lines else 0
    return [line[min(indent, len(line) - len(line.lstrip())) :] for line in lines]


def _plain(path: str, value: Any) -> str:
    if path.endswith(".toml"):
        from hearth.config.text_edits import toml_value

        return toml_value(value)
    return json.dumps(value, indent=2, ensure_ascii=False)


def document(outcome: TableOutcome, action: str, dry_run: bool) -> dict[str, Any]:
    """Return the outcome as a JSON document."""
    return {
        "client": outcome.table.client,
        "scope": outcome.table.scope,
        "path": outcome.table.path,
        "keys": list(outcome.table.keys),
        "action": action if outcome.changes else "unchanged",
        "dryRun": dry_run,
        "entries": [change.name for change in outcome.changes],
        "created": outcome.is_made,
        "removed": outcome.is_removed,
        "exact": outcome.is_exact,
        "diff": diff(outcome),
        "notes": outcome.notes,
    }


def enumeration(names: Iterable[str]) -> str:
    """Join names for a sentence."""
    *first, last = map(clean, names)
    return f"{', '.join(first)} and {last}" if first else last


# --- secrets in entries


def secrets_of(entry: Any) -> Iterator[str]:
    """Yield the secrets in an entry."""
    for key, value in entry.items() if isinstance(entry, dict) else ():
        yield from _secrets_of_key(key, value)


def _secrets_of_key(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        secrets_of = (
            secret_patterns.of_variable if key in _VARIABLES else secret_patterns.of_header if key in _HEADERS else None
        )
        for name, each in value.items():
            is_named = secrets_of is not None and isinstance(each, str)
            yield from (
                _secrets_of_named(name, each, secrets_of) if secrets_of and is_named else _secrets_of_key(name, each)
            )
    elif isinstance(value, list):
        if key in _ARGUMENTS:
            yield from _secrets_of_arguments([word for word in value if isinstance(word, str)])
        for each in value:
            yield from _secrets_of_key(key, each) if key not in _ARGUMENTS or not isinstance(each, str) else ()
    elif isinstance(value, str):
        yield from _secrets_of_arguments(value.split()) if key == "command" else ()
        yield from secret_patterns.of_url(value) if "://" in value else ()
        yield from [value] if secret_patterns.SECRET_NAME.search(key) else ()
        yield from _anywhere(key, value)


def _secrets_of_named(name: str, value: str, secrets_of: Callable[[str, str], Iterator[str]]) -> Iterator[str]:
    beside = _REFERENCE.split(value)
    if len(beside) == 1:
        yield from secrets_of(name, value)
    else:
        yield from (word for part in beside for word in part.split() if _is_secret_beside(name, word))
    yield from _anywhere(name, value)


def _is_secret_beside(name: str, word: str) -> bool:
    if _SCHEME.fullmatch(word) or secret_patterns.is_plain(word):
        return False
    return bool(secret_patterns.SECRET_NAME.search(name) or _LONG.fullmatch(word))


def _secrets_of_arguments(words: Sequence[str]) -> Iterator[str]:
    yield from secret_patterns.of_arguments(words)
    for text in placeholders.arguments([(word,) for word in words]):
        yield from (piece.value for piece in text if isinstance(piece, Secret))
    for before, word in zip(("", *words), words, strict=False):
        header = _HEADER.fullmatch(word.removeprefix("--header="))
        if header and (before in _HEADER_OPTIONS or header["space"]):
            yield from _secrets_of_named(header["name"], header["value"], secret_patterns.of_header)
        yield from _anywhere(before, word)


def _anywhere(name: str, value: str) -> Iterator[str]:
    """Yield the parts of a value that look like secrets, and defaults of references that may be secrets."""
    for part in (value, *_REFERENCE.split(value)):
        yield from (secret for secret in placeholders.shapes(part) if not _REFERENCE.fullmatch(secret))
    for found in _DEFAULT.finditer(value):
        default = found["default"]
        is_named = any(secret_patterns.SECRET_NAME.search(each) for each in (name, found["name"]))
        if not _SCHEME.fullmatch(default) and (is_named or not secret_patterns.is_plain(default)):
            yield default
        yield from placeholders.shapes(default)


# --- names of clients


def complete_client(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the clients that begin with the typed text, with their titles."""
    taken = ctx.params.get(parameter.name or "") or ()
    return [
        CompletionItem(kind.name, help=kind.title)
        for kind in KINDS.values()
        if kind.name.startswith(incomplete) and kind.name not in taken
    ]


def check_names(names: Iterable[str]) -> list[str]:
    """Return each name once. Raises click.UsageError for the first unknown name, with the most similar one."""
    names = list(dict.fromkeys(names))
    for name in names:
        if name not in KINDS:
            hint = suggestion(name, KINDS, f"Known: {', '.join(KINDS)}.")
            raise click.UsageError(f"There is no client {name!r}. {hint}")
    return names
