"""Display form of a configuration, for `hearth config show`: every value and its origin, secrets masked.

Pure: an examination in, plain values out.
"""

import re
from collections.abc import Mapping
from typing import Any

from hearth import secret_patterns
from hearth.config.layers import Examination
from hearth.config.model import Config, OAuthSpec, ProviderSpec, ServerSpec
from hearth.config.schema import PACK_KEYS, SERVER_KEYS, SETTINGS
from hearth.masking import MASK

# A reference names the place of a secret, not the secret; its default may be a secret.
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_DEFAULT = re.compile(r":-.*")


def setting_value(config: Config, setting: str) -> object:
    """Return the value of a setting by its name, such as `owner.approve`."""
    value: object = config
    for name in setting.split("."):
        value = getattr(value, name)
    return value


def settings(found: Examination) -> dict[str, dict[str, object]]:
    """Return each setting with its value and its origin."""
    return {
        setting: {"value": setting_value(found.config, setting), "origin": found.origin(setting)}
        for setting in SETTINGS
    }


def server(spec: ServerSpec) -> dict[str, Any]:
    """Return one server as a file would have it, without unset keys and without its secrets."""
    shown: dict[str, Any] = {
        "command": spec.command,
        "args": masked_arguments(spec.args),
        "env": masked_values(spec.env),
        "cwd": spec.cwd,
        "url": spec.url and secret_patterns.masked_url(spec.url),
        "headers": masked_values(spec.headers),
        "oauth": _oauth(spec.oauth),
    }
    # Hearth's own keys are always in force, except those for the other kind of server.
    own = {key: getattr(spec, key) for key in SERVER_KEYS if key not in shown}
    if spec.url is None:
        del own["transport"]
    return {key: value for key, value in shown.items() if value} | own


def provider(spec: ProviderSpec) -> dict[str, Any]:
    """Return one provider of agents as a file would have it, without its secrets."""
    shown = {"command": spec.command, "args": masked_arguments(spec.args), "env": masked_values(spec.env)}
    return {key: value for key, value in {**shown, "title": spec.title}.items() if value}


def pack(spec: ServerSpec) -> dict[str, Any]:
    """Return one pack as a file would have it."""
    return {"enabled": not spec.disabled, **{key: getattr(spec, key) for key in PACK_KEYS if key != "enabled"}}


def _oauth(spec: OAuthSpec) -> dict[str, Any]:
    """Return the OAuth settings, without unset keys and without the secret."""
    shown = {name: getattr(spec, name) for name in spec.fields if getattr(spec, name)}
    return {**shown, "client_secret": masked(spec.client_secret)} if spec.client_secret else shown


def document(found: Examination) -> dict[str, Any]:
    """Return the whole configuration, for `--json`."""
    return {
        "path": found.path,
        "hash": found.config.hash,
        "settings": settings(found),
        "servers": {
            name: {**server(spec), "origin": found.server_origin(name)} for name, spec in found.config.servers.items()
        },
        "packs": {name: pack(spec) for name, spec in found.config.packs.items()},
        "providers": {name: provider(spec) for name, spec in found.config.agents.providers.items()},
        "warnings": list(found.warnings),
    }


def masked(value: str) -> str:
    """Return a value with its references kept, without their defaults, and everything else masked."""
    references = [_DEFAULT.sub(f":-{MASK}", reference[:-1]) + "}" for reference in _REFERENCE.findall(value)]
    literals = [MASK if literal else "" for literal in _REFERENCE.split(value)]
    return "".join(literal + reference for literal, reference in zip(literals, [*references, ""], strict=True))


def masked_values(values: Mapping[str, str]) -> dict[str, str]:
    """Return the same names with masked values."""
    return {name: masked(value) for name, value in values.items()}


def masked_arguments(arguments: tuple[str, ...]) -> list[str]:
    """Return arguments with secrets masked, by name or shape: `--token=x`, `-k x`, `TOKEN=x`, a password in a URL."""
    return [
        before + masked(secret) if secret else secret_patterns.masked(before)
        for before, secret in secret_patterns.split_arguments(arguments)
    ]
