"""Secrets that were typed into a command line on their way into a file: found, and offered a better place."""

import re
import sys
from typing import Any

import click

from hearth import secrecy
from hearth.cli import table

Entry = dict[str, Any]

# In the name of a secret; and a letter comes first.
_UNUSABLE = re.compile(r"^[^a-z_]|[^a-z0-9_.@/-]")
# What is shorter is no secret worth the name.
SHORTEST_CHARACTERS = 4


def find(entry: Entry) -> list[tuple[str, str]]:
    """The variables and headers whose value seems to be a secret itself, as (key, name)."""
    return [
        (key, name)
        for key in ("env", "headers")
        for name, value in (entry.get(key) or {}).items()
        if "${" not in value and secrecy.SECRET_NAME.search(name) and len(value) >= SHORTEST_CHARACTERS
    ]


def place_elsewhere(server: str, entry: Entry, ask: bool) -> list[str]:
    """Put them into the vault where a person wants that, and references into the entry; what is to be said of each."""
    notes = []
    for key, name in find(entry):
        secret = _UNUSABLE.sub("_", f"{server}-{name}".lower())
        value = entry[key][name]
        scheme, _, rest = value.partition(" ")
        # "Bearer xyz": the first word is no secret, and is wanted in the file.
        prefix, value = (f"{scheme} ", rest) if key == "headers" and rest else ("", value)
        reference = f"{prefix}${{keyring:{secret}}}"
        if ask and _wanted(name):
            where = _put(secret, value)
            entry[key][name] = reference
            notes.append(f"{name} is kept in {where} as {secret!r}; the file has ${{keyring:{secret}}}.")
        else:
            option = f"--env {name}='{reference}'" if key == "env" else f"--header '{name}: {reference}'"
            notes.append(
                f"{name} looks like a secret, and will stand in the file as it is. To keep it out of there:"
                f" `hearth secret set {secret}`, then this command with --replace and {option}"
            )
    return notes + _notes_on_the_rest(server, entry)


def _notes_on_the_rest(server: str, entry: Entry) -> list[str]:
    """An argument, or a part of an address, that may be one: which part of it, nobody but its owner knows."""
    written = {
        "an argument": secrecy.of_arguments(entry.get("args") or ()),
        "a part of the url": secrecy.of_url(entry.get("url") or ""),
    }
    return [
        f"{what} looks like a secret, and will stand in the file as it is. To keep it out of there:"
        f" `hearth secret set {server}`, and write ${{keyring:{server}}} in its place"
        for what, found in written.items()
        if any("${" not in secret for secret in found)
    ]


def can_ask() -> bool:
    """Whether there is a person at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _wanted(name: str) -> bool:
    question = f"{table.clean(name)} looks like a secret. Keep it in the keyring, and only a reference in the file?"
    return click.confirm(question, default=True, err=True)


def _put(secret: str, value: str) -> str:
    from hearth.vault import Vault

    return Vault("secrets").put(secret, value)
