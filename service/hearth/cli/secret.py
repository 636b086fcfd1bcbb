"""`hearth secret set|list|remove`."""

import sys
import time

import click
from click.shell_completion import CompletionItem

from hearth import config as configuration
from hearth.cli.daemon_choice import places_of, with_places
from hearth.cli.messages import completed, json_option, tell
from hearth.control_client import running_daemon
from hearth.errors import VaultError
from hearth.output import table, terminal
from hearth.output.terminal import Spinner
from hearth.paths import Places
from hearth.secrets import references
from hearth.secrets.vault import VALUE_LIMIT_BYTES, Vault

_WAITING = "waiting for the keyring; it may want to be unlocked"


@click.group(short_help="Store secrets for your servers.")
def secret() -> None:
    """Store tokens and passwords, and refer to them in the config: ${keyring:NAME}. Secrets lie in your desktop's
    keyring, or where there is none in a file that only you can read; never in the config.

    \b
    Examples:
      hearth secret set github         asks for the value, without showing it
      hearth secret list               names, and which servers use them; no values
      hearth secret remove github
    """


def _names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the stored secrets; for `set`, also those that the config refers to."""
    try:
        names = set(Vault("secrets").entries())
        if ctx.command.name == "set":
            places = places_of(ctx)
            names |= _users(places).keys() if places else set()
    except VaultError:
        return []
    return completed(sorted(names), incomplete)


def _users(places: Places) -> dict[str, list[str]]:
    """Return the servers that refer to each secret, as far as the config can be read."""
    found: dict[str, list[str]] = {}
    for spec in configuration.examine(places).config.servers.values():
        for name in references.secret_names(spec):
            found.setdefault(name, []).append(spec.name)
    return found


@secret.command("set", context_settings={"allow_extra_args": True})
@click.argument("name", shell_complete=_names)
@json_option()
@with_places
def set_(places: Places, name: str, as_json: bool) -> None:
    """Store a secret, in place of a former one of that name. The value is asked for without being shown, or
    read from standard input when that is no terminal (one line end at its end is left out). A value cannot be
    given as an argument: arguments are kept in the shell's history, and everybody on the machine can see them.

    \b
    Examples:
      hearth secret set github
      pass show github | hearth secret set github
      hearth secret set deploy-key < ~/.ssh/id_ed25519
    """
    if click.get_current_context().args:
        raise click.UsageError(
            "The value is not given as an argument, where others can see it: it is asked for, or read from standard"
            " input. If the one that you have just typed is real, replace it."
        )
    if fault := references.fault_of_secret_name(name):
        raise click.UsageError(f"{fault}.")
    value = _value(name)
    with Spinner(_WAITING):
        where = Vault("secrets").put(name, value)
    reference, restart = f"${{keyring:{name}}}", _running_users(places, name)
    said = [f"Stored in {where}. In the config, write {reference} where it is needed."]
    if restart:
        command = " ".join(["hearth", "restart", *places.arguments()])
        said.append(f"{table.clean(', '.join(restart))}: taken at the next start; now: {command}")
    tell(as_json, {"name": name, "where": where, "reference": reference, "needRestart": restart}, *said)


def _value(name: str) -> str:
    if sys.stdin.isatty():
        value = str(click.prompt(f"Value of {name} (it is not shown)", hide_input=True, err=True))
    else:
        value = _read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise click.UsageError("There is no value: nothing was stored.")
    if "\0" in value:
        raise click.UsageError("The value has a NUL character in it, which no program can be given.")
    return value


def _read() -> str:
    data = sys.stdin.buffer.read(VALUE_LIMIT_BYTES + 1)
    if len(data) > VALUE_LIMIT_BYTES:
        raise click.UsageError(f"The value is longer than {VALUE_LIMIT_BYTES} bytes.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.UsageError("The value is not text in UTF-8.") from None


def _running_users(places: Places, name: str) -> list[str]:
    """Return the servers that may still run with the former value: a server keeps the value that it started with."""
    users = _users(places).get(name, [])
    return users if users and running_daemon.find(places) else []


@secret.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@with_places
def list_(places: Places, as_json: bool) -> None:
    """List the secrets that are stored: since when, where they lie, and which servers of the config refer to
    them; also those that servers refer to and that are not stored. Values are never shown, nor is the keyring
    asked for them.

    \b
    Examples:
      hearth secret list
      hearth secret list --json | jq '.[] | select(.where == null) | .name'
    """
    stored, users = Vault("secrets").entries(), _users(places)
    entries = [
        {
            "name": name,
            "changedAt": stored[name].changed_at if name in stored else None,
            "where": stored[name].where if name in stored else None,
            "servers": users.get(name, []),
        }
        for name in sorted({*stored, *users})
    ]
    rows = [
        (name, _age(entry["changedAt"]), str(entry["where"] or "not stored"), ", ".join(users.get(name, [])) or "-")
        for entry in entries
        for name in [str(entry["name"])]
    ]
    lines = table.columns(("NAME", "SINCE", "WHERE", "SERVERS"), rows, terminal.width())
    tell(as_json, entries, *(lines if rows else ["No secret is stored. `hearth secret set NAME` stores one."]))


def _age(changed_at: object) -> str:
    return table.duration(max(0.0, time.time() - changed_at)) if isinstance(changed_at, float) else "-"


@secret.command("remove")
@click.argument("name", shell_complete=_names)
@json_option()
@with_places
def remove(places: Places, name: str, as_json: bool) -> None:
    """Forget a secret, in the keyring or wherever it lies. Servers that refer to it no longer start; those that
    run keep what they were given. Exits with 1 if there is none of that name.

    \b
    Examples:
      hearth secret remove github
      hearth secret remove github --json | jq .servers
    """
    with Spinner(_WAITING):
        found = Vault("secrets").remove(name)
    if not found:
        raise VaultError(f"no secret {name!r} is stored; `hearth secret list` shows those that are")
    users = _users(places).get(name, [])
    said = [f"Removed {table.clean(name)}."]
    if users:
        said.append(f"{table.clean(', '.join(users))}: refers to it in the config, and will not start without it.")
    tell(as_json, {"name": name, "removed": True, "servers": users}, *said)
