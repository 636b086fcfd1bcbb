"""`hearth call`."""

import json
import math
import signal
import sys
import time
from typing import Any

import click
from click.shell_completion import CompletionItem

from hearth import config
from hearth.cli import daemon_choice
from hearth.cli.daemon_choice import Number, with_places
from hearth.cli.messages import can_ask, complain, completed, print_json, suggestion, tell
from hearth.cli.tools import call_arguments, call_terminal
from hearth.control_client import running_daemon
from hearth.errors import ConfigError, HearthError, UpstreamError
from hearth.host import process_setup
from hearth.ops.tool_caller import CallError, ToolCaller, server_state
from hearth.output import table, terminal
from hearth.output.terminal import Spinner
from hearth.paths import Places

# Exit code for a tool that reports a failure: that of a failed command.
TOOL_FAILED = 1
# Interval at which a starting server is checked for failure; the daemon tells when it is ready.
LOOK_SECONDS = 1.0


def complete_tool(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the tools of the typed server."""
    return [
        CompletionItem(name, help=_first_line(tool))
        for name, tool in known_tools(ctx).items()
        if name.startswith(incomplete)
    ]


def complete_argument(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the arguments of the typed tool that are still missing; after `NAME=`, the values that it may have."""
    schema = known_tools(ctx).get(ctx.params.get("tool") or "", {}).get("inputSchema")
    found = schema.get("properties") if isinstance(schema, dict) else None
    properties: dict[str, Any] = found if isinstance(found, dict) else {}
    name, is_value, _ = incomplete.partition("=")
    if is_value:
        words = [f"{name}={value}" for value in _values(properties.get(name))]
    else:
        typed = {str(word).partition("=")[0] for word in ctx.params.get("arguments") or ()}
        words = [f"{name}=" for name in properties if name not in typed]
    return completed(words, incomplete)


def _values(schema: object) -> list[str]:
    """Return the values that a schema lists, as text to type."""
    if not isinstance(schema, dict):
        return []
    listed = schema.get("enum")
    if isinstance(listed, list):
        return [value for value in listed if isinstance(value, str)]
    return ["true", "false"] if schema.get("type") == "boolean" else []


def known_tools(ctx: click.Context) -> dict[str, dict[str, Any]]:
    """Return the cached tool definitions by name; empty if nothing is cached."""
    places = daemon_choice.places_of(ctx)
    spec = daemon_choice.served(places).get(ctx.params.get("server") or "") if places else None
    if places is None or spec is None:
        return {}
    from hearth.mcp.catalog import TOOLS
    from hearth.ops import tool_catalog

    ((_, offering),) = tool_catalog.offerings(places, [spec])
    items = offering.lists[TOOLS] if offering else {}
    return {
        name: {key: json.loads(bytes(value)) for key, value in item.definition.items()} for name, item in items.items()
    }


def _first_line(tool: dict[str, Any]) -> str | None:
    description = str(tool.get("description") or "").strip()
    return description.splitlines()[0] if description else None


@click.command(short_help="Call a tool by hand.")
@click.argument("server", shell_complete=daemon_choice.complete_server)
@click.argument("tool", required=False, shell_complete=complete_tool)
@click.argument("arguments", nargs=-1, metavar="[JSON | NAME=VALUE...]", shell_complete=complete_argument)
@click.option("--json", "as_json", is_flag=True, help="Print the result, or the list of tools, as it came.")
@click.option(
    "--output", metavar="FOLDER", type=click.Path(file_okay=False), help="Save images, sounds and files there."
)
@click.option("--timeout", type=Number(min=0.001), metavar="SECONDS", help="Give up, and cancel, after so long.")
@with_places
def call(
    places: Places,
    server: str,
    tool: str | None,
    arguments: tuple[str, ...],
    as_json: bool,
    output: str | None,
    timeout: float | None,
) -> int:
    """Call a tool of a server through the daemon, as an agent would; without TOOL, list its tools with their arguments.

    Arguments are NAME=VALUE, typed by the tool's schema (more than once for a list, NAME:=JSON for anything), or one
    JSON object, @FILE, or - for standard input. Lights the daemon. Questions of the server are asked here, on a
    terminal, else declined. Ctrl-C cancels the call. Exits with 1 when the tool says that it failed.

    \b
    Examples:
      hearth call time
      hearth call time get_current_time timezone=Europe/Berlin
      hearth call time get_current_time '{"timezone": "UTC"}' --json
      hearth call browser screenshot --output ~/Pictures
    """
    _check_server(places, server)
    _take_every_end_as_ctrl_c()
    spinner = Spinner(f"calling {server}")
    asking = call_terminal.Questions(server, can_ask() and "-" not in arguments, spinner.paused)

    def show_progress(params: dict[str, Any]) -> None:
        if text := call_terminal.progress_text(params):
            spinner.tell(text)

    with spinner, ToolCaller(places, server, asking.answer, show_progress) as caller:
        if tool is None:
            _forgive(places, server)
        tools = _tools(places, server, caller, spinner, timeout)
        if tool is None:
            with spinner.paused():
                _list(places, server, tools, as_json)
            return 0
        schema = _find(places, server, tool, tools).get("inputSchema")
        given = call_arguments.parse(arguments, schema if isinstance(schema, dict) else {})
        try:
            result = caller.call(tool, given, timeout)
        except CallError as exc:
            with spinner.paused():
                return _report(exc, as_json)
    _show(result, tool, as_json, output)
    return TOOL_FAILED if result.get("isError") is True else 0


def _take_every_end_as_ctrl_c() -> None:
    """Handle every termination signal as Ctrl-C.

    A closed terminal or `timeout hearth call …` would otherwise leave the call running with no one waiting for it.
    """
    for number in (*process_setup.END_SIGNALS, process_setup.HANG_UP):
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def _check_server(places: Places, server: str) -> None:
    found = config.examine(places)
    known = found.config.served
    if server not in known and found.problems:
        if server_state(places, server):
            # A running daemon keeps the config from before the mistake.
            return
        raise ConfigError(found.problems)
    daemon_choice.check_server_names([server], known, found.path)
    if known[server].disabled:
        if server in found.config.packs:
            raise click.UsageError(f"The pack {server!r} is off; `hearth pack enable {server}` switches it on.")
        raise click.UsageError(f"The server {server!r} is disabled in {found.path}.")


def _forgive(places: Places, server: str) -> None:
    """Restart a failed server: the user who asks for its tools may have repaired it."""
    daemon = running_daemon.find(places)
    if daemon and server_state(places, server).get("state") == "failed":
        with daemon.control() as control:
            control.restart(server)


def _tools(
    places: Places, server: str, caller: ToolCaller, spinner: Spinner, timeout: float | None
) -> list[dict[str, Any]]:
    """Return the server's tools. Wait for a server that is still starting, up to its start timeout."""
    tools = caller.tools(timeout)
    spec = config.examine(places).config.served.get(server)
    limit = min(spec.start_timeout if spec else config.ServerSpec.start_timeout, timeout or math.inf)
    deadline = time.monotonic() + limit
    while not tools and server_state(places, server).get("state") == "starting" and time.monotonic() < deadline:
        spinner.tell(f"waiting for {server} to start, at most {limit:g} s (start_timeout)")
        caller.await_change(LOOK_SECONDS)
        tools = caller.tools(timeout)
    spinner.tell(f"calling {server}")
    return tools


def _find(places: Places, server: str, tool: str, tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the tool's definition. Raises click.UsageError for an unknown tool.

    The definition is empty where the call itself will report the reason: the server failed, or the tool is withheld.
    """
    names = [str(each.get("name")) for each in tools]
    if tool in names:
        return tools[names.index(tool)]
    upstream = server_state(places, server)
    if not names or (upstream.get("pin") and tool in (upstream.get("changedTools") or [])):
        return {}
    hint = suggestion(tool, names, f"`hearth call {server}` lists what it has.")
    raise click.UsageError(f"{server} has no tool {tool!r}. {hint}")


def _list(places: Places, server: str, tools: list[dict[str, Any]], as_json: bool) -> None:
    if not tools:
        found = server_state(places, server)
        if found.get("error"):
            raise UpstreamError(f"{server} offers no tools: {found['error']}")
        if found.get("state") == "starting":
            raise UpstreamError(f"{server} is still starting: its tools are not known yet; ask again in a while")
    lines = call_terminal.tool_lines(tools, terminal.width())
    tell(as_json, tools, *(lines or [f"{server} offers no tools."]))


def _report(failure: CallError, as_json: bool) -> int:
    if as_json:
        print_json({"error": failure.error})
    data = failure.error.get("data")
    wanted = data.get("elicitations") if isinstance(data, dict) else None
    urls = [str(each.get("url")) for each in wanted if isinstance(each, dict)] if isinstance(wanted, list) else []
    complain(table.harmless(str(failure)))
    for url in urls:
        click.echo(f"  visit {table.harmless(url)}, then call again", err=True)
    return HearthError.exit_code


def _show(result: dict[str, Any], tool: str, as_json: bool, output: str | None) -> None:
    if as_json:
        print_json(result)
    for block in call_terminal.blocks_of(result):
        path = call_terminal.save_content(block, output, tool) if output else None
        if path:
            click.echo(f"saved {path}", err=as_json)
        elif not as_json:
            text = call_terminal.text_of(block)
            said = call_terminal.description_of(block) if text is None else text
            # Output to a file or a pipe stays unchanged.
            click.echo(table.harmless(said) if sys.stdout.isatty() else said)
