"""Model of a policy after it was read: immutable types, and nothing that reads files or decides."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from hearth.policy import shell
from hearth.policy.captures import NoMatch, Surroundings
from hearth.policy.matchers import ArgumentTemplate, BoundPattern, Captured, CommandTemplate, check_patterns
from hearth.policy.patterns import EVERYTHING, PatternSet
from hearth.records import Record

Outcome = Literal["allow", "deny", "ask"]
Level = Literal["lead", "human", ""]
Kind = Literal["tools", "resources", "prompts", "methods"]
Otherwise = Literal["allow", "ask", "deny"]
Verdict = Literal["allow", "deny", "ask", "ask_lead", "ask_human"]
StopKind = Literal["committed", "pushed", "pr_filed", "task_done", "command"]

BUILT_IN = "built in"
# Reason of a call to a tool that its role does not have.
NOT_IN_ROLE = "role"


class Decision(NamedTuple):
    """Decision about one call. `level` says who is asked; `source` is `policy.toml:12`, or `built in`."""

    outcome: Outcome
    level: Level
    reason: str
    source: str


# Strictest last. An ask that only a person may answer is stricter than one for the lead.
_STRICTNESS = {("allow", ""): 0, ("ask", "lead"): 1, ("ask", "human"): 2, ("deny", ""): 3}


def stricter(one: Decision, other: Decision) -> Decision:
    """Return the stricter of two decisions; of equal ones, the first."""
    return other if _STRICTNESS[other[:2]] > _STRICTNESS[one[:2]] else one


def decision_of(verdict: Verdict, reason: str, source: str) -> Decision:
    """Return the decision that a rule's or a role's word stands for."""
    if verdict in ("allow", "deny"):
        return Decision(verdict, "", reason, source)
    return Decision("ask", "human" if verdict == "ask_human" else "lead", reason, source)


class StopCheck(NamedTuple):
    """Check that runs when an agent stops. Without roles it holds for all."""

    kind: StopKind
    roles: tuple[str, ...]
    message: str
    action: Literal["block", "nudge"]
    command: tuple[str, ...]


class AuditSettings(NamedTuple):
    """Settings `[audit]`. Without `enabled` only decisions of leads and people are recorded."""

    enabled: bool = True
    days: float = 90
    size: int = 256 * 1024 * 1024


class Permission(Record):
    """Permission `[permissions.NAME]`: the tool that it is about, and templates of the calls that it covers.

    `tools` is read strictly, for grants; `reach` generously, for rules that take away, and for tools that need a grant.
    """

    name: str
    tools: PatternSet
    reach: PatternSet
    commands: tuple[CommandTemplate, ...] = ()
    arguments: ArgumentTemplate | None = None
    source: str = BUILT_IN

    def may_mean(self, command: str) -> bool:
        """Tell whether a command that cannot be split might be one that the permission covers."""
        return not self.commands or any(shell.may_run(command, template.lead[0]) for template in self.commands)

    @property
    def looks_at_arguments(self) -> bool:
        """Whether the tool's name alone does not tell."""
        return bool(self.commands) or self.arguments is not None


class RoleGrant(Record):
    """Use of a permission in `grants` or in a rule: `name`, `name(pattern, …)` or `name(capture=pattern)`.

    `patterns` has a list for each of the permission's templates: captures have other places in each.
    """

    text: str
    permission: Permission
    patterns: tuple[tuple[BoundPattern, ...], ...]
    source: str

    def match_command(self, words: Sequence[str], around: Surroundings) -> Captured:
        """Return the captured values of a simple command. Raises NoMatch."""
        refusals = []
        for template, patterns in zip(self.permission.commands, self.patterns, strict=True):
            try:
                found = template.match(words, around)
                check_patterns(patterns, found)
                return found
            except NoMatch as exc:
                refusals.append(exc)
        # A template that fits, with other values, has understood the command. Else one that might be meant is enough
        # for doubt.
        raise next((refusal for refusal in refusals if refusal.fits), min(refusals, key=lambda each: each.certain))

    def match_arguments(self, values: Mapping[str, object], around: Surroundings) -> Captured:
        """Return the captured values of a tool's arguments. Raises NoMatch."""
        template = self.permission.arguments
        if template is None:
            return {}
        found = template.match(values, around)
        check_patterns(self.patterns[0], found)
        return found


class Role(Record):
    """Role of sessions: the names that it sees, the permissions that it has, and the answer to everything else."""

    name: str
    lead: bool = False
    human: bool = False
    claimable: bool = False
    tools: PatternSet = EVERYTHING
    resources: PatternSet = EVERYTHING
    prompts: PatternSet = EVERYTHING
    methods: PatternSet = EVERYTHING
    may_start: frozenset[str] = frozenset()
    grants: tuple[RoleGrant, ...] = ()
    otherwise: Otherwise = "ask"
    # Where the role, its `tools` and its `otherwise` stand: `policy.toml:12`.
    source: str = BUILT_IN
    tools_source: str = BUILT_IN
    otherwise_source: str = BUILT_IN
    # Keys that the file has for this role.
    given: frozenset[str] = frozenset()


class Rule(Record):
    """Rule `[[rules]]`: it holds for roles (none: all), and for tools by name or for what a permission covers."""

    roles: tuple[str, ...] = ()
    tools: PatternSet | None = None
    grant: RoleGrant | None = None
    decide: Verdict
    reason: str = ""
    source: str = BUILT_IN

    @property
    def gives(self) -> bool:
        """Whether the rule gives access; all others take it away."""
        return self.decide == "allow"


_NO_ROLES: Mapping[str, Role] = MappingProxyType({})
_NO_PERMISSIONS: Mapping[str, Permission] = MappingProxyType({})


class Policy(Record):
    """Policy in force: one file, and perhaps the project's file that narrows it. Swapped whole, never changed."""

    digest: str
    path: str
    default_role: str
    roles: Mapping[str, Role] = _NO_ROLES
    permissions: Mapping[str, Permission] = _NO_PERMISSIONS
    rules: tuple[Rule, ...] = ()
    stop_checks: tuple[StopCheck, ...] = ()
    approval_wait: float = 45.0
    lead_timeout: float = 300.0
    approval_timeout: float = 3600.0
    hook_wait: float = 50.0
    hooks_on_error: Literal["deny", "pass"] = "deny"
    apply: Literal["auto", "manual"] = "auto"
    notify: bool = True
    max_blocks: int = 5
    audit: AuditSettings = AuditSettings()
    # Policy of a project, whose decisions count where they are stricter.
    narrowed_by: "Policy | None" = None

    @property
    def is_project(self) -> bool:
        """Whether this is a project's policy: those have no default role."""
        return not self.default_role

    @cached_property
    def plans(self) -> dict[tuple[str, str | None, str], Any]:
        """Cache of `decision`: how each role's calls of a tool are decided. Emptied when full."""
        return {}
