"""A configuration to look at: every value, where it came from, and none of the secrets.

For `hearth config show`. Pure: an examination in, plain values out.
"""

import re
from collections.abc import Mapping
from typing import Any

from hearth import secret_patterns
from hearth.config.layers import Examination
from hearth.config.model import Config, OAuthSpec, ServerSpec
from hearth.config.schema import PACK_KEYS, SERVER_KEYS, SETTINGS
from hearth.masking import MASK

# A reference tells where a secret is, not what it is; its default may be one.
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_DEFAULT = re.compile(r":-.*")


def setting_value(config: Config, setting: str) -> object:
    """The value of a setting by its name, such as `owner.approve`."""
    value: object = config
    for name in setting.split("."):
        value = getattr(value, name)
    return value


def settings(found: Examination) -> dict[str, dict[str, object]]:
    """Each setting with its value and its origin."""
    return {
        setting: {"value": setting_value(found.config, setting), "origin": found.origin(setting)}
        for setting in SETTINGS
    }


def server(spec: ServerSpec) -> dict[str, Any]:
    """One server as a file would have it, without what is not set and without its secrets."""
    shown: dict[str, Any] = {
        "command": spec.command,
        "args": masked_arguments(spec.args),
        "env": masked_values(spec.env),
        "cwd": spec.cwd,
        "url": spec.url and secret_patterns.masked_url(spec.url),
        "headers": masked_values(spec.headers),
        "oauth": _oauth(spec.oauth),
    }
    # Hearth's own keys hold in any case, those of the other kind of server aside.
    own = {key: getattr(spec, key) for key in SERVER_KEYS if key not in shown}
    if spec.url is None:
        del own["transport"]
    return {key: value for key, value in shown.items() if value} | own


def pack(spec: ServerSpec) -> dict[str, Any]:
    """Return one pack as a file would have it."""
    return {"enabled": not spec.disabled, **{key: getattr(spec, key) for key in PACK_KEYS if key != "enabled"}}


def _oauth(spec: OAuthSpec) -> dict[str, Any]:
    """How to log in, without what is not set and without its secret."""
    shown = {name: getattr(spec, name) for name in spec.fields if getattr(spec, name)}
    return {**shown, "client_secret": masked(spec.client_secret)} if spec.client_secret else shown


def document(found: Examination) -> dict[str, Any]:
    """The whole of it, for `--json`."""
    return {
        "path": found.path,
        "hash": found.config.hash,
        "settings": settings(found),
        "servers": {
            name: {**server(spec), "origin": found.server_origin(name)} for name, spec in found.config.servers.items()
        },
        "packs": {name: pack(spec) for name, spec in found.config.packs.items()},
        "warnings": list(found.warnings),
    }


def masked(value: str) -> str:
    """References as they are, without their defaults; everything beside them masked."""
    references = [_DEFAULT.sub(f":-{MASK}", reference[:-1]) + "}" for reference in _REFERENCE.findall(value)]
    literals = [MASK if literal else "" for literal in _REFERENCE.split(value)]
    pairs = zip(literals, [*references, ""], strict=True)
    return "".join(literal + reference for literal, reference in pairs)


def masked_values(values: Mapping[str, str]) -> dict[str, str]:
    """Names as they are, values masked."""
    return {name: masked(value) for name, value in values.items()}


def masked_arguments(arguments: tuple[str, ...]) -> list[str]:
    """Arguments without what sounds or looks like a secret: `--token=x`, `-k x`, `TOKEN=x`, a password in a URL."""
    return [
        before + masked(secret) if secret else secret_patterns.masked(before)
        for before, secret in secret_patterns.split_arguments(arguments)
    ]
