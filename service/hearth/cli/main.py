"""The `hearth` command: the group of verbs, each loaded when it is called; `hearth help` and `hearth version`."""

import difflib
import importlib
import json
import os
import sys
from keyword import iskeyword
from typing import Any

import click
from click.shell_completion import CompletionItem

from hearth import __version__
from hearth.cli.daemon_choice import target_options
from hearth.cli.messages import completed, json_option, report, tell
from hearth.output import terminal

# Each verb with its module. The order and the headings are those of the help.
SECTIONS: dict[str, dict[str, str]] = {
    "Try it": {"savings": "servers.savings", "demo": "demo", "help": "main"},
    "Set up": {
        "setup": "clients.setup",
        "import": "clients.import_",
        "install": "daemon.install",
        "uninstall": "daemon.install",
        "add": "servers.add",
        "remove": "servers.add",
        "enable": "servers.add",
        "disable": "servers.add",
        "pack": "servers.add",
        "connect": "clients.connect",
        "disconnect": "clients.connect",
        "config": "config",
        "policy": "policy.policy",
        "secret": "secret",
        "auth": "auth",
        "token": "daemon.serve",
        "role": "policy.role",
        "completion": "completion",
    },
    "Look": {
        "status": "daemon.status",
        "sessions": "daemon.status",
        "upstreams": "daemon.status",
        "ls": "daemon.status",
        "ps": "daemon.status",
        "tools": "tools.tools",
        "logs": "daemon.logs",
        "events": "daemon.status",
        "audit": "policy.audit",
        "doctor": "daemon.doctor",
        "version": "main",
    },
    "Act": {"call": "tools.call", "stop": "daemon.stop", "restart": "daemon.stop", "reload": "daemon.stop"},
    "Agents": {"agents": "agents.agents", "agent": "agents.agent"},
    "Decide": {
        "approvals": "policy.approvals",
        "approve": "policy.approvals",
        "deny": "policy.approvals",
    },
    "Run": {"serve": "daemon.serve", "bridge": "daemon.serve", "hook": "daemon.serve"},
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
      hearth savings              the memory of your MCP servers, now and with it
      hearth demo                 see what it does, in a scratch home
      hearth setup                have your MCP clients use it
      hearth add time -- uvx mcp-server-time
      hearth connect              your MCP clients, and which are connected
      hearth status               what runs, and who is attached
    """
    if not terminal.shows_colour(os.environ):
        ctx.color = False
    verb = ctx.invoked_subcommand
    for name in ("profile", "config"):
        if verb in WITHOUT_TARGET and options.get(name):
            raise click.UsageError(f"`hearth {verb}` is not about one daemon: leave out --{name}.")
    if verb is None:
        click.echo(ctx.get_help())


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


# --- `hearth help` and `hearth version`


def _complete_verb(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        found = _find(ctx.find_root(), ctx.params.get("verb") or ())
    except click.UsageError:
        return []
    names = found.command.list_commands(found) if isinstance(found.command, click.Group) else []
    return completed(names, incomplete)


@click.command(short_help="Explain a verb.")
@click.argument("verb", nargs=-1, metavar="[VERB]...", shell_complete=_complete_verb)
@json_option("Print the verbs, or the named one, with their options as JSON.")
@click.pass_context
def help(ctx: click.Context, /, verb: tuple[str, ...], as_json: bool) -> None:
    """Explain a verb, as `hearth VERB --help` does; without one, list all of them.
    Exits with 2 when there is no such verb.

    \b
    Examples:
      hearth help
      hearth help connect
      hearth help config set
      hearth help --json | jq -r '.verbs[].name'
    """
    found = _find(ctx.find_root(), verb)
    tell(as_json, _document(found), found.get_help())


def _find(context: click.Context, words: tuple[str, ...]) -> click.Context:
    """Return the context of the command that the words name. Raises click.UsageError."""
    for word in words:
        group = context.command
        command = group.get_command(context, word) if isinstance(group, click.Group) else None
        if command is None:
            near = nearest(word) if context.parent is None else None
            hint = f"Did you mean {near!r}?" if near else f"`{context.command_path} --help` lists what there is."
            raise click.UsageError(f"There is no verb {' '.join(words)!r}. {hint}", context)
        context = click.Context(command, parent=context, info_name=word)
    return context


def _document(context: click.Context) -> dict[str, Any]:
    command = context.command
    options = [
        {"names": [*each.opts, *each.secondary_opts], "takesValue": not each.is_flag, "help": each.help}
        for each in command.get_params(context)
        if isinstance(each, click.Option)
    ]
    found: dict[str, Any] = {
        "name": context.command_path,
        "summary": command.get_short_help_str(100),
        "usage": " ".join([context.command_path, *command.collect_usage_pieces(context)]),
        "options": options,
    }
    if isinstance(command, click.Group):
        below = ((name, command.get_command(context, name)) for name in command.list_commands(context))
        found["verbs"] = [
            {"name": name, "summary": each.get_short_help_str(100)} for name, each in below if each is not None
        ]
    return found


@click.command(short_help="Print the version.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def version(as_json: bool) -> None:
    """Print the version of this command, not of a daemon that may run (that is in `hearth status`).

    \b
    Examples:
      hearth version
      hearth version --json
    """
    import platform

    from hearth.wire.frames import PROTOCOL_VERSION

    known = {"version": __version__, "protocol": PROTOCOL_VERSION, "python": platform.python_version()}
    click.echo(json.dumps({**known, "executable": sys.executable}) if as_json else f"hearth {__version__}")
