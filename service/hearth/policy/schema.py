"""Schema of policy.toml: every key with the kind of its value. The defaults are in the model."""

from hearth.config import value_kinds
from hearth.config.value_kinds import BadValue, ValueKind, described

# Shorter waits would answer "pending" before anybody could decide; a longer one is beyond every client's time limit.
_LONGEST_WAIT_SECONDS = 600
# A client that is blocked more often has no way to report that it cannot do better.
_MOST_BLOCKS = 100
# A log has eight segments, and smaller ones would be more of the file's own pages than of rows.
_LEAST_AUDIT_BYTES = 1024 * 1024
_MOST_AUDIT_BYTES = 1024**4
_MOST_AUDIT_DAYS = 36_500


def _wait(least: float) -> ValueKind:
    inner = value_kinds.seconds(least)

    def check(value: object) -> object:
        seconds = inner.check(value)
        if isinstance(seconds, float) and seconds > _LONGEST_WAIT_SECONDS:
            raise BadValue(f"must be at most {_LONGEST_WAIT_SECONDS} seconds: clients give up by then")
        return seconds

    return ValueKind(check)


@ValueKind
def one_or_more(value: object) -> tuple[str, ...]:
    """Check a text, or a list of texts that are not empty."""
    texts = value_kinds.texts.check([value] if isinstance(value, str) else value)
    if not isinstance(texts, tuple) or not texts or not all(texts):
        raise BadValue(f"must be a text or a list of texts, not {described(value)}")
    return texts


TABLES = ("roles", "permissions", "rules", "stop_checks", "hooks", "audit")

SETTINGS: dict[str, ValueKind] = {
    "default_role": value_kinds.text,
    "approval_wait": _wait(0),
    "lead_timeout": value_kinds.seconds(),
    "approval_timeout": value_kinds.seconds(1),
    "hook_wait": _wait(1),
    "apply": value_kinds.choice("auto", "manual"),
    "notify": value_kinds.flag,
    "max_blocks": value_kinds.count(0, _MOST_BLOCKS),
}

HOOK_KEYS: dict[str, ValueKind] = {"on_error": value_kinds.choice("deny", "pass")}

AUDIT_KEYS: dict[str, ValueKind] = {
    "enabled": value_kinds.flag,
    "days": value_kinds.count(1, _MOST_AUDIT_DAYS),
    "size": value_kinds.size(_LEAST_AUDIT_BYTES, _MOST_AUDIT_BYTES),
}

ROLE_KEYS: dict[str, ValueKind] = {
    "lead": value_kinds.flag,
    "human": value_kinds.flag,
    "claimable": value_kinds.flag,
    "tools": value_kinds.texts,
    "resources": value_kinds.texts,
    "prompts": value_kinds.texts,
    "methods": value_kinds.texts,
    "may_start": value_kinds.texts,
    "grants": value_kinds.texts,
    "otherwise": value_kinds.choice("allow", "ask", "deny"),
}
# Keys of a role that a project may have: they can only take away.
PROJECT_ROLE_KEYS = frozenset({"tools", "resources", "prompts", "methods", "grants", "otherwise"})

PERMISSION_KEYS: dict[str, ValueKind] = {
    "tool": one_or_more,
    "command": one_or_more,
    "arguments": ValueKind(lambda value: value),  # read by `matchers`
}

RULE_KEYS: dict[str, ValueKind] = {
    "role": one_or_more,
    "tool": one_or_more,
    "permission": value_kinds.text,
    "decide": value_kinds.choice("allow", "deny", "ask", "ask_lead", "ask_human"),
    "reason": value_kinds.text,
}

STOP_CHECK_KEYS: dict[str, ValueKind] = {
    "kind": value_kinds.choice("committed", "pushed", "pr_filed", "task_done", "command"),
    "roles": one_or_more,
    "message": value_kinds.text,
    "action": value_kinds.choice("block", "nudge"),
    "command": one_or_more,
}
