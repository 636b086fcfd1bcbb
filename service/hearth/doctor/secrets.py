"""Doctor's checks of secrets: who else may read them, and whether they can be read.

The keyring is asked whether it is available, and never for a value: no one is asked to unlock anything.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hearth import config
from hearth.doctor.context import CheckContext
from hearth.errors import VaultError
from hearth.findings import Finding, FixRequest
from hearth.host import system
from hearth.ops import import_servers
from hearth.places import state_dir
from hearth.secrets import http_token, references
from hearth.secrets.vault import Vault

# Folders of the state that are created with a private mode.
_PRIVATE = ("vault", "clients", "config", "http", "oauth", "catalogue", "learned", "pins", "sessions")
# Folders whose files must be private, too: secrets, and backups of clients' files, which may have secrets.
_SECRET = ("vault", "clients", "config", "http")
# Mode bits of group and others.
_OTHERS = 0o077
# Python and the keyring's package take a quarter of a second to load; no person has to answer.
KEYRING_SECONDS = 8.0


class SecretFacts(NamedTuple):
    """Facts about secrets: `open` maps path to mode; `exposed` is the config, if others can read the secrets in it."""

    open: Mapping[str, int]
    exposed: str
    exposed_mode: int
    secrets_in_config: Sequence[str]
    is_link: bool
    damage: str
    keyring_problem: str
    # The file of the HTTP port's token.
    token: str = ""


def look(context: CheckContext) -> SecretFacts:
    """Return the modes of files and folders, the secrets in the config, the vault's index, the keyring's state."""
    path = context.places.config_file()
    found = _lstat(os.path.realpath(path))
    literal = [f"{spec.name}: {what}" for spec in context.servers() for what in written_secrets(spec)]
    damage, problem = _vault(context.servers())
    return SecretFacts(
        open=dict(_open()) if not system.is_windows() else {},
        exposed=path if literal and found and _is_exposed(os.path.realpath(path), found) else "",
        exposed_mode=stat.S_IMODE(found.st_mode) if found else 0,
        secrets_in_config=literal,
        is_link=os.path.islink(path),
        damage=damage,
        keyring_problem=problem,
        token=http_token.path(),
    )


def judge(facts: SecretFacts) -> list[Finding]:
    """Return the findings on secrets."""
    findings = []
    for path, mode in facts.open.items():
        wanted = "700" if stat.S_ISDIR(mode) else "600"
        message = f"{path} is open to others (mode {stat.S_IMODE(mode):04o})"
        if path == facts.token:
            message = f"{message}: the token in it may be known by now"
            found = Finding("secrets.token", "broken", message, "hearth token rotate", path, FixRequest("rotate", path))
        else:
            found = Finding(
                "secrets.open", "broken", message, f"chmod {wanted} {path}", path, FixRequest("close", path)
            )
        findings.append(found)
    if facts.exposed:
        findings.append(_exposure(facts))
    elif facts.secrets_in_config:
        message = f"secrets stand in the config themselves: {', '.join(facts.secrets_in_config)}"
        fix = "`hearth secret set NAME`, and ${keyring:NAME} in their place"
        findings.append(Finding("secrets.literal", "note", message, fix))
    if facts.damage:
        fix = "Move it away, then store what was in it again: `hearth secret set NAME`."
        findings.append(Finding("secrets.damaged", "broken", facts.damage, fix))
    if facts.keyring_problem:
        message = f"secrets of yours are out of reach: {facts.keyring_problem}"
        fix = "Log in to the desktop, or start its keyring; or store them again here: `hearth secret set NAME`."
        findings.append(Finding("secrets.keyring", "broken", message, fix))
    return findings or [Finding("secrets.kept", "ok", "nobody else can read them")]


def _exposure(facts: SecretFacts) -> Finding:
    several = f" and {len(facts.secrets_in_config) - 1} more" if len(facts.secrets_in_config) > 1 else ""
    message = (
        f"others can read {facts.exposed} (mode {facts.exposed_mode:04o}), and a secret stands in it:"
        f" {facts.secrets_in_config[0]}{several}"
    )
    fix = f"chmod 600 {facts.exposed}; better still, `hearth secret set NAME` and ${{keyring:NAME}} in its place"
    request = None if facts.is_link else FixRequest("close", facts.exposed)
    return Finding("secrets.config", "broken", message, fix, facts.exposed, request)


def written_secrets(spec: config.ServerSpec) -> list[str]:
    """Return the places in an entry whose value is a literal secret, in words. Pure."""
    entry: dict[str, Any] = {"env": spec.env, "headers": spec.headers, "args": spec.args, "url": spec.url}
    return import_servers.literal_places(entry)


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _open() -> Iterator[tuple[str, int]]:
    """Yield the state's private folders, and the files of some, that others may enter or read, with their modes."""
    for name in _PRIVATE:
        folder = os.path.join(state_dir(), name)
        found = _lstat(folder)
        if found is None or not stat.S_ISDIR(found.st_mode):
            continue
        if found.st_mode & _OTHERS:
            yield folder, found.st_mode
        if name in _SECRET:
            yield from _open_files(folder)


def _open_files(folder: str) -> Iterator[tuple[str, int]]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for path in (os.path.join(folder, name) for name in names):
        found = _lstat(path)
        if found and stat.S_ISREG(found.st_mode) and found.st_mode & _OTHERS:
            yield path, found.st_mode


def _is_exposed(path: str, found: os.stat_result) -> bool:
    """Tell whether others can read a file, by its mode and the modes of the folders above it."""
    if system.is_windows() or not stat.S_ISREG(found.st_mode):
        return False
    for read, enter in ((stat.S_IROTH, stat.S_IXOTH), (stat.S_IRGRP, stat.S_IXGRP)):
        if found.st_mode & read and all(above.st_mode & enter for above in _above(path)):
            return True
    return False


def _above(path: str) -> Iterator[os.stat_result]:
    while (parent := os.path.dirname(path)) != path:
        path = parent
        if found := _lstat(path):
            yield found


def _vault(specs: Sequence[config.ServerSpec]) -> tuple[str, str]:
    """Return the problem of the vault's indexes, and of a keyring that holds a secret which a server refers to."""
    wanted = {name for spec in specs for name in references.secret_names(spec)}
    vault = Vault("secrets")
    if not os.path.isdir(os.path.join(state_dir(), "vault")):
        return "", ""
    try:
        known = vault.entries()
        Vault("oauth").entries()
    except VaultError as error:
        return str(error), ""
    # One value of each keyring is enough.
    for name in {known[name].backend: name for name in sorted(wanted & known.keys())}.values():
        try:
            vault.reach(name, KEYRING_SECONDS)
        except VaultError as error:
            return "", str(error)
    return "", ""
