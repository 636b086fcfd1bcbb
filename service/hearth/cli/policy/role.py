"""`hearth role token|list|revoke`: tokens by which clients show a role."""

import os
import shlex
import time
from datetime import datetime

import click
from click.shell_completion import CompletionItem

from hearth.cli.daemon.logs import span
from hearth.cli.daemon_choice import places_of, with_places
from hearth.cli.messages import complain, completed, json_option, note, suggestion, tell
from hearth.config.loader import read_file
from hearth.control_client import running_daemon
from hearth.errors import ConfigError, FileAccessError, HearthError, Refused
from hearth.host import private_files
from hearth.host.folders import make_private, refusal
from hearth.output import table, terminal
from hearth.paths import Places, safe_name
from hearth.policy.audit_files import AuditEntry
from hearth.policy.audit_store import AuditStore
from hearth.policy.role_tokens import RoleToken, RoleTokens, token_id

# A token that was forgotten in a file somewhere ends by itself; a quarter of a year is not felt as a chore.
EXPIRES_BY_DEFAULT = "90d"
NEVER = "never"
_SHORTEST_SECONDS = 60.0


@click.group(short_help="Issue and revoke role tokens.")
def role() -> None:
    """Issue, list and revoke role tokens. Every role of policy.toml but the default one needs a token, unless the role
    says `claimable = true`. A token is written to a file that only you can read; Hearth itself stores its hash.

    \b
    Examples:
      hearth role token tl              writes a token for the role `tl` to a file
      hearth role list                  who has one, and until when
      hearth role revoke 3f2a9c         ends one
    """


def known_roles(places: Places) -> list[str]:
    """Return the roles of the policy; none if there is no policy, or it has a mistake."""
    from hearth.policy import loader

    path = places.policy_file()
    try:
        data = read_file(path, loader.FILE_LIMIT_BYTES)
        return [] if data is None else list(loader.parse(path, data).roles)
    except ConfigError:
        return []


def complete_role(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a role."""
    places = places_of(ctx)
    return completed(known_roles(places) if places else (), incomplete)


@role.command()
@click.argument("role", shell_complete=complete_role)
@click.option("--agent-id", metavar="ID", help="Only for the agent with this id.")
@click.option("--expires", metavar="TIME", default=EXPIRES_BY_DEFAULT, show_default=True,
              help="How long it is good: 30m, 8h, 90d or never.")  # fmt: skip
@click.option("--label", metavar="TEXT", default="", help="A note for `hearth role list`.")
@click.option("--out", metavar="PATH", type=click.Path(dir_okay=False),
              help="The file to write, which must not exist.  [default: one below Hearth's state folder]")  # fmt: skip
@json_option()
@with_places
def token(
    places: Places, role: str, agent_id: str | None, expires: str, label: str, out: str | None, as_json: bool
) -> None:
    """Write a token for ROLE to a new file that only you can read. The token itself is not printed: what is printed
    ends up in histories, logs and transcripts of agents. No token can be shown again; issue another one instead.

    For a person only: refused in a shell below an agent.

    \b
    Examples:
      hearth role token tl
      hearth role token dev --agent-id worker-1 --expires 8h
      hearth role token dev --label CI --expires never --out ~/ci.token
    """
    seconds = _lifetime(expires)
    if not role.strip():
        raise click.UsageError("A role has a name: say which one the token is for.")
    if out is not None and os.path.lexists(out):
        raise _exists(out)
    running_daemon.check_person(places, "`hearth role token`")
    tokens = RoleTokens(places.role_tokens())
    text = tokens.issue(role, agent_id, seconds, label)
    path = os.path.abspath(out or os.path.join(places.roles, f"{safe_name(role)}-{token_id(text)}.token"))
    try:
        _record(places, "issue", role, agent_id, token_id(text), label)
        _write(path, text, is_own=out is None)
    except HearthError:
        # A token that is in no file, or in no audit log, must not be good for anything.
        tokens.revoke(token_id(text))
        raise
    (issued,) = (each for each in tokens.list() if each.id == token_id(text))
    command = shlex.join(["hearth", "bridge", *places.arguments(), "--token-file", path])
    tell(
        as_json,
        {**document(issued, time.time()), "path": path, "command": command},
        table.clean(f"A token for the role {role!r} is in {path}: {_until(issued)}. Its id is {issued.id}."),
        f"For a client, type or configure: {command}",
    )
    if (known := known_roles(places)) and role not in known:
        hint = suggestion(role, known, f"Known: {', '.join(known)}.")
        note(table.clean(f"{places.policy_file()} has no role {role!r}; clients with this token are refused. {hint}"))


def _lifetime(text: str) -> float | None:
    if text == NEVER:
        return None
    seconds = span(text)
    if seconds is None or seconds < _SHORTEST_SECONDS:
        raise click.UsageError(f"--expires: {text!r} is no lifetime: say 30m, 8h, 90d or {NEVER}; a minute at least.")
    return seconds


def _exists(path: str) -> Refused:
    what = "is a link" if os.path.islink(path) else "exists already"
    return Refused(f"{path} {what}, and is left alone: name a new file with --out, or remove this one")


def _write(path: str, text: str, is_own: bool) -> None:
    """Write the token to a new file. Raises FileAccessError, and Refused if the name is taken, also by a link."""
    if is_own:
        make_private(os.path.dirname(path))
    try:
        is_new = private_files.create(path, text.encode() + b"\n")
    except OSError as exc:
        raise refusal("write the role token to", path, exc) from exc
    if not is_new:
        raise _exists(path)


# --- list and revoke


@role.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@with_places
def list_(places: Places, as_json: bool) -> None:
    """List the tokens: for which role and agent, since when and until when. Tokens that have ended stay listed for a
    month. The tokens themselves are not stored, and cannot be shown.

    \b
    Examples:
      hearth role list
      hearth role list --json | jq -r '.[] | select(.state == "valid") | .id'
    """
    now = time.time()
    tokens = RoleTokens(places.role_tokens()).list()
    columns = [table.Column(name) for name in ("ID", "ROLE")]
    columns += [table.Column("AGENT", 2, optional=True), table.Column("STATE"), table.Column("CREATED", 3)]
    columns += [table.Column("EXPIRES", 1), table.Column("LABEL", 4, optional=True)]
    cells = [
        [each.id, each.role, each.agent_id or "", each.state(now), _day(each.created), _day(each.expires), each.label]
        for each in tokens
    ]
    lines = table.ranked(columns, cells, terminal.width())
    nothing = "There is no role token. `hearth role token ROLE` issues one."
    tell(as_json, [document(each, now) for each in tokens], *(lines if tokens else [nothing]))


def _complete_id(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    places = places_of(ctx)
    try:
        tokens = RoleTokens(places.role_tokens()).list() if places else []
    except FileAccessError:
        return []
    return completed((each.id for each in tokens if each.revoked is None), incomplete)


@role.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=_complete_id)
@json_option()
@with_places
def revoke(places: Places, ids: tuple[str, ...], as_json: bool) -> int:
    """Revoke tokens, for good. A running daemon refuses them from now on. The beginning of an id is enough.

    For a person only: refused in a shell below an agent.

    \b
    Examples:
      hearth role revoke 3f2a9c41d07b
      hearth role revoke $(hearth role list --json | jq -r '.[] | select(.role == "tl") | .id')
    """
    running_daemon.check_person(places, "`hearth role revoke`")
    tokens = RoleTokens(places.role_tokens())
    revoked, problems = [], []
    for id in ids:
        found = tokens.revoke(id)
        revoked.append(found)
        try:
            _record(places, "revoke", found.role, found.agent_id, found.id, found.label)
        except FileAccessError as exc:
            # Revoked all the same: the safe side.
            problems.append(str(exc))
    now = time.time()
    lines = [table.clean(f"{each.id} (role {each.role!r}) is revoked.") for each in revoked]
    tell(as_json, [document(each, now) for each in revoked], *lines)
    complain(*problems)
    return FileAccessError.exit_code if problems else 0


# --- shared


def document(token: RoleToken, now: float) -> dict[str, object]:
    """Return a token for programs, without its hash."""
    return {
        "id": token.id,
        "role": token.role,
        "agentId": token.agent_id,
        "label": token.label,
        "state": token.state(now),
        "createdAt": _iso(token.created),
        "expiresAt": _iso(token.expires),
        "revokedAt": _iso(token.revoked),
    }


def _record(places: Places, action: str, role: str, agent_id: str | None, id: str, label: str) -> None:
    """Record in the audit log, if this profile has one, that a token was issued or revoked. Raises FileAccessError."""
    policy = os.path.join(os.path.dirname(places.config_file()), "policy.toml")
    if not os.path.isdir(places.audit) and not os.path.exists(policy):
        return
    entry = AuditEntry(
        time.time(),
        "token",
        agent=agent_id or "",
        role=role,
        digest=id,
        decision=action,
        decided_by="person",
        channel="cli",
        reason=label,
    )
    store = AuditStore(places.audit, rotates=False)
    try:
        store.append([entry], durable=True)
    finally:
        store.close()


def _until(token: RoleToken) -> str:
    return "good until it is revoked" if token.expires is None else f"good until {_day(token.expires)}"


def _day(at: float | None) -> str:
    return NEVER if at is None else datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")


def _iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")
