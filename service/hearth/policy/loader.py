"""Loader of policy.toml: bytes to a policy, with every mistake as `FILE:LINE: sentence`. Does no I/O.

A project's file (`.hearth/policy.toml`) has the same tables, without the keys that could widen.
"""

import os
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from hearth.config import document
from hearth.config.model import KeyPath
from hearth.config.schema import nearest, unknown
from hearth.config.value_kinds import BadValue, ValueKind, described
from hearth.errors import ConfigError
from hearth.paths import Places
from hearth.policy import entries, patterns
from hearth.policy.model import AuditSettings, Policy, Role, Rule, StopCheck
from hearth.policy.patterns import PatternSet
from hearth.policy.schema import (
    AUDIT_KEYS,
    HOOK_KEYS,
    PROJECT_ROLE_KEYS,
    ROLE_KEYS,
    RULE_KEYS,
    SETTINGS,
    STOP_CHECK_KEYS,
    TABLES,
)

# A policy of thousands of rules; a file beyond this is not a policy.
FILE_LIMIT_BYTES = 4 * 1024 * 1024
# More would make `*` over names slow, and no person oversees them.
RULES_LIMIT = 10_000
PROJECT_FOLDER = ".hearth"
FILE_NAME = "policy.toml"
# Role of a policy that could not be read.
DEFAULT_ROLE = "default"


def parse(path: str, data: bytes) -> Policy:
    """Parse the bytes of a policy file. Raises ConfigError with every problem."""
    if len(data) > FILE_LIMIT_BYTES:
        raise ConfigError([f"{path}:1: has over {FILE_LIMIT_BYTES} bytes, too many for a policy"])
    found = document.parse(path, data)
    if found.is_json:
        raise ConfigError([f"{path}:1: must be TOML, not JSON; `hearth policy init` writes an example"])
    reader = _Reader(found, is_project(path))
    policy = reader.read(sha256(data).hexdigest())
    if reader.problems:
        raise ConfigError(reader.problems)
    # Made here, so that the first call under a new policy does not wait for them.
    _ = policy.rule_index, policy.permission_index
    return policy


def file_of(places: Places) -> str:
    """Return the path of a daemon's policy, beside its config; the file need not exist."""
    return os.path.join(os.path.dirname(places.config_file()), FILE_NAME)


def is_project(path: str) -> bool:
    """Tell whether a policy is a project's own, by the folder that it is in."""
    return os.path.basename(os.path.dirname(path)) == PROJECT_FOLDER


def narrow(policy: Policy, project_policy: Policy) -> Policy:
    """Return the policy with a project's policy over it: whatever either refuses is refused."""
    roles: dict[str, Role] = {}
    narrower: dict[str, Role] = {}
    for name, role in policy.roles.items():
        theirs = project_policy.roles.get(name, Role(name=name))
        # A project that does not say what happens otherwise, leaves it to the user's own policy.
        narrower[name] = theirs if "otherwise" in theirs.given else theirs.replace(otherwise="allow")
        roles[name] = role.replace(
            tools=role.tools.narrowed(theirs.tools),
            resources=role.resources.narrowed(theirs.resources),
            prompts=role.prompts.narrowed(theirs.prompts),
            methods=role.methods.narrowed(theirs.methods),
        )
    return policy.replace(
        digest=sha256(f"{policy.digest}{project_policy.digest}".encode()).hexdigest(),
        roles=MappingProxyType(roles),
        stop_checks=policy.stop_checks + project_policy.stop_checks,
        narrowed_by=project_policy.replace(roles=MappingProxyType(narrower)),
    )


def everything_asked(path: str, reason: str) -> Policy:
    """Return the policy for a file that cannot be read, without an earlier one: one role, and a person is asked."""
    rule = Rule(tools=patterns.EVERYTHING, decide="ask_human", reason=reason)
    return Policy(
        digest=sha256(reason.encode()).hexdigest(),
        path=path,
        default_role=DEFAULT_ROLE,
        roles=MappingProxyType({DEFAULT_ROLE: Role(name=DEFAULT_ROLE)}),
        rules=(rule,),
    )


class _Reader:
    """Reader of one document: its policy as far as it is usable, and its problems."""

    def __init__(self, found: document.Document, for_project: bool) -> None:
        self.problems: list[str] = []
        self._document = found
        self._for_project = for_project
        self._permissions = entries.PermissionReader(self.source, self.problem)
        self._role_names: list[str] = []

    def problem(self, key: KeyPath, sentence: str) -> None:
        """Add a problem at the key."""
        self.problems.append(f"{self._document.at(key)}: {sentence}")

    def source(self, key: KeyPath) -> str:
        """Return the place of a key, as decisions name it."""
        name = f"{PROJECT_FOLDER}/{FILE_NAME}" if self._for_project else os.path.basename(self._document.path)
        return f"{name}:{self._document.line(key)}"

    def read(self, digest: str) -> Policy:
        """Return the policy; look at `problems` before it is used."""
        tree = self._document.tree
        self._check_top(tree)
        roles = self._tables(tree, "roles")
        self._role_names = list(roles)
        permissions = self._permissions.read(self._tables(tree, "permissions"))
        settings = self._values(tree, (), {} if self._for_project else SETTINGS, "")
        hooks = self._values(self._tables(tree, "hooks"), ("hooks",), HOOK_KEYS, "hooks.")
        audit = self._values(self._tables(tree, "audit"), ("audit",), AUDIT_KEYS, "audit.")
        return Policy(
            digest=digest,
            path=self._document.path,
            default_role=self._default_role(settings.pop("default_role", None)),
            roles=MappingProxyType({name: self._role(name, table) for name, table in roles.items()}),
            permissions=MappingProxyType(permissions),
            rules=tuple(self._rule(*item) for item in enumerate(self._list(tree, "rules", RULES_LIMIT))),
            stop_checks=tuple(
                self._stop_check(*item) for item in enumerate(self._list(tree, "stop_checks", RULES_LIMIT))
            ),
            audit=AuditSettings(**audit),
            **({"hooks_on_error": hooks["on_error"]} if "on_error" in hooks else {}),
            **settings,
        )

    def _check_top(self, tree: dict[str, Any]) -> None:
        known = [*TABLES, *SETTINGS]
        for key in tree:
            if key not in known:
                self.problem((key,), unknown(key, nearest(key, known)))
            elif self._for_project and (key in SETTINGS or key in ("hooks", "audit")):
                self.problem((key,), f"a project's policy may only narrow: {key} belongs into the user's own policy")

    # --- shapes

    def _tables(self, tree: dict[str, Any], key: str) -> dict[str, Any]:
        value = tree.get(key, {})
        if isinstance(value, dict):
            return value
        self.problem((key,), f"{key} must be a table, not {described(value)}")
        return {}

    def _list(self, tree: dict[str, Any], key: str, limit: int) -> list[Any]:
        value = tree.get(key, [])
        if not isinstance(value, list):
            self.problem((key,), f"{key} must be a list of tables, written [[{key}]], not {described(value)}")
            return []
        if len(value) > limit:
            self.problem((key,), f"{key} has over {limit} entries")
        return value[:limit]

    def _values(self, table: dict[str, Any], at: KeyPath, keys: dict[str, ValueKind], prefix: str) -> dict[str, Any]:
        """Return the checked values of the known keys."""
        found: dict[str, Any] = {}
        for key, value in table.items():
            if key not in keys:
                if at:  # `_check_top` has those at the top
                    self.problem((*at, key), f"{prefix}{unknown(key, nearest(key, keys))}")
                continue
            try:
                found[key] = keys[key].check(value)
            except BadValue as exc:
                self.problem((*at, key, *exc.at), f"{prefix}{key} {exc}")
        return found

    def _entry(self, at: KeyPath, value: object, keys: dict[str, ValueKind], what: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.problem(at, f"{what} must be a table, not {described(value)}")
            return {}
        return self._values(value, at, keys, f"{what}: ")

    # --- roles

    def _default_role(self, name: str | None) -> str:
        if self._for_project:
            return ""
        if not self._role_names:
            self.problem(("roles",), "there is no role; write a table [roles.NAME]")
        elif name is None:
            self.problem((), f"default_role is missing; name one of {', '.join(self._role_names)}")
        else:
            self._check_role(("default_role",), name, "default_role")
        return name or ""

    def _check_role(self, at: KeyPath, name: str, what: str) -> None:
        if name in self._role_names or self._for_project:
            return
        near = nearest(name, self._role_names)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(self._role_names) or 'none'}"
        self.problem(at, f"{what}: there is no role {name!r}; {hint}")

    def _role(self, name: str, table: object) -> Role:
        at: KeyPath = ("roles", name)
        found = self._entry(at, table, ROLE_KEYS, f"role {name!r}")
        if not entries.NAME.fullmatch(name):
            self.problem(at, f"role {name!r}: a role's name has letters, digits, '_' and '-' only")
        if self._for_project:
            for key in found.keys() - PROJECT_ROLE_KEYS:
                self.problem((*at, key), f"role {name!r}: a project's policy may only narrow, and {key} could widen")
        for key in ("lead", "human"):
            if found.get("claimable") and found.get(key):
                self.problem((*at, "claimable"), f"role {name!r}: a role with {key} decides, so it needs a role token")
        for index, other in enumerate(found.get("may_start", ())):
            self._check_role((*at, "may_start", index), other, f"role {name!r}: may_start")
        grants = [
            self._permissions.grant(text, (*at, "grants", index), generous=False)
            for index, text in enumerate(found.pop("grants", ()))
        ]
        tools = patterns.EVERYTHING if self._for_project else patterns.NOTHING
        if "tools" in found:
            tools = self._patterns(found.pop("tools"), (*at, "tools"))
        for key in ("resources", "prompts", "methods"):
            found[key] = self._patterns(found[key], (*at, key)) if key in found else tools
        return Role(
            name=name,
            tools=tools,
            grants=tuple(grant for grant in grants if grant is not None),
            may_start=frozenset(found.pop("may_start", ())),
            source=self.source(at),
            tools_source=self.source((*at, "tools")),
            otherwise_source=self.source((*at, "otherwise")),
            given=frozenset(table if isinstance(table, dict) else ()),
            **found,
        )

    def _patterns(self, texts: tuple[str, ...], at: KeyPath, generous: bool = False) -> PatternSet:
        usable = []
        for index, text in enumerate(texts):
            if phrase := patterns.fault(text):
                self.problem((*at, index), f"pattern {text!r} {phrase}")
            else:
                usable.append(text)
        if texts and all(text.startswith("!") for text in texts):
            self.problem(at, f'{at[-1]} has exclusions only, and hence nothing; put "**" before them')
        return PatternSet(usable, generous)

    # --- rules

    def _rule(self, index: int, value: object) -> Rule:
        at: KeyPath = ("rules", index)
        found = self._entry(at, value, RULE_KEYS, "rule")
        for name in found.get("role", ()):
            self._check_role((*at, "role"), name, "rule")
        decide = found.get("decide")
        if decide is None and isinstance(value, dict) and "decide" not in value:
            self.problem(at, "rule: decide is missing; it is allow, deny, ask, ask_lead or ask_human")
        if self._for_project and decide == "allow":
            self.problem((*at, "decide"), "rule: a project's policy may only narrow, and cannot allow")
        if isinstance(value, dict) and ("tool" in value) == ("permission" in value):
            self.problem(at, "rule: give either tool (a pattern of names) or permission (a permission, as in grants)")
        generous = decide != "allow"
        tools = self._patterns(found["tool"], (*at, "tool"), generous) if "tool" in found else None
        grant = (
            self._permissions.grant(found["permission"], (*at, "permission"), generous)
            if "permission" in found
            else None
        )
        return Rule(
            roles=found.get("role", ()),
            tools=tools,
            grant=grant,
            decide=decide or "deny",
            reason=found.get("reason", ""),
            source=self.source((*at, "decide")),
        )

    def _stop_check(self, index: int, value: object) -> StopCheck:
        at: KeyPath = ("stop_checks", index)
        found = self._entry(at, value, STOP_CHECK_KEYS, "stop check")
        for name in found.get("roles", ()):
            self._check_role((*at, "roles"), name, "stop check")
        kind, command = found.get("kind"), found.get("command", ())
        if kind is None and isinstance(value, dict) and "kind" not in value:
            self.problem(at, "stop check: kind is missing; it is committed, pushed, pr_filed, task_done or command")
        elif kind is not None and (kind == "command") != bool(command):
            self.problem(at, 'stop check: command is the program of kind = "command", and of no other kind')
        elif kind == "command" and self._for_project:
            self.problem(at, "stop check: a project's policy cannot have programs run")
        return StopCheck(
            kind or "committed", found.get("roles", ()), found.get("message", ""), found.get("action", "block"), command
        )
