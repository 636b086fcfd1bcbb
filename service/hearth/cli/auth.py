"""`hearth auth login|status|logout`."""

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Any

import click

from hearth.cli import daemon_choice
from hearth.cli.daemon_choice import WholeNumber, with_places
from hearth.cli.messages import json_option, note, print_json, tell
from hearth.config import ServerSpec
from hearth.errors import ConfigError, LoginFailed
from hearth.host import system
from hearth.output import table, terminal
from hearth.output.terminal import Spinner
from hearth.paths import Places
from hearth.secrets import references

# Enough time to find a password, a phone and a second factor.
LOGIN_SECONDS = 600
# State of a server whose entry has a reference that cannot be resolved, at least in this shell.
_UNRESOLVED = "unresolved"


@click.group()
def auth() -> None:
    """Log in to MCP servers that want it (OAuth), once for every client.

    A server with a url whose entry has no Authorization in `headers` is asked how it wants to be logged in to. The
    tokens are kept in the keyring, or in a private file, and are refreshed by themselves.

    \b
    Examples:
      hearth auth login github         opens the browser, and waits for it
      hearth auth status               who is logged in where, and until when
      hearth auth logout github        forget the tokens, here and there
    """


@auth.command(short_help="Log in to a server by its browser page.")
@click.argument("name")
@click.option("--no-browser", is_flag=True, help="Only print the address, and wait for a browser to come back.")
@click.option("--paste", is_flag=True, help="The browser is on another machine: paste the address where it ends up.")
@click.option("--timeout", metavar="SECONDS", default=LOGIN_SECONDS, type=WholeNumber(1), show_default=True,
              help="How long to wait for the browser.")  # fmt: skip
@json_option("Print the outcome as JSON; the address to open is printed on stderr.")
@with_places
def login(places: Places, name: str, no_browser: bool, paste: bool, timeout: int, as_json: bool) -> None:
    """Log in to a server. Prints an address and opens it in the browser, where there is one; the page there asks
    whether Hearth may act for you, and comes back to this machine. Every client can use the server from then on,
    also in daemons that run already.

    Where the browser is on another machine, it cannot come back: with --paste, copy the address that it ends up at
    (it begins with http://127.0.0.1, and the page does not load) and paste it here.

    \b
    Examples:
      hearth auth login github
      hearth auth login github --no-browser
      ssh devbox -t hearth auth login github --paste
      hearth auth login github --json | jq -r .where
    """
    spec = _resolved(_server(places, name))
    # A program that reads the JSON passes the address on to a person.
    opens = not (no_browser or paste)
    where = asyncio.run(_log_in(spec, timeout, opens, pastes=paste, address_to_stderr=as_json))
    said = f"Logged in to {table.clean(name)}. The tokens are in {where}."
    tell(as_json, {"server": name, "loggedIn": True, "where": where}, said)


async def _log_in(spec: ServerSpec, seconds: int, opens: bool, pastes: bool, address_to_stderr: bool) -> str:
    from hearth.upstreams.oauth import logins

    with Spinner(f"asking {spec.name} where to log in"):
        login = await logins.begin(spec)
    try:
        asked = f" for: {' '.join(login.scopes)}" if login.scopes else ""
        invitation = f"{login.issuer} is asked{asked}. Open this address to log in:\n\n  {login.url}\n"
        click.echo(invitation, err=address_to_stderr)
        if pastes:
            address = str(click.prompt("Paste the address that the browser ends up at", err=True))
            return await login.take(address.strip().partition("?")[2].partition("#")[0])
        if opens and not show(login.url):
            click.echo("No browser can be opened from here; --paste is for one on another machine.", err=True)
        try:
            async with asyncio.timeout(seconds):
                with Spinner("waiting for the browser"):
                    return await login.wait()
        except TimeoutError:
            raise LoginFailed(f"the browser did not come back within {seconds} s; nothing has changed") from None
    finally:
        await login.close()


@auth.command(short_help="Say which servers are logged in to.")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@with_places
def status(places: Places, name: str | None, as_json: bool) -> None:
    """Say which servers with a url are logged in to, where, and until when. Asks nobody, and reads no token.

    \b
    Examples:
      hearth auth status
      hearth auth status github --json | jq '.[0].state'
    """
    from hearth.upstreams.oauth import logins
    from hearth.upstreams.oauth.store import Store

    servers = (
        [_server(places, name)]
        if name
        else [spec for spec in daemon_choice.examined(places).config.servers.values() if spec.url]
    )
    store = Store()
    found: list[dict[str, Any]] = []
    for spec in servers:
        try:
            found.append(logins.describe(references.glance(spec, os.environ), store))
        except ConfigError as exc:
            # The state of this server is unknown here; the other servers are still listed.
            found.append({"server": spec.name, "state": _UNRESOLVED, "problems": exc.problems})
    if as_json:
        print_json(found)
    elif not found:
        click.echo("No server with a url is configured; `hearth config path` says where.")
    else:
        rows = [_row(each) for each in found]
        click.echo("\n".join(table.columns(("SERVER", "STATE", "AT", "TOKEN", "SCOPES"), rows, terminal.width())))
        for each in found:
            for problem in each.get("problems", ()):
                note(table.clean(problem))


def _row(found: dict[str, Any]) -> tuple[str, ...]:
    scopes = " ".join(found.get("scopes") or ()) or "-"
    missing = " ".join(found.get("wanted") or ())
    return (
        str(found["server"]),
        str(found["state"]),
        str(found.get("issuer") or "-"),
        _until(found) if found["state"] in ("logged in", "wants more") else "-",
        f"{scopes} (missing: {missing})" if missing else scopes,
    )


def _until(found: dict[str, Any]) -> str:
    if found.get("renews"):
        return "renewed by itself"
    ends = found.get("expiresAt")
    return f"{table.duration(max(0.0, ends - time.time()))} left" if isinstance(ends, int | float) else "no end known"


@auth.command(short_help="Forget a server's tokens.")
@click.argument("name")
@json_option()
@with_places
def logout(places: Places, name: str, as_json: bool) -> None:
    """Remove a server's tokens from this machine and, where the authorization server takes it, end them there as well.
    Exits with 0 also if nobody was logged in.

    \b
    Examples:
      hearth auth logout github
      hearth auth logout github --json | jq .revoked
    """
    from hearth.upstreams.oauth import logins

    ending = asyncio.run(logins.log_out(_resolved(_server(places, name))))
    if as_json:
        print_json(
            {"server": name, "wasLoggedIn": ending.was_logged_in, "revoked": ending.revoked, "problem": ending.problem}
        )
        return
    shown = table.clean(name)
    if not ending.was_logged_in:
        click.echo(f"Nobody was logged in to {shown}.")
        return
    there = " and ended there" if ending.revoked else ""
    click.echo(f"Logged out of {shown}: the tokens are removed here{there}.")
    if ending.revoked is False:
        reason = ending.problem or "the authorization server refused"
        click.echo(f"They could not be ended there ({table.clean(reason)}): they are good until they expire.", err=True)


def _server(places: Places, name: str) -> ServerSpec:
    servers = daemon_choice.examined(places).config.servers
    if name not in servers:
        known = ", ".join(key for key, spec in servers.items() if spec.url) or "none"
        raise ConfigError([f"there is no server {name!r} in {places.config_file()}; with a url: {known}"])
    if servers[name].url is None:
        raise ConfigError([f"server {name!r} is started by a command: it gets its secrets by `env`, not by a login"])
    return servers[name]


def _resolved(spec: ServerSpec) -> ServerSpec:
    return references.resolve(spec, os.environ).spec


# --- browser


def can_show(environ: Mapping[str, str], platform: str = system.PLATFORM) -> bool:
    """Return whether a browser would open a window. A text browser would take over this terminal."""
    if environ.get("BROWSER") or platform in ("darwin", "win32"):
        return True
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def show(url: str) -> bool:
    """Open the address in the user's browser; return False if there is no browser."""
    if not can_show(os.environ):
        return False
    import webbrowser

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False
