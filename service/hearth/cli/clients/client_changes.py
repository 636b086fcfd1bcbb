"""What `hearth connect` and `hearth disconnect` say of a change to a client's file. Pure: an outcome in, text out.

Only entries that change are shown, never what is beside them: a client's file may have anything in it.
"""

import json
from collections.abc import Iterable
from typing import Any

from hearth.cli.clients import entry_secrets
from hearth.clients.connector import EntryChange, TableOutcome
from hearth.clients.table import KINDS
from hearth.masking import Mask
from hearth.output.table import clean


def title(client: str) -> str:
    """What the client calls itself."""
    return KINDS[client].title


def diff(outcome: TableOutcome) -> list[str]:
    """The entries that change, line by line, without their secrets."""
    if not outcome.changes:
        return []
    path = outcome.table.path
    lines = [
        f"--- {'/dev/null' if outcome.is_made else path}",
        f"+++ {'/dev/null' if outcome.is_removed else path}",
    ]
    for change in outcome.changes:
        lines.append(f"@@ {'.'.join((*outcome.table.keys, change.name))} @@")
        lines += [f"-{line}" for line in _lines(path, change.was, change.former, change)]
        lines += [f"+{line}" for line in _lines(path, change.now, change.new, change)]
    return lines


def shown(outcome: TableOutcome) -> list[str]:
    """Return the same lines for a terminal: a client's file may be a project's, with hostile names in it."""
    return [clean(line.expandtabs(4)) for line in diff(outcome)]


def _lines(path: str, text: str | None, value: Any, change: EntryChange) -> list[str]:
    if text is None:
        return []
    found = {*entry_secrets.of_entry(change.former), *entry_secrets.of_entry(change.new)}
    if found and "\\" in text:
        # A secret may be written in escapes, and would not be seen.
        text = _plain(path, value)
    return _dedented(Mask(found)(text).splitlines())


def _dedented(lines: list[str]) -> list[str]:
    """The first line begins in the midst of one of the file's; the others come as far to the left as the last."""
    indent = len(lines[-1]) - len(lines[-1].lstrip()) if lines else 0
    return [line[min(indent, len(line) - len(line.lstrip())) :] for line in lines]


def _plain(path: str, value: Any) -> str:
    if path.endswith(".toml"):
        from hearth.config.toml_editor import value as written

        return written(value)
    return json.dumps(value, indent=2, ensure_ascii=False)


def document(outcome: TableOutcome, action: str, dry_run: bool) -> dict[str, Any]:
    """The outcome for programs."""
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
    """Names as in a sentence."""
    *first, last = map(clean, names)
    return f"{', '.join(first)} and {last}" if first else last
