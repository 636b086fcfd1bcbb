"""`hearth approvals`, `hearth approve` and `hearth deny`: calls and requests of agents that wait for a person."""

import time
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from hearth.cli.daemon_choice import places_of, with_places
from hearth.cli.messages import completed, json_option, json_text, tell
from hearth.control_client import running_daemon
from hearth.control_client.connection import ControlConnection
from hearth.errors import HearthError, Refused
from hearth.output import table, terminal
from hearth.output.table import Column, duration
from hearth.paths import Places
from hearth.policy.grants import GrantStore, always_file

COLUMNS = (
    Column("ID"), Column("ROLE", 3, optional=True), Column("CLIENT", 4), Column("AGENT", 6, optional=True),
    Column("TOOL"), Column("ASKS", 5), Column("LEFT", 2),
)  # fmt: skip
GRANT_COLUMNS = (Column("ID"), Column("SCOPE"), Column("ROLE"), Column("TOOL"), Column("BY", 2), Column("LEFT", 1))
# Events that change what is shown by --watch.
WATCHED = ("approval.requested", "approval.decided")


def _complete_id(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return completed(_ids(ctx, "approvals"), incomplete)


def _complete_grant(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return completed(_ids(ctx, "grants"), incomplete)


def _ids(ctx: click.Context, kind: str) -> list[str]:
    places = places_of(ctx)
    try:
        daemon = running_daemon.find(places) if places else None
        if daemon is None:
            return []
        with daemon.control() as control:
            return [each["id"] for each in control.approvals()[kind]]
    except (HearthError, OSError):
        return []


@click.command(short_help="List calls that wait for a decision.")
@click.option("--watch", "-w", is_flag=True, help="Show each call as it comes, until Ctrl-C.")
@click.option("--granted", is_flag=True, help="List what was approved and is still good, instead.")
@click.option(
    "--revoke", metavar="ID", shell_complete=_complete_grant, help="Take back what was approved under this id."
)
@json_option("Print JSON; with --watch, one object per line.")
@with_places
def approvals(places: Places, watch: bool, granted: bool, revoke: str | None, as_json: bool) -> None:
    """List the calls and permission requests of agents that wait for your decision, or for that of a lead agent.

    Arguments are the agent's own text: secrets are masked, and characters that do not show are escaped.

    \b
    Examples:
      hearth approvals
      hearth approvals --watch
      hearth approve 3f9a01c2
      hearth deny 3f9a01c2 --reason "use the staging branch"
      hearth approvals --granted
      hearth approvals --revoke 3f9a01c2
    """
    if revoke is not None:
        file = always_file(places.policy_file())
        with _control(places, f"; revoke what is granted for always by removing its entry in {file}") as control:
            message = control.command("revoke", id=revoke)
        tell(as_json, {"id": revoke, "message": message}, message)
    elif watch:
        _watch(places, as_json)
    else:
        daemon = running_daemon.find(places)
        if daemon is None:
            # Grants outlive the daemon that gave them, those for a session excepted.
            grants = GrantStore(places.grants, always_file(places.policy_file())).list()
            found: Mapping[str, Any] = {"approvals": [], "grants": [grant.describe() for grant in grants]}
        else:
            with daemon.control() as control:
                found = control.approvals()
        tell(as_json, found, *(_grants(found["grants"]) if granted else _waiting(found["approvals"])))


def _control(places: Places, otherwise: str = ", so nothing waits for a decision") -> ControlConnection:
    daemon = running_daemon.find(places)
    if daemon is None:
        raise Refused(f"hearth is not running{otherwise}")
    return daemon.control()


def _waiting(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return ["Nothing waits for a decision."]
    lines = table.ranked(COLUMNS, [_row(each) for each in found], terminal.width())
    return [*lines, "", *(line for each in found for line in _details(each)), _hint(found[0])]


def _row(each: Mapping[str, Any]) -> list[str]:
    left = duration(max(0.0, float(each["expires"]) - time.time())) if each["expires"] else table.NOTHING
    who = "the lead" if each["level"] == "lead" else "you"
    names = (each.get(key) or table.NOTHING for key in ("role", "client", "agent"))
    return [each["id"], *names, _tool(each), who, left]


def _tool(each: Mapping[str, Any]) -> str:
    return f"{each['server']}__{each['tool']}" if each["server"] else str(each["tool"])


def _details(each: Mapping[str, Any]) -> list[str]:
    """Return the arguments in full: nothing that is decided may be hidden by a table's width."""
    reason = f" ({each['reason']})" if each["reason"] else ""
    return [f"{each['id']}: {table.clean(_tool(each))} {table.clean(str(each['arguments']))}{table.clean(reason)}"]


def _hint(each: Mapping[str, Any]) -> str:
    if each.get("kind") == "question":
        return click.style(f"hearth approve {each['id']} --reason ANSWER, or hearth deny {each['id']}", dim=True)
    # Without a policy there is nothing that could be granted for longer.
    scopes = "" if each.get("kind") == "permission" else " [--for once|session|always]"
    return click.style(f"hearth approve {each['id']}{scopes}, or hearth deny {each['id']}", dim=True)


def _grants(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return ["Nothing is granted beyond the policy."]
    rows = []
    for each in found:
        left = duration(max(0.0, each["until"] - time.time())) if each["until"] else table.NOTHING
        rows.append([each["id"], each["scope"], each["role"], _tool(each), each["decidedBy"], left])
    return table.ranked(GRANT_COLUMNS, rows, terminal.width())


def _watch(places: Places, as_json: bool) -> None:
    with _control(places) as control, _control(places) as feed:
        shown: set[str] = set()

        def show() -> None:
            for each in control.approvals()["approvals"]:
                if each["id"] not in shown:
                    shown.add(each["id"])
                    if as_json:
                        click.echo(json_text(each, indent=None))
                    else:
                        click.echo("\n".join([*_details(each), _hint(each)]))

        try:
            # Subscribed before the first look: what comes in between is in one of the two.
            events = feed.events(True, 0)
            show()
            for event in events:
                if event.get("type") in WATCHED:
                    show()
        except KeyboardInterrupt:
            click.echo(err=True)


@click.command(short_help="Allow a call that waits.")
@click.argument("id", shell_complete=_complete_id)
@click.option(
    "--for",
    "scope",
    type=click.Choice(("once", "session", "always")),
    default="once",
    show_default=True,
    help="Allow exactly this call once, in this session, or always for its role.",
)
@click.option("--reason", default="", help="A sentence for the audit trail; the answer to a question.")
@json_option()
@with_places
def approve(places: Places, id: str, scope: str, reason: str, as_json: bool) -> None:
    """Allow a call that waits for your decision. The call is made at once if its agent still waits for it, else when
    the agent makes exactly the same call again, within ten minutes.

    For a person only: refused in a shell below an agent.

    \b
    Examples:
      hearth approve 3f9a01c2
      hearth approve 3f9a01c2 --for session
      hearth approve 3f9a01c2 --reason "the second database"
    """
    _decide(places, id, "approve", scope, reason, as_json)


@click.command(short_help="Refuse a call that waits.")
@click.argument("id", shell_complete=_complete_id)
@click.option("--reason", default="", help="A sentence that the agent reads.")
@json_option()
@with_places
def deny(places: Places, id: str, reason: str, as_json: bool) -> None:
    """Refuse a call that waits for your decision. The agent reads the reason.

    For a person only: refused in a shell below an agent.

    \b
    Examples:
      hearth deny 3f9a01c2
      hearth deny 3f9a01c2 --reason "not on a Friday"
    """
    _decide(places, id, "deny", "once", reason, as_json)


def _decide(places: Places, id: str, action: str, scope: str, reason: str, as_json: bool) -> None:
    with _control(places) as control:
        message = control.command("decide", id=id, action=action, scope=scope, reason=reason)
    tell(as_json, {"id": id, "message": message}, message)
