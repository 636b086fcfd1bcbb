"""The `hearth` command: the group of verbs, each loaded when it is called."""

import difflib
import importlib
import os
from keyword import iskeyword
from typing import Any

import click

from hearth import __version__
from hearth.cli.messages import report
from hearth.cli.target import target_options
from hearth.output import terminal

# Each verb with its module. The order and the headings are those of the help.
SECTIONS: dict[str, dict[str, str]] = {
    "Try it": {"savings": "servers.savings", "demo": "demo", "help": "help"},
    "Set up": {
        "setup": "clients.setup",
        "import": "clients.import_",
        "install": "daemon.install",
        "uninstall": "daemon.uninstall",
        "add": "servers.add",
        "remove": "servers.enable",
        "enable": "servers.enable",
        "disable": "servers.enable",
        "pack": "servers.enable",
        "connect": "clients.connect",
        "disconnect": "clients.connect",
        "config": "config",
        "policy": "policy",
        "secret": "secret",
        "auth": "auth",
        "token": "daemon.serve",
        "completion": "completion",
    },
    "Look": {
        "status": "daemon.status",
        "sessions": "daemon.status",
        "upstreams": "servers.upstreams",
        "ls": "servers.upstreams",
        "ps": "servers.upstreams",
        "tools": "tools.tools",
        "logs": "daemon.logs",
        "events": "daemon.status",
        "doctor": "daemon.doctor",
        "version": "help",
    },
    "Act": {"call": "tools.call", "stop": "daemon.stop", "restart": "daemon.stop", "reload": "daemon.stop"},
    "Run": {"serve": "daemon.serve", "bridge": "daemon.serve"},
}
# Verbs that act on the user's whole installation, or on nothing: the option would promise what they do not do.
WITHOUT_TARGET = frozenset({"demo", "savings", "help", "disconnect", "completion", "token", "version"})
# Variable that the completion scripts of shells set.
COMPLETION_VARIABLE = "_HEARTH_COMPLETE"
VERBS = {verb: module for verbs in SECTIONS.values() for verb, module in verbs.items()}


def nearest(word: str) -> str | None:
    """Return the verb that is most similar to a word, or None."""
    return next(iter(difflib.get_close_matches(word, VERBS, 1)), None)


class VerbGroup(click.Group):
    """Group that imports a verb's module only when the verb is needed, so that `hearth version` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every verb, in the order of the help."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the verb's command, or None when there is no such verb."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"hearth.cli.{VERBS[cmd_name]}")
        # `import` is a keyword of Python.
        command: click.Command = getattr(module, cmd_name + "_" * iskeyword(cmd_name))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that was typed. For an unknown one, the UsageError names the nearest verb."""
        if args[0] not in VERBS and not ctx.resilient_parsing and (near := nearest(args[0])):
            raise click.UsageError(f"There is no verb {args[0]!r}. Did you mean {near!r}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs under their headings."""
        for heading, verbs in SECTIONS.items():
            commands = ((verb, self.get_command(ctx, verb)) for verb in verbs)
            rows = [(verb, command.get_short_help_str(60)) for verb, command in commands if command]
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=12)


@click.group(
    cls=VerbGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@target_options
@click.version_option(__version__, "-V", "--version", message="hearth %(version)s", help="Print the version.")
@click.pass_context
def cli(ctx: click.Context, /, **options: Any) -> None:
    """Run your MCP servers in one daemon, shared by every agent, editor and terminal.

    The first connection starts the daemon, and it exits after the last one; you need not start or stop anything.

    \b
    Examples:
      hearth savings              what your MCP servers take now, and would through Hearth
      hearth demo                 see what it does, in a scratch home
      hearth setup                have your MCP clients use it
      hearth add time -- uvx mcp-server-time
      hearth connect              which MCP clients there are, and whether they are connected
      hearth status               what runs, and who is attached
    """
    if not terminal.shows_colour(os.environ):
        ctx.color = False
    if ctx.invoked_subcommand in WITHOUT_TARGET:
        _refuse_target(ctx.invoked_subcommand, options)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _refuse_target(verb: str, options: dict[str, Any]) -> None:
    for name in ("profile", "config"):
        if options.get(name):
            raise click.UsageError(f"`hearth {verb}` is not about one daemon: leave out --{name}.")


def main(args: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    terminal.open_what_is_closed()
    terminal.take_any_text()
    if COMPLETION_VARIABLE in os.environ:
        from hearth.cli.completion import register

        register()
    try:
        outcome = cli.main(args, prog_name="hearth", standalone_mode=False)
    except BaseException as error:  # the outermost handler: `report` raises unknown errors again
        return report(error)
    return outcome if isinstance(outcome, int) else 0
