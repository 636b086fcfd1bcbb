"""Changes of the config by verbs: their options, the text and JSON that they print, and values of servers' keys."""

import difflib
import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from hearth.cli.daemon_choice import with_places
from hearth.cli.messages import json_option, note, print_json
from hearth.config.schema import SERVER_KEYS, nearest, unknown
from hearth.config.value_kinds import BadValue
from hearth.ops import edit_config
from hearth.ops.edit_config import Change, Changed
from hearth.output import table
from hearth.paths import Places


def diff(changed: Changed) -> list[str]:
    """Return the lines that differ, without context lines: these may contain secrets of other servers."""
    former, new = (_lines(data) for data in (changed.former or b"", changed.new))
    found = list(difflib.unified_diff(former, new, changed.path, changed.path, n=0, lineterm=""))
    return [line.rstrip("\r") for line in found]


def document(action: str, name: str, changed: Changed, dry_run: bool, notes: Sequence[str], daemon: str | None) -> Any:
    """Return the change as a JSON document."""
    return {
        "action": action,
        "name": name,
        "path": changed.path,
        "dryRun": dry_run,
        "created": changed.former is None,
        "diff": diff(changed),
        "warnings": [*notes, *changed.warnings],
        "daemon": daemon,
    }


def _lines(data: bytes) -> list[str]:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return data.decode(encoding, "replace").split("\n")


class ConfigEdit(NamedTuple):
    """Options of a verb that changes the config: which file, and `--dry-run` and `--json`."""

    places: Places
    dry_run: bool
    as_json: bool

    @property
    def path(self) -> str:
        """Path of the config."""
        return self.places.config_file()

    def value(self, name: str, action: str, make: Change, notes: Sequence[str] = (), at_start: bool = False) -> None:
        """Change one value and print the result. `make` may add to the notes. Raises ConfigError, Refused.

        `at_start`: the change takes effect at the next start of the daemon.
        """
        changed = edit_config.change(self.places, make, self.dry_run)._replace(warnings=[])
        is_new = changed.new != changed.former
        daemon = edit_config.tell_daemon(self.places, at_start) if is_new and not self.dry_run else None
        said = f"{name} is {action} already." if not is_new else f"{name} is {action} in {changed.path}. {daemon}"
        self.show(action, name, changed, daemon, notes, notes, table.clean(said), is_shown=is_new)

    def show(
        self,
        action: str,
        name: str,
        changed: Changed,
        daemon: str | None,
        notes: Sequence[str],
        warnings: Sequence[str],
        *lines: str,
        is_shown: bool = True,
    ) -> None:
        """Print a change: a document with the notes, or these warnings and the lines; for a dry run, the diff."""
        if self.as_json:
            print_json(document(action, name, changed, self.dry_run, notes, daemon))
            return
        note(*warnings)
        click.echo("\n".join(diff(changed) if self.dry_run and is_shown else lines))


def with_edit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--dry-run`, `--json` and the target options to a verb, and pass it `edit` instead of them."""

    @click.option("--dry-run", is_flag=True, help="Show the lines that would change; change nothing.")
    @json_option()
    @with_places
    @functools.wraps(function)
    def verb(*arguments: Any, places: Places, dry_run: bool, as_json: bool, **options: Any) -> Any:
        return function(*arguments, edit=ConfigEdit(places, dry_run, as_json), **options)

    return verb


# --- values of servers' keys


def parse_setting(key: str, text: str) -> Any:
    """Parse the value of a key: as JSON where it is valid and the key takes more than texts, else as text."""
    if key in ("command", "cwd", "url"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def check_setting(key: str, value: object) -> None:
    """Refuse a key or a value that a server's entry cannot have. Raises click.UsageError."""
    if key not in SERVER_KEYS:
        raise click.UsageError(f"For a server, {unknown(key, nearest(key, SERVER_KEYS))}.")
    try:
        SERVER_KEYS[key].check(value)
    except BadValue as exc:
        inside = "".join(f" {part}" for part in exc.at)
        raise click.UsageError(f"{key}{inside} {exc}.") from exc
