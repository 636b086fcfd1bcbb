"""Policy as a document, for `hearth policy show` and other frontends, and remarks about a policy that is valid."""

from collections.abc import Iterator

from hearth.policy.model import Policy, Role

# Settings of a policy, by their keys in the file.
SETTINGS = (
    "default_role",
    "approval_wait",
    "lead_timeout",
    "approval_timeout",
    "hook_wait",
    "apply",
    "notify",
    "max_blocks",
)


def document(policy: Policy) -> dict[str, object]:
    """Return the policy in force."""
    return {
        "path": policy.path,
        "digest": policy.digest,
        "settings": {
            **{name: getattr(policy, name) for name in SETTINGS},
            "hooks.on_error": policy.hooks_on_error,
            **{f"audit.{name}": value for name, value in policy.audit._asdict().items()},
        },
        "roles": {name: _role(role) for name, role in policy.roles.items()},
        "permissions": {
            name: {
                "tool": list(permission.tools.texts),
                "command": [template.text for template in permission.commands],
                "arguments": permission.arguments is not None,
                "source": permission.source,
            }
            for name, permission in policy.permissions.items()
        },
        "rules": [
            {
                "roles": list(rule.roles),
                "tool": list(rule.tools.texts) if rule.tools is not None else [],
                "permission": rule.grant.text if rule.grant is not None else None,
                "decide": rule.decide,
                "reason": rule.reason,
                "source": rule.source,
            }
            for rule in policy.rules
        ],
        "stopChecks": [
            {**check._asdict(), "roles": list(check.roles), "command": list(check.command)}
            for check in policy.stop_checks
        ],
    }


def _role(role: Role) -> dict[str, object]:
    sets = {key: list(getattr(role, key).texts) for key in ("tools", "resources", "prompts", "methods")}
    return {
        "lead": role.lead,
        "human": role.human,
        "claimable": role.claimable,
        **sets,
        "mayStart": sorted(role.may_start),
        "grants": [grant.text for grant in role.grants],
        "otherwise": role.otherwise,
        "source": role.source,
    }


def warnings(policy: Policy) -> list[str]:
    """Return sentences about parts of a valid policy that are probably not meant so."""
    return list(_warnings(policy))


def _warnings(policy: Policy) -> Iterator[str]:
    for role in policy.roles.values():
        if not role.tools.texts:
            yield f'{role.source}: role {role.name!r} has no tools, and sees nothing; `tools = ["**"]` shows everything'
        if role.otherwise == "allow" and role.grants:
            yield f"{role.source}: role {role.name!r} may do everything otherwise, so its grants change nothing"
    used = {grant.permission.name for role in policy.roles.values() for grant in role.grants}
    used |= {rule.grant.permission.name for rule in policy.rules if rule.grant is not None}
    for permission in policy.permissions.values():
        if permission.name not in used:
            yield f"{permission.source}: permission {permission.name!r} is in no grant and no rule"
    if not any(role.lead for role in policy.roles.values()):
        yield f"{policy.path}: no role is a lead, so every question goes to a person"
