"""`hearth policy apply`, `hearth policy trust` and `hearth policy untrust`: what a person lets count."""

import difflib
import os
import time
from datetime import datetime

import click
from click.shell_completion import CompletionItem

from hearth.cli.daemon_choice import places_of, with_places
from hearth.cli.messages import can_ask, completed, confirm, json_option, tell
from hearth.config.loader import read_file
from hearth.control_client import running_daemon
from hearth.errors import FileAccessError, Refused
from hearth.host import private_files
from hearth.output import table, terminal
from hearth.paths import Places
from hearth.policy import loader
from hearth.policy.audit_files import AuditEntry
from hearth.policy.audit_store import AuditStore
from hearth.policy.trust import TrustedProject, TrustStore, project_file, workspace_of

# Characters of a digest that people see.
SHOWN_CHARACTERS = 12
_HEADERS = ("FOLDER", "STATE", "TRUSTED", "DIGEST")
_STATES = {
    "changed": "the file has changed since: not trusted, and the trusted copy stays in force",
    "removed": "the file is gone: the trusted copy stays in force",
}

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def _ask(question: str, as_json: bool) -> None:
    """Ask whether to go on. Raises Refused for a no, and if no person can be asked."""
    if as_json or not can_ask():
        raise Refused("nothing was changed: there is a question, and no terminal to ask at; say --yes")
    if not confirm(question):
        raise Refused("nothing was changed")


# --- apply


@click.command(short_help="Put a change of the policy in force that waits.")
@click.argument("digest", required=False)
@yes_option
@json_option()
@with_places
def apply(places: Places, digest: str | None, yes: bool, as_json: bool) -> None:
    """Put a change of policy.toml in force. A change waits for this where the policy in force says
    `apply = "manual"`; else it is in force by itself. With DIGEST, only the change with that digest.

    For a person, or an agent that is a lead: refused in the shell of any other agent.

    \b
    Examples:
      hearth policy apply              shows the change, and asks
      hearth policy apply 3f9a01c24b77 --yes
    """
    daemon = running_daemon.find(places)
    if daemon is None:
        raise Refused("hearth is not running, so no change waits; the next start looks at the file")
    with daemon.control() as control:
        waiting = (control.status().get("policy") or {}).get("waiting")
        if not waiting:
            if digest:
                raise Refused(f"no change of the policy waits, also not {digest}")
            tell(as_json, {"applied": None, "message": None}, "No change of the policy waits.")
            return
        if digest and not waiting.startswith(digest.lower()):
            raise Refused(f"the change that waits has the digest {_short(waiting)}, not {digest!r}")
        if not yes:
            for line in _difference(places):
                click.echo(line, err=True)
            click.echo(f"{places.policy_file()} has a change that waits: {_short(waiting)}", err=True)
            _ask("Put it in force?", as_json)
        message = control.command("applyPolicy", digest=waiting)
    tell(as_json, {"applied": waiting, "message": message}, message)


def _short(digest: str) -> str:
    return digest[:SHOWN_CHARACTERS]


def _difference(places: Places) -> list[str]:
    """Return the lines of the file that differ from the policy in force."""
    path = places.policy_file()
    try:
        former = private_files.read(places.last_policy, loader.FILE_LIMIT_BYTES)
    except (OSError, ValueError):
        return []
    new = read_file(path, loader.FILE_LIMIT_BYTES) or b""
    before, after = (data.decode("utf-8", "replace").splitlines() for data in (former, new))
    return [table.clean(line) for line in difflib.unified_diff(before, after, "in force", path, n=1, lineterm="")]


# --- trust


def _complete_trusted(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    places = places_of(ctx)
    try:
        return completed([each.folder for each in TrustStore(places.trusted).list()] if places else [], incomplete)
    except FileAccessError:
        return []


@click.command(short_help="Let a project's policy count, as it is now.")
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False))
@click.option("--list", "listed", is_flag=True, help="List the trusted projects, and whether their files have changed.")
@yes_option
@json_option()
@with_places
def trust(places: Places, folder: str | None, listed: bool, yes: bool, as_json: bool) -> None:
    """Let the `.hearth/policy.toml` of the repository that FOLDER, or the current folder, is in count as it is now: the
    user's own policy is narrowed for sessions that begin there, and never widened.

    A copy is kept. A later change of the file does not count until it is trusted again. `hearth policy untrust` undoes
    it. For a person only: refused in a shell below an agent.

    \b
    Examples:
      hearth policy trust              shows the file, and asks
      hearth policy trust ~/src/shop --yes
      hearth policy trust --list
    """
    store = TrustStore(places.trusted)
    if listed:
        _list(store, as_json)
        return
    running_daemon.check_person(places, "`hearth policy trust`")
    root = workspace_of(os.path.abspath(folder or ".")) or ""
    path = project_file(root)
    data = read_file(path, loader.FILE_LIMIT_BYTES)
    if data is None:
        raise Refused(f"{path} does not exist, so there is nothing to trust")
    # A file with mistakes is refused with all of them.
    loader.parse(path, data)
    if not yes:
        for line in data.decode("utf-8", "replace").splitlines():
            click.echo(f"  {table.clean(line)}", err=True)
        _ask(f"Let {table.clean(path)} count for every session in this folder?", as_json)
    _record(places, "trust", root)
    project = store.trust(root, data)
    done = f"{table.clean(path)} counts from now on, as it is now ({_short(project.digest)})."
    tell(as_json, _document(project), done, f"Undo: hearth policy untrust {table.clean(root)}")


@click.command(short_help="Let a project's policy count no longer.")
@click.argument("folder", required=False, shell_complete=_complete_trusted)
@json_option()
@with_places
def untrust(places: Places, folder: str | None, as_json: bool) -> None:
    """Let the policy of a project count no longer: only the user's own does. FOLDER, or the current folder, is the
    project or a folder in it, and need not exist any more.

    For a person only: refused in a shell below an agent.

    \b
    Examples:
      hearth policy untrust
      hearth policy untrust ~/src/shop
    """
    running_daemon.check_person(places, "`hearth policy untrust`")
    store = TrustStore(places.trusted)
    wanted = os.path.abspath(folder or ".")
    found = store.find(wanted)
    if found:
        _record(places, "untrust", found.folder)
    project = store.untrust(found.folder if found else wanted)
    tell(as_json, _document(project), f"{table.clean(project.path)} counts no longer.")


def _list(store: TrustStore, as_json: bool) -> None:
    projects = store.list()
    rows = [(each.folder, each.state(), _day(each.at), _short(each.digest)) for each in projects]
    lines = table.columns(_HEADERS, rows, terminal.width())
    lines += [f"{table.clean(row[0])}: {_STATES[row[1]]}" for row in rows if row[1] in _STATES]
    nothing = "No project's policy is trusted. `hearth policy trust FOLDER` trusts one."
    tell(as_json, [_document(each) for each in projects], *(lines if projects else [nothing]))


def _day(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")


def _document(project: TrustedProject) -> dict[str, object]:
    at = datetime.fromtimestamp(project.at).astimezone().isoformat(timespec="seconds")
    return {
        "folder": project.folder,
        "path": project.path,
        "digest": project.digest,
        "trustedAt": at,
        "state": project.state(),
    }


def _record(places: Places, action: str, folder: str) -> None:
    """Record the change in the audit log, if this profile has one. Raises FileAccessError: then nothing changes."""
    if not os.path.isdir(places.audit) and not os.path.exists(places.policy_file()):
        return
    store = AuditStore(places.audit, rotates=False)
    try:
        entry = AuditEntry(time.time(), "policy", decision=action, decided_by="person", channel="cli", reason=folder)
        store.append([entry], durable=True)
    finally:
        store.close()
