"""Codex's trust in hooks: Codex runs a hook of the user's only if the user has trusted exactly its present form.

The trust is a hash in Codex's config.toml, `[hooks.state."FILE:EVENT:GROUP:HOOK"] trusted_hash`, of the hook's event,
matcher, command and limits. Hearth reads it and never writes it: the trust is the user's to give. No I/O.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

# Limits that Codex takes for a hook without one, and at most for SessionEnd; they are part of the hash.
_DEFAULT_SECONDS = 600
_SESSION_END_SECONDS = (1, 3)
# Events whose matcher Codex ignores.
_WITHOUT_MATCHER = ("UserPromptSubmit", "Stop")


def hashes(path: str, lists: Mapping[str, list[Any]]) -> dict[tuple[str, int], tuple[str, str]]:
    """Return key and hash of the first hook of each group in a hooks.json, by event and number of the group."""
    found = {}
    for name, groups in lists.items():
        label = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        for number, group in enumerate(groups):
            hooks = group.get("hooks") if isinstance(group, dict) else None
            if isinstance(hooks, list) and hooks and isinstance(hooks[0], dict):
                found[name, number] = f"{path}:{label}:{number}:0", _hash(name, label, group, hooks[0])
    return found


def trusted(tree: Mapping[str, Any]) -> dict[str, str]:
    """Return the trusted hashes in a config.toml of Codex, by key; an empty one for a hook that is switched off."""
    hooks = tree.get("hooks")
    states = hooks.get("state") if isinstance(hooks, dict) else None
    if not isinstance(states, dict):
        return {}
    return {
        key: "" if state.get("enabled") is False else str(state.get("trusted_hash", ""))
        for key, state in states.items()
        if isinstance(state, dict)
    }


def _hash(name: str, label: str, group: Mapping[str, Any], hook: Mapping[str, Any]) -> str:
    seconds = hook.get("timeout")
    if name == "SessionEnd":
        least, most = _SESSION_END_SECONDS
        limit = min(max(seconds if isinstance(seconds, int) else least, least), most)
    else:
        limit = max(seconds if isinstance(seconds, int) else _DEFAULT_SECONDS, 1)
    kept: dict[str, Any] = {
        "type": "command",
        "command": hook.get("command"),
        "timeout": limit,
        "async": hook.get("async") is True,
    }
    if hook.get("statusMessage") is not None:
        kept["statusMessage"] = hook["statusMessage"]
    identity: dict[str, Any] = {"event_name": label, "hooks": [kept]}
    if name not in _WITHOUT_MATCHER and group.get("matcher") is not None:
        identity["matcher"] = group["matcher"]
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
