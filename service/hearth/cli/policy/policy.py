"""`hearth policy check|show|explain|init`: the policy file, read by this command and not by a daemon.

`trust` has the verbs by which a person lets something count.
"""

import json
import os
import sys
import textwrap
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from hearth.cli import daemon_choice
from hearth.cli.daemon_choice import with_places
from hearth.cli.messages import completed, json_option, json_text, note, print_json, suggestion, tell
from hearth.cli.policy import trust
from hearth.cli.policy.role import complete_role
from hearth.config.loader import read_file
from hearth.control_client import running_daemon
from hearth.errors import ConfigError, Refused
from hearth.host import edited_files
from hearth.output import status_lines, table, terminal
from hearth.paths import Places
from hearth.policy import loader
from hearth.policy import show as policy_show
from hearth.policy.agent_modes import FOR_PERSON, for_person
from hearth.policy.decision import decide
from hearth.policy.model import BUILT_IN, Decision, Policy, Role
from hearth.policy.template import TEMPLATES
from hearth.policy.trust import TrustStore, project_file

# Clients' own tools, for completion, with the argument that a text which is not JSON stands for.
OWN_TOOLS = {"Bash": "command", "Read": "file_path", "Edit": "file_path", "Write": "file_path"}
_ASKED = {"lead": "ask the lead", "human": "ask a person"}


@click.group()
def policy() -> None:
    """Say who may do what: roles, permissions and rules in policy.toml, beside the config.

    Without the file every client may do everything. docs/policy.md explains the file.

    \b
    Examples:
      hearth policy init               a policy for a lead and its developers
      hearth policy check              is it right? (exit code 2 if not)
      hearth policy show               who may do what
      hearth policy explain --role dev Bash 'git push origin main'
      hearth policy trust              let the policy of this project count
    """


for _verb in (trust.apply, trust.trust, trust.untrust):
    policy.add_command(_verb)


def _read(path: str) -> Policy | None:
    """Return the policy of a file, or None if there is no file. Raises ConfigError."""
    data = read_file(path, loader.FILE_LIMIT_BYTES)
    return None if data is None else loader.parse(path, data)


@policy.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@json_option("Print the problems and warnings as JSON.")
@with_places
def check(places: Places, file: str | None, as_json: bool) -> int:
    """Look for mistakes in the policy, or in FILE: unknown keys, roles and permissions, templates that cannot be read.
    Prints all of them with file and line. Exits with 2 if there is a problem, with 0 if there are warnings only.

    \b
    Examples:
      hearth policy check
      hearth policy check .hearth/policy.toml
    """
    path = os.path.abspath(file) if file else loader.file_of(places)
    problems: list[str] = []
    warnings: list[str] = []
    found: Policy | None = None
    try:
        found = _read(path)
        if found is None and file:
            raise ConfigError([f"{path}: does not exist"])
        warnings = policy_show.warnings(found) if found and not loader.is_project(path) else []
    except ConfigError as exc:
        problems = exc.problems
    lines = [f"{click.style('problem:', fg='red')} {table.clean(problem)}" for problem in problems]
    lines += [f"{click.style('warning:', fg='yellow')} {table.clean(warning)}" for warning in warnings]
    if not problems:
        state = "does not exist, so every client may do everything" if found is None else f"is right: {_counted(found)}"
        lines.append(f"{path} {state}.")
    document = {"path": path, "exists": bool(problems) or found is not None, "problems": problems, "warnings": warnings}
    tell(as_json, document, *lines)
    return ConfigError.exit_code if problems else 0


def _counted(found: Policy) -> str:
    parts = {"role": found.roles, "permission": found.permissions, "rule": found.rules}
    return ", ".join(status_lines.count(len(items), name) for name, items in parts.items())


@policy.command()
@json_option("Print the policy as JSON.")
@with_places
def show(places: Places, as_json: bool) -> None:
    """Print the roles with the tools that each sees and its grants, the rules in their order, stop checks and settings.

    This is the file as it is now. A running daemon keeps the last good one when the file has a mistake.

    \b
    Examples:
      hearth policy show
      hearth policy show --json | jq .roles.dev.grants
    """
    path = loader.file_of(places)
    found = _read(path)
    if found is None:
        tell(as_json, None, f"{path} does not exist, so every client may do everything.")
        return
    if as_json:
        print_json(policy_show.document(found))
        return
    width = terminal.width()
    lines = [line for role in found.roles.values() for line in _role_lines(role, found.default_role, width)]
    rules = [
        (
            rule.source,
            ", ".join(rule.roles) or "all",
            rule.grant.text if rule.grant else " ".join(rule.tools.texts if rule.tools else ()),
            rule.decide,
            rule.reason,
        )
        for rule in found.rules
    ]
    if rules:
        lines += ["", *table.columns(("RULE", "ROLE", "FOR", "DECIDES", "REASON"), rules, width)]
    checks = [(check.kind, ", ".join(check.roles) or "all", check.action, check.message) for check in found.stop_checks]
    if checks:
        lines += ["", *table.columns(("STOP CHECK", "ROLE", "ACTION", "MESSAGE"), checks, width)]
    settings = policy_show.document(found)["settings"]
    if isinstance(settings, dict):
        lines += ["", *(f"{name} = {json_text(value, None)}" for name, value in settings.items())]
    click.echo("\n".join(lines))


def _role_lines(role: Role, default: str, width: int) -> list[str]:
    """Return a role for people. Nothing is cut: a grant that is not seen is given all the same."""
    words = [word for word in ("lead", "human", "claimable") if getattr(role, word)]
    words += ["default"] if role.name == default else []
    rows = [("tools", " ".join(role.tools.texts)), ("grants", ", ".join(grant.text for grant in role.grants))]
    rows += [("may start", ", ".join(role.may_start)), ("otherwise", role.otherwise)]
    lines = [f"{role.name} ({', '.join(words)})" if words else role.name]
    for name, text in rows:
        wrapped = textwrap.wrap(table.clean(text), max(width - 13, 20), break_long_words=False, break_on_hyphens=False)
        lines += [f"  {name if not number else '':9}  {part}" for number, part in enumerate(wrapped)]
    return lines


# --- explain


def _complete_tool(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    places = daemon_choice.places_of(ctx)
    servers = [f"{name}__" for name in daemon_choice.served(places)] if places else []
    return completed([*OWN_TOOLS, *servers], incomplete)


@policy.command(short_help="Say what is decided about a call, and by which line.")
@click.argument("tool", shell_complete=_complete_tool)
@click.argument("arguments", required=False)
@click.option("--role", metavar="ROLE", shell_complete=complete_role, help="The role of the caller; else the default.")
@click.option(
    "--workspace",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="The folder that paths are relative to; else the current one.",
)
@click.option(
    "--project",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="A project's policy, counted as if it were trusted.",
)
@json_option("Print the decision as JSON.")
@with_places
def explain(
    places: Places,
    tool: str,
    arguments: str | None,
    role: str | None,
    workspace: str,
    project: str | None,
    as_json: bool,
) -> None:
    """Print the decision about a call, and the line of the policy that made it. Nothing is called.

    TOOL is a client's own tool (Bash, Read, Edit, Write and others) or a server's (SERVER__TOOL). ARGUMENTS is a JSON
    object, or for Bash the command and for Read, Edit and Write the path; "-" reads it from standard input.

    \b
    Examples:
      hearth policy explain --role dev Bash 'git push origin main'
      hearth policy explain --role dev Read ../secrets.txt
      hearth policy explain github__create_issue '{"title": "x"}' --json
    """
    path = loader.file_of(places)
    found = _read(path)
    server, name = split_tool(tool, daemon_choice.served(places))
    narrowing = _narrowing(places, project, os.path.abspath(workspace))
    raw = _raw(tool, sys.stdin.read() if arguments == "-" else arguments)
    if found is None:
        decision, role = Decision("allow", "", f"there is no policy: {path} does not exist", BUILT_IN), role or ""
    else:
        role = role or found.default_role
        if role not in found.roles:
            hint = suggestion(role, found.roles, f"Known: {', '.join(found.roles)}.")
            raise click.UsageError(f"There is no role {role!r} in {path}. {hint}")
        narrowed = _narrowed(found, *narrowing) if narrowing else found
        decision = decide(narrowed, role, server, name, raw, os.path.abspath(workspace))
        decision = for_person(decision) if tool in FOR_PERSON else decision
    line = _line_of(decision.source, path, narrowing[1] if narrowing else b"")
    document = {"role": role, "server": server, "tool": name, **decision._asdict(), "line": line}
    lines = [f"{_said(decision)}: {table.clean(_reason(decision, name, role))}"]
    if decision.source != BUILT_IN:
        lines.append(f"  {decision.source}: {table.clean((line or '').strip())}")
    tell(as_json, document, *lines)
    if not project and not as_json:
        _note_untrusted(places, os.path.abspath(workspace))


def split_tool(tool: str, servers: Iterable[str]) -> tuple[str | None, str]:
    """Return the server and the server's own name of a tool; no server for a client's own tool."""
    if "__" not in tool:
        return None, tool
    known = sorted(servers, key=len, reverse=True)
    server = next((name for name in known if tool.startswith(f"{name}__")), tool.partition("__")[0])
    return server, tool[len(server) + 2 :]


def _raw(tool: str, arguments: str | None) -> bytes | None:
    """Return the arguments as a client would send them. Raises click.UsageError for a text that is no object."""
    if arguments is None:
        return None
    is_object = arguments.lstrip().startswith("{")
    if not is_object and tool in OWN_TOOLS:
        arguments = json.dumps({OWN_TOOLS[tool]: arguments})
    elif not is_object:
        own = next((name for name in OWN_TOOLS if name.lower() == tool.lower()), None)
        hint = f"Did you mean {own!r}?" if own else """Example: '{"title": "x"}'."""
        raise click.UsageError(f"ARGUMENTS of {tool} are a JSON object, not {arguments[:40]!r}. {hint}")
    return arguments.encode("utf-8", "surrogateescape")


def _narrowing(places: Places, project: str | None, workspace: str) -> tuple[str, bytes] | None:
    """Return the folder and the bytes of the project's policy that counts: the named one, else the trusted one."""
    if project:
        folder = os.path.dirname(os.path.abspath(project))
        return folder, read_file(project, loader.FILE_LIMIT_BYTES) or b""
    store = TrustStore(places.trusted)
    trusted = store.find(workspace)
    return (trusted.folder, store.copy(trusted)) if trusted else None


def _narrowed(found: Policy, folder: str, data: bytes) -> Policy:
    # The path tells a project's policy from the user's own, wherever a draft lies.
    return loader.narrow(found, loader.parse(project_file(folder), data))


def _note_untrusted(places: Places, workspace: str) -> None:
    """Say that a project's file does not count, or not as it is now."""
    trusted = TrustStore(places.trusted).find(workspace)
    if trusted and trusted.state() == "changed":
        note(f"{trusted.path} has changed since it was trusted; the trusted copy counts")
    elif trusted is None and os.path.exists(path := project_file(workspace)):
        note(f"{path} is not trusted, and not counted here; say --project {path} to count it")


def _line_of(source: str, path: str, project: bytes) -> str | None:
    """Return the text of the line that decided; None if no file has it."""
    name, colon, number = source.rpartition(":")
    if not colon:
        return None
    is_project = name.startswith(f"{loader.PROJECT_FOLDER}/")
    data = project if is_project else read_file(path, loader.FILE_LIMIT_BYTES) or b""
    lines = data.decode("utf-8", "replace").splitlines()
    return lines[int(number) - 1] if int(number) <= len(lines) else None


def _said(decision: Decision) -> str:
    colours = {"allow": "green", "ask": "yellow", "deny": "red"}
    return click.style(_ASKED.get(decision.level, decision.outcome), fg=colours[decision.outcome])


def _reason(decision: Decision, tool: str, role: str) -> str:
    # The words that a client gets as well.
    return f"tool {tool!r} not available for role {role!r}" if decision.reason == "role" else decision.reason


# --- init


@policy.command()
@click.option("--template", type=click.Choice(list(TEMPLATES)), default="team", help="The text to begin with.")
@click.option("--force", is_flag=True, help="Replace a policy that exists.")
@click.option("--dry-run", is_flag=True, help="Print the text instead of writing it.")
@json_option()
@with_places
def init(places: Places, template: str, force: bool, dry_run: bool, as_json: bool) -> None:
    """Write a policy to begin with. The template `team` has a lead (tl) and developers (dev), who may commit, push
    feature branches and run tests, and ask about everything else.

    A running daemon applies it a second later: every client gets the default role. A policy that exists is kept (exit
    code 5). For a person only: refused in a shell below an agent, once there is a policy.

    \b
    Examples:
      hearth policy init
      hearth policy init --template team --dry-run
    """
    path, text = loader.file_of(places), TEMPLATES[template]
    former = read_file(path, loader.FILE_LIMIT_BYTES)
    if former is not None and not force and not dry_run:
        raise Refused(f"{path} exists and is kept; --force replaces it")
    if not dry_run:
        running_daemon.check_person(places, "`hearth policy init`")
        with edited_files.held(path):
            edited_files.replace(path, text.encode())
    document = {"path": path, "template": template, "replaced": former is not None, "dryRun": dry_run}
    default = loader.parse(path, text.encode()).default_role
    done = (
        f"{path} is written: clients without a role token get the role {default!r}.",
        "Who may do what: hearth policy show. After an edit: hearth policy check",
    )
    tell(as_json, document, *((text.rstrip("\n"),) if dry_run else done))
