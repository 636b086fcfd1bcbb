"""Decision about one call: (policy, role, tool, arguments, workspace) → allow, deny or ask.

The rules, in their order:

 1. Built in: no agent writes Hearth's config and state, `.hearth/`, or a client's hook settings. Deny; nothing
    overrides it.
 2. A tool of an MCP server that is not in the role's `tools`: deny, with the reason "role".
 3. `[[rules]]`, from the top: the first one that matches decides. A rule that takes access away (deny, ask) and that
    cannot tell whether it matches, asks.
 4. `grants` of the role: allow.
 5. A tool of an MCP server that no `[permissions.*]` names: allow. `tools` has given it.
 6. `otherwise` of the role. For what `agent_modes` lists, a person is asked where it allows.

A shell command is split into simple commands; each is decided by 3 to 6, and the strictest decision counts. A command
that cannot be split for certain matches no grant, and makes rules of step 3 ask.

Arguments are decoded only where a step looks at them, and then once: repeated keys, values that are not JSON, and
arguments beyond ARGUMENTS_LIMIT_BYTES match nothing, and are never allowed. Decisions by name alone are remembered in
the policy. A project's policy is asked as well, and the stricter decision counts.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from hearth.policy import guard, shell
from hearth.policy.agent_modes import FOR_PERSON
from hearth.policy.captures import NoMatch, Surroundings, shown
from hearth.policy.matchers import head_of
from hearth.policy.model import (
    BUILT_IN,
    NOT_IN_ROLE,
    Decision,
    Kind,
    Policy,
    Role,
    RoleGrant,
    decision_of,
    stricter,
)
from hearth.policy.patterns import is_usable

# Arguments beyond this are not decoded, but asked about: no granted call needs a megabyte.
ARGUMENTS_LIMIT_BYTES = 1024 * 1024
# Tools of a few sessions with thousands each; names come from clients, so the cache must have a bound.
PLANS_LIMIT = 16384

# The argument that holds a command, in the canonical form of a client's shell tool.
COMMAND = "command"
# Arguments beside the command that do not change what it does.
_HARMLESS = frozenset(
    {COMMAND, "description", "is_background", "justification", "run_in_background", "timeout", "timeout_ms"}
)
# Commands after which relative paths mean other files.
_MOVERS = frozenset({"cd", "chdir", "pushd", "popd"})


class _Step(NamedTuple):
    """Step that looks at arguments: what a rule or a grant covers, and the decision if it does."""

    grant: RoleGrant
    decision: Decision
    gives: bool


class _Plan(NamedTuple):
    """How calls of one tool by one role are decided: steps in their order, then `finally_`.

    `is_guarded`: the built-in denials look at the arguments. `is_scanned`: only if they mention a protected file.
    """

    steps: tuple[_Step, ...]
    finally_: Decision
    is_guarded: bool = False
    is_scanned: bool = False


class ByName(NamedTuple):
    """Decision to allow a tool by its name. `is_scanned`: `decide` must be asked if `mentions` finds something."""

    decision: Decision
    is_scanned: bool


class _Unreadable(Exception):
    """Error for arguments that are not decoded: a phrase to follow "the arguments"."""


def sees(role: Role, kind: Kind, server: str, name: str) -> bool:
    """Tell whether a role sees a tool, resource, prompt or method of a server, by the server's own name for it."""
    patterns = getattr(role, kind)
    return bool(patterns.matches(server, name))


def decide(
    policy: Policy, role: str, server: str | None, tool: str, arguments: bytes | None, workspace: str | None
) -> Decision:
    """Decide about one call. `server` is None for a client's own tool; `arguments` is a raw JSON object."""
    plan = policy.plans.get((role, server, tool)) or _plan(policy, role, server, tool)
    decision: Decision = plan.finally_
    if plan.steps or plan.is_guarded or (plan.is_scanned and arguments and guard.mentions(arguments)):
        decision = _examine(policy, plan, server, tool, arguments, workspace)
    if policy.narrowed_by is not None and decision.outcome != "deny":
        narrower = decide(policy.narrowed_by, role, server, tool, arguments, workspace)
        decision = stricter(decision, narrower)
    return decision


# --- by name


def allowed_by_name(policy: Policy, role: str, server: str, tool: str) -> ByName | None:
    """Return the decision if it is to allow the tool of a server, whatever its arguments are; else None."""
    plan = policy.plans.get((role, server, tool)) or _plan(policy, role, server, tool)
    if plan.finally_.outcome != "allow" or plan.steps or plan.is_guarded:
        return None
    found = ByName(plan.finally_, plan.is_scanned)
    if policy.narrowed_by is not None:
        narrower = allowed_by_name(policy.narrowed_by, role, server, tool)
        return None if narrower is None else found._replace(is_scanned=found.is_scanned or narrower.is_scanned)
    return found


def _plan(policy: Policy, role: str, server: str | None, tool: str) -> _Plan:
    """Return how calls of a tool are decided, and remember it."""
    found = policy.roles.get(role)
    if not is_usable(server, tool):
        # Not remembered: the name may have megabytes.
        return _Plan((), Decision("deny", "", "the name of the tool is too long, or has a NUL in it", BUILT_IN))
    if found is None:
        plan = _Plan((), Decision("deny", "", f"there is no role {role!r} in the policy", BUILT_IN))
    else:
        plan = _plan_of_role(policy, found, server, tool)
    if len(policy.plans) >= PLANS_LIMIT:
        policy.plans.clear()
    policy.plans[role, server, tool] = plan
    return plan


def _excluder(policy: Policy, role: Role, server: str, tool: str) -> Role:
    """Return the role whose `tools` leave a tool out: the project's, where that one does."""
    theirs = policy.narrowed_by.roles.get(role.name) if policy.narrowed_by else None
    return theirs if theirs and not theirs.tools.matches(server, tool) else role


def _plan_of_role(policy: Policy, role: Role, server: str | None, tool: str) -> _Plan:
    if server is not None and not role.tools.matches(server, tool):
        return _Plan((), Decision("deny", "", NOT_IN_ROLE, _excluder(policy, role, server, tool).tools_source))
    steps: list[_Step] = []
    last: Decision | None = None
    for number in policy.rule_index.candidates(server, tool):
        rule = policy.rules[number]
        if (rule.roles and role.name not in rule.roles) or not rule.reach.matches(server, tool):
            continue
        decision = decision_of(rule.decide, rule.reason or f"a rule says {rule.decide}", rule.source)
        if rule.grant is None or not rule.grant.permission.looks_at_arguments:
            last = decision
            break
        steps.append(_Step(rule.grant, decision, rule.gives))
    if last is None:
        last = _by_grants(policy, role, server, tool, steps)
    if last.outcome == "allow" and all(step.gives for step in steps):
        # Nothing that the arguments say could make a difference.
        steps.clear()
    is_guarded = (last.outcome != "deny" or bool(steps)) and guard.is_guarded(server, tool)
    return _Plan(tuple(steps), last, is_guarded and server is None, is_guarded and server is not None)


def _by_grants(policy: Policy, role: Role, server: str | None, tool: str, steps: list[_Step]) -> Decision:
    """Add the role's grants to the steps; return the decision by name, or what remains without a grant."""
    for grant in role.grants:
        if not grant.permission.tools.matches(server, tool):
            continue
        decision = Decision("allow", "", f"granted by {grant.text}", grant.source)
        if not grant.permission.looks_at_arguments:
            return decision
        steps.append(_Step(grant, decision, True))
    if server is not None and not any(
        policy.permission_list[number].reach.matches(server, tool)
        for number in policy.permission_index.candidates(server, tool)
    ):
        return Decision("allow", "", f"role {role.name!r} has this tool", role.tools_source)
    reason = f"no rule and no grant of role {role.name!r} covers it"
    if server is None and tool in FOR_PERSON and role.otherwise == "allow" and not policy.is_project:
        return decision_of("ask_human", reason, BUILT_IN)
    return decision_of(role.otherwise, reason, role.otherwise_source)


# --- by arguments


def _examine(
    policy: Policy, plan: _Plan, server: str | None, tool: str, arguments: bytes | None, workspace: str | None
) -> Decision:
    around = Surroundings(workspace)
    try:
        values = decoded(arguments)
    except _Unreadable as exc:
        return _asked(plan, f"the arguments {exc}")
    if plan.is_guarded or plan.is_scanned:
        sentence = guard.refusal(server, tool, values, around, policy.path)
        if sentence is not None:
            return Decision("deny", "", sentence, BUILT_IN)
    if not plan.steps:
        return plan.finally_
    if not any(step.grant.permission.commands for step in plan.steps):
        return _walk(plan, (), values, around)
    try:
        commands = _commands(values)
    except _Unreadable as exc:
        return _asked(plan, str(exc), values.get(COMMAND))
    return _decide_commands(plan, commands, values, around)


def _decide_commands(
    plan: _Plan, commands: Sequence[shell.SimpleCommand], values: Mapping[str, object], around: Surroundings
) -> Decision:
    """Decide about each simple command; the strictest decision counts."""
    decision: Decision | None = None
    for words in (command.words for command in commands):
        found = _walk(plan, words, values, around)
        decision = found if decision is None else stricter(decision, found)
        if words[0] in _MOVERS:
            around = Surroundings(None)
    return decision or plan.finally_


def _walk(plan: _Plan, words: tuple[str, ...], values: Mapping[str, object], around: Surroundings) -> Decision:
    """Return the decision of the first step that matches, or the last word, with the reason why no step did."""
    closest = ""
    doubt: Decision | None = None
    found = plan.finally_
    head = head_of(words) if words else None
    for step in plan.steps:
        if head is not None and step.grant.permission.is_about_others(head):
            continue
        try:
            if head is not None and step.grant.permission.commands:
                step.grant.match_command(head, words, around)
            else:
                step.grant.match_arguments(values, around)
            found = step.decision
            break
        except NoMatch as exc:
            if not step.gives and not exc.certain:
                unsure = _unsure(step, str(exc))
                doubt = unsure if doubt is None else stricter(doubt, unsure)
            elif step.gives and not closest and (exc.fits or not exc.certain):
                closest = f"{step.grant.permission.name}: {exc}"
    else:
        found = _with_reason(found, closest)
    return found if doubt is None else stricter(doubt, found)


def _asked(plan: _Plan, sentence: str, command: object = None) -> Decision:
    """Return the decision about a call that cannot be read: never an allow."""
    decision = _with_reason(plan.finally_, sentence)
    for step in plan.steps:
        if not step.gives and (not isinstance(command, str) or step.grant.permission.may_mean(command)):
            decision = stricter(decision, _unsure(step, sentence))
    return stricter(decision, Decision("ask", "lead", sentence, BUILT_IN))


def _unsure(step: _Step, sentence: str) -> Decision:
    level: Literal["lead", "human"] = "human" if step.decision.level == "human" else "lead"
    return Decision("ask", level, f"{step.decision.reason} ({sentence})", step.decision.source)


def _with_reason(decision: Decision, detail: str) -> Decision:
    return decision._replace(reason=f"{decision.reason} ({detail})") if detail else decision


def _commands(values: Mapping[str, object]) -> tuple[shell.SimpleCommand, ...]:
    """Return the simple commands in the arguments. Raises _Unreadable."""
    command = values.get(COMMAND)
    if not isinstance(command, str):
        raise _Unreadable("there is no command in the arguments")
    if strange := next((key for key in values if key not in _HARMLESS), None):
        raise _Unreadable(f"the argument {shown(strange)} may change what the command does")
    try:
        return shell.split(command)
    except shell.Unsplittable as exc:
        raise _Unreadable(f"the command has {exc}") from None


def decoded(arguments: bytes | None) -> dict[str, Any]:
    """Return the arguments as a table. Raises _Unreadable for everything that two parsers might read differently."""
    if arguments is None:
        return {}
    if len(arguments) > ARGUMENTS_LIMIT_BYTES:
        raise _Unreadable(f"have over {ARGUMENTS_LIMIT_BYTES} bytes")
    try:
        found = _decode(arguments.decode("utf-8"))
    except _Unreadable:
        raise
    except (ValueError, RecursionError):
        raise _Unreadable("are not JSON in UTF-8") from None
    if not isinstance(found, dict):
        raise _Unreadable("are not a JSON object")
    return found


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Unreadable("have a key twice")
    return found


def _no_constant(name: str) -> object:
    raise _Unreadable(f"have {name}, which is not JSON")


def _decode(text: str) -> object:
    """Decode a JSON text, without the look for blanks around it where there are none. Raises ValueError."""
    if not text.startswith("{"):
        return _DECODER.decode(text)
    found, end = _DECODER.raw_decode(text)
    return found if end == len(text) else _DECODER.decode(text)


# Made once: `json.loads` makes one for every text.
_DECODER = json.JSONDecoder(object_pairs_hook=_table, parse_constant=_no_constant)
