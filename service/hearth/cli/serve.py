"""`hearth serve`."""

import click
from click.core import ParameterSource

from hearth.cli.target import with_places
from hearth.host.ports import DEFAULT_PORT, NEXT_PORTS
from hearth.paths import Places


def _is_typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


@click.command(short_help="Run the daemon in the foreground.")
@click.option("--transport", type=click.Choice(["socket", "http"]), default="socket", show_default=True,
              help="Besides its socket, serve HTTP on a TCP port.")  # fmt: skip
@click.option("--http-bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where that port is.")
@click.option("--http-port", default=DEFAULT_PORT, show_default=True, type=click.IntRange(0, 65535),
              help=f"Which; one of the next {NEXT_PORTS} if it is taken.")  # fmt: skip
@click.option("--allow-remote", is_flag=True, help="The address may be one that other machines can reach.")
@with_places
def serve(places: Places, transport: str, http_bind: str, http_port: int, allow_remote: bool) -> int:
    """Run the daemon in the foreground until Ctrl-C. Seldom needed: systemd, or the first bridge, starts it
    by itself. Exits with 3 when another daemon of the same profile runs.

    With --transport http it serves HTTP on a port, too, for whoever has the token (`hearth token show`), and does not
    go out when nobody is there. Under systemd, `systemctl --user enable --now mcp-http.socket` does the same.

    \b
    Examples:
      hearth serve
      hearth serve --config ./mcp.json
      hearth serve --transport http --http-port 8080
    """
    from hearth.server import main

    more: list[str] = []
    if transport != "http":
        context = click.get_current_context()
        given = [name for name in ("http_bind", "http_port", "allow_remote") if _is_typed(context, name)]
        if given:
            words = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            click.echo(f"hearth: warning: {words} without --transport http has no effect", err=True)
    else:
        host = f"[{http_bind}]" if ":" in http_bind else http_bind
        more = ["--http", f"{host}:{http_port}", *(["--allow-remote"] if allow_remote else [])]
    return main([*places.arguments(), *more])
