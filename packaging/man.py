"""Write the man page hearth(1) from the command line itself, so that the two cannot drift apart.

    python packaging/man.py [--date YYYY-MM-DD] > hearth.1

One page for all verbs. The date is given by whoever builds the package, so that the output can be reproduced.
"""

import argparse
import inspect
import re

import click

from hearth import __version__
from hearth.cli import messages
from hearth.cli.daemon.serve import BridgeCommand, described
from hearth.cli.main import SECTIONS, cli

# click marks a paragraph that is not to be filled with a line that holds only this.
_UNFILLED = "\b"


def escape(text: str) -> str:
    """Text that roff prints as it is: a hyphen to be typed stays one, a leading dot is no request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return re.sub(r"^\.", "\\\\&.", text, flags=re.MULTILINE)


def prose(text: str) -> list[str]:
    """A help text as roff: paragraphs, and examples in literal lines."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith(_UNFILLED):
            lines += [".PP", ".nf", *(escape(line) for line in paragraph.split("\n")[1:]), ".fi"]
        else:
            lines += [".PP", escape(" ".join(paragraph.split("\n")))]
    return lines


def options(command: click.Command, ctx: click.Context) -> list[str]:
    """The options of a command, each with its help."""
    records = (parameter.get_help_record(ctx) for parameter in command.get_params(ctx))
    lines = []
    for record in filter(None, records):
        lines += [".TP", f".B {escape(record[0])}", escape(record[1])]
    return lines


def plain_options(usage: str) -> list[str]:
    """Return the options of a bridge or a hook, which are read without click: out of its own help."""
    return [line for names, text in described(usage) for line in (".TP", f".B {escape(names)}", escape(text))]


def verb(name: str, command: click.Command, parent: click.Context) -> list[str]:
    """One verb, and the verbs below it."""
    ctx = click.Context(command, parent=parent, info_name=name)
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    listed = plain_options(command.usage) if isinstance(command, BridgeCommand) else options(command, ctx)
    lines = [f".SS {escape(usage)}", *prose(command.help or ""), *listed]
    if isinstance(command, click.Group):
        for below in command.list_commands(ctx):
            found = command.get_command(ctx, below)
            if found:
                lines += verb(below, found, ctx)
    return lines


def exit_codes() -> list[str]:
    """The table of exit codes that stands at the head of the module which gives them."""
    rows = re.findall(r"^ *(\d+)  (.+)$", messages.__doc__ or "", flags=re.MULTILINE)
    return [line for code, meaning in rows for line in (".TP", f".B {code}", escape(meaning))]


def page(date: str) -> str:
    """The whole man page."""
    ctx = click.Context(cli, info_name="hearth")
    lines = [
        f'.TH HEARTH 1 "{date}" "hearth {__version__}" "User Commands"',
        ".SH NAME",
        "hearth \\- the per\\-user MCP daemon that the operating system starts for you",
        ".SH SYNOPSIS",
        ".B hearth",
        "[OPTIONS] VERB [ARGUMENTS]",
        ".SH DESCRIPTION",
        *prose(cli.help or ""),
        ".SH OPTIONS",
        *options(cli, ctx),
    ]
    for heading, verbs in SECTIONS.items():
        lines.append(f'.SH "{heading.upper()}"')
        for name in verbs:
            command = cli.get_command(ctx, name)
            if command:
                lines += verb(name, command, ctx)
    lines += [".SH EXIT STATUS", *exit_codes(), ".SH FILES", *_files()]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR systemctl (1),", ".BR journalctl (1)", ""])


def _files() -> list[str]:
    places = {
        "~/.config/hearth/config.toml": "The configuration of the default profile.",
        "$XDG_RUNTIME_DIR/mcp/mcp.sock": "Its socket.",
        "$XDG_RUNTIME_DIR/mcp/mcp/daemon.json": "The registry: which process serves it.",
        "~/.local/state/hearth/logs/mcp.log": "The log of a daemon that systemd did not start.",
        "~/.local/state/hearth/clients": "What `hearth disconnect` brings clients' files back from.",
        "~/.config/systemd/user/mcp.socket": "One of the units that `hearth install` writes.",
    }
    return [line for path, what in places.items() for line in (".TP", f".I {escape(path)}", escape(what))]


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description="Write the man page hearth(1).")
    parser.add_argument("--date", default="", help="the date on the page")
    print(page(parser.parse_args().date), end="")


if __name__ == "__main__":
    main()
