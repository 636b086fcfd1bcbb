"""`hearth serve`."""

import click
from click.core import ParameterSource

from hearth.cli.target import WholeNumber, with_places
from hearth.host.tcp_ports import DEFAULT_PORT, NEXT_PORTS
from hearth.paths import Places

# Each transport as options of `python -m hearth.daemon`: whether to serve stdio, whether to serve HTTP.
TRANSPORTS = {"socket": (False, False), "http": (False, True), "stdio": (True, False), "both": (True, True)}
_HTTP_OPTIONS = ("http_bind", "http_port", "allow_remote")


def _is_typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _warn_of_idle_options(transport: str) -> None:
    context = click.get_current_context()
    given = [name for name in _HTTP_OPTIONS if _is_typed(context, name)]
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
                        (`hearth token show`); it does not go out when nobody is there;
                        1 if the port is lost
    --transport stdio   no daemon: one MCP server on stdin and stdout, for the client that
                        started it; ends with stdin, after the last answer
    --transport both    stdio, and HTTP on a port; goes on when stdin has ended, until a
                        signal; 1 if the port cannot be had or is lost

    stdio and both take no lock and bind no socket: they run beside a daemon, and many times. They are for containers
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
