"""Literal secrets in an entry, as an import would find them, and the offer to move them to the vault."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from hearth.clients.importer import identity, templates
from hearth.clients.importer.templates import Secret, Text

Entry = dict[str, Any]

# Characters that a secret's name cannot have; the first one must be a letter or an underscore.
_UNUSABLE = re.compile(r"^[^a-z_]|[^a-z0-9_.@/-]")


def find(entry: Entry) -> list[tuple[str, str]]:
    """Return the variables and headers whose value is or contains a secret, as (key, name)."""
    apart = {"env": templates.named, "headers": templates.header}
    return [
        (key, name)
        for key, hidden in apart.items()
        for name, value in (entry.get(key) or {}).items()
        if _has_secret([hidden(name, _text(value))])
    ]


def places(entry: Entry) -> list[str]:
    """Return the places of secrets in an entry: `env.NAME`, `headers.NAME`, `args`, `url`."""
    found = [f"{key}.{name}" for key, name in find(entry)]
    found += ["args"] if _has_secret(templates.arguments([_text(each) for each in entry.get("args") or ()])) else []
    return found + (["url"] if _has_secret([templates.url(_text(entry.get("url") or ""))]) else [])


def _text(value: str) -> Text:
    return identity.text_of(value, lambda _: None)


def _has_secret(texts: Iterable[Text]) -> bool:
    return any(isinstance(piece, Secret) for text in texts for piece in text)


def place_elsewhere(server: str, entry: Entry, is_wanted: Callable[[str], bool] | None = None) -> list[str]:
    """Move secrets to the vault if the user wants that, and put references into the entry; return a note on each."""
    notes = []
    for key, name in find(entry):
        secret = _UNUSABLE.sub("_", f"{server}-{name}".lower())
        value = entry[key][name]
        scheme, _, rest = value.partition(" ")
        # "Bearer xyz": the first word is no secret, and stays in the file.
        prefix, value = (f"{scheme} ", rest) if key == "headers" and rest else ("", value)
        reference = f"{prefix}${{keyring:{secret}}}"
        if is_wanted and is_wanted(name):
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
    """Return notes on arguments and addresses with a possible secret: only its owner knows which part is secret."""
    written = {"args": "an argument", "url": "a part of the url"}
    return [
        f"{written[place]} looks like a secret, and will stand in the file as it is. To keep it out of there:"
        f" `hearth secret set {server}`, and write ${{keyring:{server}}} in its place"
        for place in places(entry)
        if place in written
    ]


def _put(secret: str, value: str) -> str:
    from hearth.secrets.vault import Vault

    return Vault("secrets").put(secret, value)
