"""Model of a policy after it was read: immutable types, and nothing that reads files or decides."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from hearth.policy import shell
from hearth.policy.captures import Captured, NoMatch, Surroundings
from hearth.policy.matchers import (
    ArgumentTemplate,
    CommandHead,
    CommandTemplate,
)
from hearth.policy.patterns import EVERYTHING, GLOB_CHARACTERS_LIMIT, NOTHING, PatternIndex, PatternSet, ValueGlob
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

    @cached_property
    def _programs(self) -> dict[str, "_Program"]:
        """Programs of the templates by their first word."""
        leads = [template.lead for template in self.commands]
        return {lead[0]: _program_of(lead[0], leads) for lead in leads} if all(leads) else {}

    @cached_property
    def _program_names(self) -> frozenset[str]:
        return frozenset(word.casefold() for word in self._programs)

    def is_about_others(self, head: CommandHead) -> bool:
        """Tell whether a command is another one beyond doubt, by its first words: none of the templates matches it."""
        found = self._programs.get(head.word)
        if found is None:
            is_other = head.program not in self._program_names and self._program_names.isdisjoint(head.names)
            return bool(self._programs) and is_other and not head.is_wrapper
        if found.others and (head.program in found.others or head.is_wrapper):
            return False
        if found.seconds is None or head.second is None:
            return found.seconds is not None
        return head.is_plain and head.second not in found.seconds and head.second.casefold() not in found.seconds

    @property
    def looks_at_arguments(self) -> bool:
        """Whether the tool's name alone does not tell."""
        return bool(self.commands) or self.arguments is not None


class _Program(NamedTuple):
    """Program of a permission. `others`: names of the permission's other programs, as file systems compare them.

    `seconds`: the words that come next, as they are and without case; None if a template has none there.
    """

    others: frozenset[str]
    seconds: frozenset[str] | None


def _program_of(word: str, leads: Sequence[tuple[str, ...]]) -> _Program:
    others = frozenset(lead[0].casefold() for lead in leads if lead[0] != word)
    seconds = [lead[1:2] for lead in leads if lead[0] == word]
    if not all(seconds):
        return _Program(others, None)
    return _Program(others, frozenset(each for (second,) in seconds for each in (second, second.casefold())))


class BoundPattern(NamedTuple):
    """Pattern of a grant for the capture of that name."""

    capture: str
    glob: ValueGlob


def check_patterns(patterns: Sequence[BoundPattern], found: Captured) -> None:
    """Raise NoMatch unless the captured values match. To give access, every value must; to take it away, one."""
    for capture, glob in patterns:
        values = found.get(capture)
        if not values:
            # The program would choose a value by itself.
            raise NoMatch("no value is given for {}, which must be {}", capture, glob.text)
        if any(len(value) > GLOB_CHARACTERS_LIMIT for value in values):
            raise NoMatch("the value of {} is too long for a pattern", capture)
        results = map(glob.matches, values)
        if not (any(results) if glob.generous else all(results)):
            raise NoMatch("{} is not {}", ", ".join(values), glob.text, fits=True)


class RoleGrant(Record):
    """Use of a permission in `grants` or in a rule: `name`, `name(pattern, …)` or `name(capture=pattern)`.

    `patterns` has a list for each of the permission's templates: captures have other places in each.
    """

    text: str
    permission: Permission
    patterns: tuple[tuple[BoundPattern, ...], ...]
    source: str

    def match_command(self, head: CommandHead, words: tuple[str, ...], around: Surroundings) -> Captured:
        """Return the captured values of a simple command. Raises NoMatch."""
        refusals = []
        for template, patterns in zip(self.permission.commands, self.patterns, strict=True):
            if template.is_other(head):
                # True for most: building a refusal that is never read would cost more than the look.
                continue
            try:
                found = template.match_once(words, around)
                check_patterns(patterns, found)
                return found
            except NoMatch as exc:
                refusals.append(exc)
        if not refusals:
            raise NoMatch("the command is another one", certain=True)
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

    @property
    def reach(self) -> PatternSet:
        """Tools that the rule may be about."""
        if self.grant is None:
            return self.tools or NOTHING
        return self.grant.permission.tools if self.gives else self.grant.permission.reach


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
    def rule_index(self) -> PatternIndex:
        """Index of the rules by their tools."""
        return PatternIndex([rule.reach for rule in self.rules])

    @cached_property
    def permission_list(self) -> tuple[Permission, ...]:
        """Permissions in the order of their index."""
        return tuple(self.permissions.values())

    @cached_property
    def permission_index(self) -> PatternIndex:
        """Index of the permissions by their tools."""
        return PatternIndex([permission.reach for permission in self.permission_list])

    @cached_property
    def plans(self) -> dict[tuple[str, str | None, str], Any]:
        """Cache of `decision`: how each role's calls of a tool are decided. Emptied when full."""
        return {}
