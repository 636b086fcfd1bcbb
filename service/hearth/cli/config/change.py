"""The text and the document that verbs print of a change to the config. Pure: a change in, text or a document out."""

import difflib
from typing import Any

from hearth.ops.edit_config import Changed


def diff(changed: Changed) -> list[str]:
    """The lines that differ. Those beside them are left out: they may hold secrets of other servers."""
    former, new = (_lines(data) for data in (changed.former or b"", changed.new))
    found = list(difflib.unified_diff(former, new, changed.path, changed.path, n=0, lineterm=""))
    return [line.rstrip("\r") for line in found]


def document(action: str, name: str, changed: Changed, dry_run: bool, notes: list[str], daemon: str | None) -> Any:
    """The change for programs."""
    return {
        "action": action,
        "name": name,
        "path": changed.path,
        "dryRun": dry_run,
        "created": changed.former is None,
        "diff": diff(changed),
        "warnings": notes + changed.warnings,
        "daemon": daemon,
    }


def _lines(data: bytes) -> list[str]:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return data.decode(encoding, "replace").split("\n")
