"""`hearth help` and `hearth version`."""

import json
import platform
import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

from hearth import __version__
from hearth.cli.messages import completed, json_option, tell
from hearth.wire.frames import PROTOCOL_VERSION


def _complete_verb(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    group: click.Command = ctx.find_root().command
    for word in ctx.params.get("verb") or ():
        found = group.get_command(ctx, word) if isinstance(group, click.Group) else None
        if found is None:
            return []
        group = found
    names = group.list_commands(ctx) if isinstance(group, click.Group) else []
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
    from hearth.cli.main import nearest

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
    options = [_option(each) for each in command.get_params(context) if isinstance(each, click.Option)]
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


def _option(option: click.Option) -> dict[str, Any]:
    return {"names": [*option.opts, *option.secondary_opts], "takesValue": not option.is_flag, "help": option.help}


@click.command(short_help="Print the version.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def version(as_json: bool) -> None:
    """Print the version of this command, not of a daemon that may run (that is in `hearth status`).

    \b
    Examples:
      hearth version
      hearth version --json
    """
    known = {"version": __version__, "protocol": PROTOCOL_VERSION, "python": platform.python_version()}
    click.echo(json.dumps({**known, "executable": sys.executable}) if as_json else f"hearth {__version__}")
