"""The options of `hearth add` to a server's entry, each value checked as the config's reader would. Pure."""

import json
from collections.abc import Sequence
from typing import Any

import click

from hearth.config.schema import SERVER_KEYS
from hearth.config.spelling import nearest, unknown
from hearth.config.value_kinds import BadValue

Entry = dict[str, Any]


def entry(
    command: Sequence[str],
    url: str | None,
    variables: Sequence[str],
    headers: Sequence[str],
    settings: Sequence[str],
    **keys: str | None,
) -> Entry:
    """The entry that was asked for, in the order that people write it. Raises click.UsageError."""
    if bool(command) == bool(url):
        raise click.UsageError("Give either a command, behind `--`, or --url." + (" Not both." if url else ""))
    made: Entry = {"command": command[0], "args": list(command[1:])} if command else {"url": url}
    made["env"] = dict(_pair(each, "=", "--env", "NAME=VALUE") for each in variables)
    made["headers"] = dict(_pair(each, ":", "--header", "'NAME: VALUE'") for each in headers)
    made |= keys
    made = {key: value for key, value in made.items() if value not in (None, [], {})}
    for setting in settings:
        key, text = _pair(setting, "=", "--set", "KEY=VALUE")
        made[key] = parsed(key, text)
    for key, value in made.items():
        check(key, value)
    return made


def _pair(text: str, separator: str, option: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name.strip():
        raise click.UsageError(f"{option} takes {form}, not {_shown(text)!r}.")
    return name.strip(), value.strip() if separator == ":" else value


def _shown(text: str) -> str:
    # What was meant to be a name and a value may be a secret alone.
    return text if len(text) <= 12 else text[:4] + "…"


def parsed(key: str, text: str) -> Any:
    """A value as typed: what is JSON is that, where the key takes more than texts."""
    if key in ("command", "cwd", "url"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def check(key: str, value: object) -> None:
    """Refuse a key or a value that a server's entry cannot have. Raises click.UsageError."""
    if key not in SERVER_KEYS:
        raise click.UsageError(f"For a server, {unknown(key, nearest(key, SERVER_KEYS))}.")
    try:
        SERVER_KEYS[key].check(value)
    except BadValue as exc:
        inside = "".join(f" {part}" for part in exc.at)
        raise click.UsageError(f"{key}{inside} {exc}.") from exc
