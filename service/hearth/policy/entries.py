"""Reader of permissions and of their uses: `[permissions.NAME]`, and `name(pattern)` in grants and rules. No I/O."""

import re
from collections.abc import Callable
from typing import Any

from hearth.config.model import KeyPath
from hearth.config.schema import nearest, unknown
from hearth.config.value_kinds import BadValue, described
from hearth.policy import agent_modes, patterns
from hearth.policy.captures import UNPATTERNED
from hearth.policy.matchers import (
    ArgumentTemplate,
    BadTemplate,
    Capture,
    CommandTemplate,
    parse_arguments,
    parse_command,
)
from hearth.policy.model import BoundPattern, Permission, RoleGrant
from hearth.policy.patterns import NOTHING, PatternSet, ValueGlob
from hearth.policy.schema import PERMISSION_KEYS

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
# Permissions without a table.
BUILT_IN_PERMISSIONS = {agent_modes.AGENT_MODE: agent_modes.PERMISSION}
_GRANT = re.compile(r"\s*([A-Za-z0-9_][A-Za-z0-9_-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_NAMED_PATTERN = re.compile(r"([a-z][a-z0-9_]*)\s*=\s*(.*)", re.DOTALL)


class PermissionReader:
    """Reader of the permissions of one document, and of their uses. Reports problems to its owner."""

    def __init__(self, source: Callable[[KeyPath], str], problem: Callable[[KeyPath, str], None]) -> None:
        self._source = source
        self._problem = problem
        self._permissions: dict[str, Permission] = {}
        self._failed: set[str] = set()  # a use of them is not reported once more

    def read(self, table: dict[str, Any]) -> dict[str, Permission]:
        """Return the usable permissions by name."""
        for name, entry in table.items():
            before = len(self._failed)
            permission = self._permission(name, entry)
            if len(self._failed) == before:
                self._permissions[name] = permission
        return self._permissions

    def _fail(self, name: str, at: KeyPath, sentence: str) -> None:
        self._failed.add(name)
        self._problem(at, f"permission {name!r}: {sentence}")

    def _permission(self, name: str, entry: object) -> Permission:
        at: KeyPath = ("permissions", name)
        if not NAME.fullmatch(name):
            self._fail(name, at, "its name has letters, digits, '_' and '-' only")
        if name in BUILT_IN_PERMISSIONS:
            self._fail(name, at, "this permission is built in, and grants have it without a table; choose another name")
        values = self._values(name, at, entry)
        if isinstance(entry, dict) and "tool" not in entry:
            self._fail(name, at, 'tool is missing, for example "Bash" or "SERVER__TOOL"')
        if "command" in values and "arguments" in values:
            self._fail(name, (*at, "arguments"), "give either command or arguments")
        tools = self._tools(name, values.get("tool", ()), (*at, "tool"))
        commands = [self._command(name, text, (*at, "command")) for text in values.get("command", ())]
        return Permission(
            name=name,
            tools=tools,
            reach=PatternSet(tools.texts, generous=True),
            commands=tuple(command for command in commands if command),
            arguments=self._arguments(name, values["arguments"], (*at, "arguments")) if "arguments" in values else None,
            source=self._source(at),
        )

    def _values(self, name: str, at: KeyPath, entry: object) -> dict[str, Any]:
        if not isinstance(entry, dict):
            self._fail(name, at, f"must be a table, not {described(entry)}")
            return {}
        found: dict[str, Any] = {}
        for key, value in entry.items():
            if key not in PERMISSION_KEYS:
                self._fail(name, (*at, key), unknown(key, nearest(key, PERMISSION_KEYS)))
                continue
            try:
                found[key] = PERMISSION_KEYS[key].check(value)
            except BadValue as exc:
                self._fail(name, (*at, key), f"{key} {exc}")
        return found

    def _tools(self, name: str, texts: tuple[str, ...], at: KeyPath) -> PatternSet:
        for text in texts:
            if phrase := patterns.fault(text):
                self._fail(name, at, f"pattern {text!r} {phrase}")
                return NOTHING
        return PatternSet(texts)

    def _command(self, name: str, text: str, at: KeyPath) -> CommandTemplate | None:
        try:
            return parse_command(text)
        except BadTemplate as exc:
            self._fail(name, at, f"command {exc}")
            return None

    def _arguments(self, name: str, value: object, at: KeyPath) -> ArgumentTemplate | None:
        if not isinstance(value, dict) or not value:
            self._fail(name, at, f"arguments must be a table of templates by key, not {described(value)}")
            return None
        try:
            return parse_arguments(value)
        except BadTemplate as exc:
            self._fail(name, at, f"arguments {exc}")
            return None

    # --- uses

    def grant(self, text: str, at: KeyPath, generous: bool) -> RoleGrant | None:
        """Return the use of a permission, or None after a problem was reported. `generous`: it takes access away."""
        found = _GRANT.fullmatch(text)
        if found is None:
            self._problem(at, f"{text!r} is not a grant; write name, name(pattern) or name(capture=pattern)")
            return None
        name, inside = found[1], found[2]
        permission = self._permissions.get(name) or BUILT_IN_PERMISSIONS.get(name)
        if permission is None:
            if name not in self._failed:
                near = nearest(name, {**self._permissions, **BUILT_IN_PERMISSIONS})
                hint = f"did you mean {near!r}?" if near else f"write a table [permissions.{name}]"
                self._problem(at, f"there is no permission {name!r}; {hint}")
            return None
        try:
            bound = _bind(permission, inside, generous)
        except BadTemplate as exc:
            self._problem(at, f"{text!r} {exc}")
            return None
        return RoleGrant(text=text.strip(), permission=permission, patterns=bound, source=self._source(at))


def _bind(permission: Permission, inside: str | None, generous: bool) -> tuple[tuple[BoundPattern, ...], ...]:
    """Return the patterns for each template of the permission. Raises BadTemplate."""
    templates = [*permission.commands, *([permission.arguments] if permission.arguments else ())]
    texts = [] if inside is None else [text.strip() for text in inside.split(",")]
    if texts and not templates:
        raise BadTemplate(f"has patterns, but permission {permission.name!r} has no captures")
    return tuple(tuple(_bind_one(template.captures, texts, generous)) for template in templates)


def _bind_one(captures: list[Capture], texts: list[str], generous: bool) -> list[BoundPattern]:
    positional = [capture for capture in captures if capture.kind != UNPATTERNED]
    bound: list[BoundPattern] = []
    for index, text in enumerate(texts):
        named = _NAMED_PATTERN.fullmatch(text)
        if named:
            capture = next((capture for capture in captures if capture.name == named[1]), None)
            if capture is None:
                names = [capture.name for capture in captures]
                near = nearest(named[1], names)
                hint = f"did you mean {near!r}?" if near else f"known: {', '.join(names) or 'none'}"
                raise BadTemplate(f"has a pattern for {named[1]!r}, which is no capture of the permission; {hint}")
            text = named[2]
        elif index < len(positional):
            capture = positional[index]
        else:
            raise BadTemplate(f"has more patterns than the permission has captures ({len(positional)})")
        if any(capture.name == earlier.capture for earlier in bound):
            raise BadTemplate(f"has two patterns for {capture.name!r}")
        bound.append(BoundPattern(capture.name, _glob(capture, text, generous)))
    return bound


def _glob(capture: Capture, text: str, generous: bool) -> ValueGlob:
    if phrase := patterns.fault(text):
        raise BadTemplate(f"has a pattern {text!r} that {phrase}")
    if text.startswith("!"):
        raise BadTemplate(f'has an exclusion {text!r}; write a rule with permission and decide = "deny" instead')
    if capture.kind == "path" and (text.startswith(("/", "~", "\\")) or ".." in text.split("/")):
        raise BadTemplate(f"has a pattern {text!r} that leads outside the workspace; paths are relative to it")
    return ValueGlob(text, generous, capture.kind == "path")
