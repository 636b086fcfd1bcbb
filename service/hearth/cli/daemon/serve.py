"""`hearth serve`, `hearth token`, `hearth bridge` and `hearth hook`: how clients reach Hearth.

The last two commands here are for the help and for completion: bridge and hook are run before click is imported.
"""

import re

import click
from click.core import ParameterSource

from hearth.bridge import hook as hook_program
from hearth.bridge.options import MODES, USAGE
from hearth.cli import daemon_choice
from hearth.cli.daemon_choice import WholeNumber, with_places
from hearth.cli.messages import json_option, tell
from hearth.host.sockets import DEFAULT_PORT, NEXT_PORTS
from hearth.paths import Places
from hearth.secrets import http_token

# Each transport as options of `python -m hearth.daemon`: whether to serve stdio, whether to serve HTTP.
TRANSPORTS = {"socket": (False, False), "http": (False, True), "stdio": (True, False), "both": (True, True)}
_HTTP_OPTIONS = ("http_bind", "http_port", "allow_remote")


def _warn_of_idle_options(transport: str) -> None:
    source = click.get_current_context().get_parameter_source
    given = [name for name in _HTTP_OPTIONS if source(name) is ParameterSource.COMMANDLINE]
    if given:
        *others, last = [f"--{name.replace('_', '-')}" for name in given]
        words = f"{', '.join(others)} and {last} have" if others else f"{last} has"
        why = f"no effect with --transport {transport}: only http and both open a port"
        click.echo(f"hearth: warning: {words} {why}", err=True)


@click.command(short_help="Run the daemon, or one client's server, in the foreground.")
@click.option("--transport", type=click.Choice(list(TRANSPORTS)), default="socket", show_default=True,
              help="Where clients are served: see above.")  # fmt: skip
@click.option("--http-bind", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="The address of the port, with http and both.")  # fmt: skip
@click.option("--http-port", default=DEFAULT_PORT, show_default=True, type=WholeNumber(0, 65535),
              help=f"Which port; one of the next {NEXT_PORTS} if it is taken.")  # fmt: skip
@click.option("--allow-remote", is_flag=True, help="The address may be one that other machines can reach.")
@with_places
def serve(places: Places, transport: str, http_bind: str, http_port: int, allow_remote: bool) -> int:
    """Run Hearth in the foreground. Seldom needed: systemd, or the first bridge, starts the daemon by itself.

    \b
    --transport socket  the daemon, until Ctrl-C; 3 if another one of the profile runs
    --transport http    the same, and HTTP on a port for whoever has the token
                        (`hearth token show`); it does not exit when nobody is there;
                        1 if the port is lost
    --transport stdio   no daemon: one MCP server on stdin and stdout, for the client that
                        started it; ends with stdin, after the last answer
    --transport both    stdio, and HTTP on a port; goes on when stdin has ended, until a
                        signal; 1 if the port cannot be had or is lost

    stdio and both take no lock and bind no socket: they run beside a daemon, and many times. Both are for containers
    and for clients that are to share nothing; `hearth bridge` is the better choice otherwise, because it shares the
    servers. Logs go to stderr; those of the daemon to its log file as well.

    \b
    Examples:
      hearth serve
      hearth serve --config ./mcp.json
      hearth serve --transport http --http-port 8080
      docker run -i --rm IMAGE hearth serve --transport stdio --config /mcp.json
      echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | hearth serve --transport stdio

    \b
    In a client's configuration:
      {"mcpServers": {"hearth": {"command": "hearth", "args": ["serve", "--transport", "stdio"]}}}
    """
    from hearth.daemon.main import main

    stdio, http = TRANSPORTS[transport]
    more = ["--stdio"] if stdio else ["--aloud"]
    if http:
        host = f"[{http_bind}]" if ":" in http_bind else http_bind
        more += ["--http", f"{host}:{http_port}", *(["--allow-remote"] if allow_remote else [])]
    else:
        _warn_of_idle_options(transport)
    # `main` reads a socket in HEARTH_SOCKET from the environment itself.
    return main([*places.arguments(), *more])


def described(usage: str = USAGE) -> list[tuple[str, str]]:
    """Return the options in the help of a bridge or a hook: the names with their metavar, and the help text."""
    listed = usage.partition("Options:\n")[2].partition("\n\n")[0]
    # A continuation line belongs to the option above it.
    found = re.findall(r"^  (-.+?)  +(.+)$", re.sub(r"\n {6,}", "  ", listed), flags=re.MULTILINE)
    return [(names, " ".join(text.split())) for names, text in found]


def _option(names: str, text: str) -> click.Option:
    words, _, value = names.partition(" ") if not names.startswith("-h") else (names, "", "")
    if not value:
        return click.Option(words.split(", "), is_flag=True, help=text)
    kinds: dict[str, click.Choice[str] | click.Path] = {
        "--mode": click.Choice(MODES),
        "--client": click.Choice(hook_program.CLIENTS),
        "--config": click.Path(dir_okay=False),
        "--socket": click.Path(dir_okay=False),
        "--token-file": click.Path(dir_okay=False),
    }
    completions = {"--server": daemon_choice.complete_server, "--profile": daemon_choice.complete_profile}
    return click.Option([words], metavar=value, help=text, type=kinds.get(words), shell_complete=completions.get(words))


class BridgeCommand(click.Command):
    """Command whose options are known to completion only; otherwise the bridge parses them itself."""

    usage = USAGE

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options during completion, else the unparsed arguments."""
        return [_option(*each) for each in described(self.usage)] if ctx.resilient_parsing else super().get_params(ctx)


class HookVerb(BridgeCommand):
    """Command whose options the hook parses itself."""

    usage = hook_program.USAGE


@click.command(
    cls=BridgeCommand,
    short_help="Join stdin and stdout to the daemon.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def bridge(ctx: click.Context, /, arguments: tuple[str, ...]) -> int:
    """Join standard input and output to the daemon: what an MCP client starts. The bridge starts the daemon
    when none runs, and survives its end.

    \b
    Examples:
      hearth bridge
      hearth bridge --server github
      hearth bridge --to https://mcp.example.com/mcp
    """
    from hearth.bridge import main

    return main([*_typed_before(ctx), *arguments])


def _typed_before(ctx: click.Context) -> list[str]:
    """Return the options before the verb that name the daemon."""
    before = ((f"--{name}", ctx.find_root().params.get(name)) for name in ("profile", "config"))
    return [word for option, value in before if value for word in (option, value)]


@click.command(
    cls=HookVerb,
    short_help="Answer a hook of an MCP client by the policy.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def hook(ctx: click.Context, /, arguments: tuple[str, ...]) -> int:
    """Answer a hook of Claude Code, Codex or Gemini CLI by the policy: what these clients run before each tool once
    `hearth connect CLIENT --hooks` has written it into their settings. Reads the client's JSON on standard input, and
    answers in the client's own form. Without a policy.toml it does nothing.

    \b
    Examples:
      hearth hook pre-tool-use --client claude < call.json
      hearth hook stop --client codex --token-file ~/dev.token < stop.json
    """
    return hook_program.main([*_typed_before(ctx), *arguments])


# --- the token of HTTP over TCP


@click.group(short_help="The token for HTTP over TCP.")
def token() -> None:
    """Print or replace the token that HTTP over TCP asks for: `Authorization: Bearer TOKEN`. On the Unix socket none is
    needed.

    \b
    Examples:
      hearth token show --header | curl -H @- http://127.0.0.1:3847/status
      hearth token rotate

    Give it to programs by a pipe, a file or a variable, not as an argument: every user of the machine can see those.
    """


@token.command()
@click.option("--header", is_flag=True, help="Print the whole header, as curl reads it with -H @-.")
@json_option("Print the token, its header and its file as JSON.")
def show(header: bool, as_json: bool) -> None:
    """Print it. One is made if there is none.

    \b
    Examples:
      hearth token show
      hearth token show --header | curl -H @- http://127.0.0.1:3847/status
      hearth token show --json | jq -r .path
    """
    found = http_token.ensure()
    line = f"Authorization: Bearer {found}"
    tell(as_json, {"token": found, "header": line, "path": http_token.path()}, line if header else found)


@token.command()
@json_option()
def rotate(as_json: bool) -> None:
    """Make a new one. Holders of the former one are locked out at once, without a restart.

    \b
    Examples:
      hearth token rotate
      hearth token rotate --json
    """
    http_token.rotate()
    path = http_token.path()
    tell(as_json, {"rotated": True, "path": path}, f"{path} has a new token; `hearth token show` prints it.")
