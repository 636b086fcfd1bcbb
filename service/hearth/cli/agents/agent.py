"""`hearth agent`: starts an agent, prompts it, follows it, and ends it."""

import os
import sys
import time
from typing import Any

import click

from hearth.cli.agents.agent_lines import agent_lines
from hearth.cli.agents.agents import complete_agent, complete_mode
from hearth.cli.agents.live_turn import TIME_UP, LivePrinter, LiveTurn, turn_of
from hearth.cli.daemon_choice import Number, WholeNumber, with_places
from hearth.cli.messages import INTERRUPTED, ask, complain, json_option, json_text, note, print_json, tell
from hearth.control_client import running_daemon
from hearth.control_client.connection import AGENTS_SECONDS
from hearth.control_client.running_daemon import RunningDaemon
from hearth.errors import Refused
from hearth.output import table
from hearth.output.terminal import Spinner
from hearth.paths import Places

LINES_BY_DEFAULT = 50
# A prompt is read whole; more than this is a mistake, such as a pipe from a device.
PROMPT_LIMIT_BYTES = 16 * 1024 * 1024
FROM_STDIN = "-"

_ID = click.argument("id", shell_complete=complete_agent)


@click.group(short_help="Start, prompt, follow and end agents.")
def agent() -> None:
    """Start coding agents in the daemon, prompt them, follow what they do, and end them. An agent outlives the command
    that started it, and the daemon: its session goes on with the next prompt where its provider can resume it.

    \b
    Examples:
      hearth agent run "fix the failing test"
      hearth agent run --worktree login --base main --background "add a login page"
      hearth agent logs -f a1b2c3d4e5f6
      hearth agent send a1b2c3d4e5f6 "now add a test"
    """


def _prompt(text: str) -> str:
    if text != FROM_STDIN:
        return text
    read = sys.stdin.buffer.read(PROMPT_LIMIT_BYTES + 1)
    if len(read) > PROMPT_LIMIT_BYTES:
        raise click.UsageError(
            f"The prompt has more than {PROMPT_LIMIT_BYTES // 2**20} MiB: name a file in it instead."
        )
    return read.decode("utf-8", "replace")


def _running(places: Places, otherwise: str = "its agents are known again when a daemon runs") -> RunningDaemon:
    daemon = running_daemon.find(places)
    if daemon is None:
        raise Refused(f"hearth is not running, so no agent works; {otherwise}")
    return daemon


def _started(places: Places) -> RunningDaemon:
    from hearth.control_client.starting import find_or_start

    if (daemon := running_daemon.find(places)) is not None:
        return daemon
    _check_enabled(places)
    with Spinner("starting the daemon"):
        return find_or_start(places)


def _check_enabled(places: Places) -> None:
    """Raise Refused if the pack is off: no daemon is started only to say so. Mistakes of the file are the daemon's."""
    from hearth import config

    found = config.examine(places)
    pack = found.config.packs.get("agents")
    if not found.problems and (pack is None or pack.disabled):
        raise Refused(f"the pack 'agents' is off in {found.path}: `hearth pack enable agents`")


# --- run, send, wait


@agent.command(short_help="Start an agent with a prompt.")
@click.argument("prompt")
@click.option(
    "--provider",
    metavar="NAME[/MODEL]",
    help="The program that works: claude, codex, gemini, opencode or your own; a model of it after a slash.",
)
@click.option("--mode", metavar="MODE", help="The mode of its session, as the provider names it.")
@click.option("--role", metavar="ROLE", help="Its role under the policy.")
@click.option("--worktree", metavar="NAME", help="Let it work in a new git worktree, on a branch of this name.")
@click.option("--base", metavar="BRANCH", help="The branch that the worktree begins at.")
@click.option("--title", metavar="TEXT", help="Its title; else the first line of the prompt.")
@click.option("--cwd", metavar="FOLDER", type=click.Path(file_okay=False), help="The folder in which it works.")
@click.option("--background", is_flag=True, help="Print its id and return at once.")
@json_option("Print the outcome as JSON instead of the agent's text.")
@with_places
def run(
    places: Places,
    prompt: str,
    provider: str | None,
    mode: str | None,
    role: str | None,
    worktree: str | None,
    base: str | None,
    title: str | None,
    cwd: str | None,
    background: bool,
    as_json: bool,
) -> int:
    """Start an agent in this folder, with PROMPT (`-`: standard input), and show its text as it comes. Starts the
    daemon if none runs. Permissions are asked for at a terminal; without one, what to type is said on stderr.

    Ctrl-C leaves the agent at work. Exits with 0 when the turn has finished, with 1 when it failed, was cancelled or
    the agent was closed, with 4 when the daemon ended, with 5 when the agent was refused.

    \b
    Examples:
      hearth agent run "fix the failing test"
      hearth agent run --provider codex --cwd ~/work/site - < task.md
      hearth agent run --worktree login --base main --background "add a login page"
    """
    if (worktree is None) != (base is None):
        raise click.UsageError("--worktree and --base belong together: the new branch, and where it begins.")
    given = {
        "prompt": _prompt(prompt),
        "provider": provider,
        "mode": mode,
        "role": role,
        "title": title,
        "cwd": os.path.abspath(os.path.expanduser(cwd or os.curdir)),
        "worktreeName": worktree,
        "baseBranch": base,
    }
    daemon = _started(places)
    with daemon.control() as control, Spinner(f"starting {provider or 'the agent'}"):
        made = control.agent("create", {key: value for key, value in given.items() if value is not None})
    id = str(made["agentId"])
    if background:
        tell(as_json, made, id)
        return 0
    if not as_json:
        click.echo(click.style(f"agent {id} works in {table.clean(str(made.get('cwd')))}", dim=True), err=True)
    with daemon.control() as feed:
        return _follow(daemon, id, feed.agent_log(id, None, True), turn_of(made, id), as_json)


@agent.command(short_help="Give an agent another prompt.")
@_ID
@click.argument("prompt")
@click.option("--mode", metavar="MODE", help="Change its mode first.", shell_complete=complete_mode)
@click.option("--background", is_flag=True, help="Return at once.")
@json_option("Print the outcome as JSON instead of the agent's text.")
@with_places
def send(places: Places, id: str, prompt: str, mode: str | None, background: bool, as_json: bool) -> int:
    """Give an agent another PROMPT (`-`: standard input), and show its text as it comes. A turn that runs is cancelled
    first. Starts the daemon if none runs: the agent's session is resumed where its provider can.

    Exits as `hearth agent run` does.

    \b
    Examples:
      hearth agent send a1b2c3d4e5f6 "now add a test"
      hearth agent send a1b2c3d4e5f6 --background - < review.md
    """
    text = _prompt(prompt)
    daemon = _started(places)
    given = {"agentId": id, "prompt": text, **({"sessionMode": mode} if mode else {})}
    with daemon.control() as control, daemon.control() as feed:
        if background:
            with Spinner("sending the prompt"):
                done = control.agent("send", given)
            tell(as_json, done, f"{id} works on it.")
            return 0
        # Followed first: the new turn's first words must not be missed.
        entries = feed.agent_log(id, 0, True)
        next(entries, {})
        with Spinner("sending the prompt"):
            done = control.agent("send", given)
        return _follow(daemon, id, entries, turn_of(done, id), as_json)


@agent.command(short_help="Wait until an agent rests.")
@_ID
@click.option("--timeout", type=Number(min=0.001), metavar="SECONDS", help="Give up after so long.")
@json_option("Print the outcome as JSON.")
@with_places
def wait(places: Places, id: str, timeout: float | None, as_json: bool) -> int:
    """Wait until an agent's turn has ended, and print its last message. Permissions are asked for at a terminal.

    Exits as `hearth agent run` does, and with 124 when the time is up: the agent goes on then.

    \b
    Examples:
      hearth agent wait a1b2c3d4e5f6
      hearth agent wait a1b2c3d4e5f6 --timeout 600 --json | jq -r .lastMessage
    """
    daemon = _running(places)
    turn = LiveTurn(daemon, id, LivePrinter(is_quiet=True), as_json)
    with daemon.control() as feed:
        code = turn.follow(feed.agent_log(id, 0, True, timeout))
    if code == TIME_UP and not as_json:
        complain(f"{id} still works after {timeout:g} s")
    tell(as_json, turn.outcome(), *([str(turn.state["lastMessage"])] if turn.state.get("lastMessage") else []))
    return code


def _follow(daemon: RunningDaemon, id: str, entries: Any, number: int, as_json: bool) -> int:
    turn = LiveTurn(daemon, id, LivePrinter(is_quiet=as_json), as_json)
    try:
        code = turn.follow(entries, number)
    except (KeyboardInterrupt, click.Abort):
        click.echo(err=True)
        note(f"{id} goes on: `hearth agent logs -f {id}` follows it, `hearth agent cancel {id}` ends its turn")
        return INTERRUPTED
    if as_json:
        print_json(turn.outcome())
    return code


# --- show, logs


@agent.command(short_help="Show one agent.")
@_ID
@json_option("Print JSON: the agent's whole state.")
@with_places
def show(places: Places, id: str, as_json: bool) -> None:
    """Show one agent: its state, folder, worktree, modes and usage, and what it waits for. Starts no daemon.

    \b
    Examples:
      hearth agent show a1b2c3d4e5f6
      hearth agent show a1b2c3d4e5f6 --json | jq .snapshot.lastUsage
    """
    with _running(places).control() as control:
        found = control.agent("show", {"agentId": id}, AGENTS_SECONDS)
    tell(as_json, found, *agent_lines(found["snapshot"], time.time(), os.path.expanduser("~")))


@agent.command(short_help="Show what an agent did.")
@_ID
@click.option("--follow", "-f", is_flag=True, help="Go on with what it does from now on, until Ctrl-C.")
@click.option("--lines", "-n", metavar="N", type=WholeNumber(min=0), default=LINES_BY_DEFAULT, show_default=True,
              help="How many of the last entries.")  # fmt: skip
@json_option("Print one JSON object per line.")
@with_places
def logs(places: Places, id: str, follow: bool, lines: int, as_json: bool) -> None:
    """Show the last entries of an agent's timeline: prompts, messages, thoughts, calls of its own tools, plans and
    errors. Starts no daemon.

    \b
    Examples:
      hearth agent logs a1b2c3d4e5f6
      hearth agent logs -f a1b2c3d4e5f6
      hearth agent logs -n 500 --json a1b2c3d4e5f6 | jq -r 'select(.kind == "tool").title'
    """
    printer = LivePrinter(is_log=True)
    with _running(places).control() as control:
        try:
            for entry in control.agent_log(id, lines, follow):
                if as_json:
                    click.echo(json_text(entry, indent=None))
                else:
                    printer.show(entry)
            printer.end_line()
        except KeyboardInterrupt:
            click.echo(err=True)


# --- cancel, kill, mode, prune


@agent.command(short_help="End an agent's turn; the agent stays.")
@_ID
@json_option()
@with_places
def cancel(places: Places, id: str, as_json: bool) -> None:
    """End the turn that an agent works on. The agent stays, and takes the next prompt.

    \b
    Examples:
      hearth agent cancel a1b2c3d4e5f6
    """
    with _running(places).control() as control, Spinner(f"cancelling the turn of {id}"):
        done = control.agent("cancel", {"agentId": id})
    tell(as_json, done, f"The turn of {id} is cancelled." if done.get("success") else f"{id} works on nothing.")


@agent.command(short_help="End an agent for good.")
@_ID
@json_option()
@with_places
def kill(places: Places, id: str, as_json: bool) -> None:
    """End an agent for good: its turn, its session and every process of it. Its worktree stays; `hearth agent prune
    --worktrees` removes those with nothing to lose.

    \b
    Examples:
      hearth agent kill a1b2c3d4e5f6
    """
    with _running(places).control() as control, Spinner(f"ending {id}"):
        done = control.agent("kill", {"agentId": id})
    tell(as_json, done, f"{id} is closed.")


@agent.command(short_help="Show or change an agent's mode.")
@_ID
@click.argument("mode", required=False, shell_complete=complete_mode)
@json_option("Print JSON.")
@with_places
def mode(places: Places, id: str, mode: str | None, as_json: bool) -> None:
    """Change the mode of an agent's session; without MODE, list its modes. With a policy, a mode in which an agent
    never asks needs your grant.

    \b
    Examples:
      hearth agent mode a1b2c3d4e5f6
      hearth agent mode a1b2c3d4e5f6 plan
    """
    with _running(places).control() as control:
        if mode is not None:
            with Spinner(f"changing the mode of {id}"):
                done = control.agent("mode", {"agentId": id, "modeId": mode})
            tell(as_json, done, f"The mode of {id} is {table.clean(str(done.get('newMode') or mode))}.")
            return
        snapshot = control.agent("show", {"agentId": id}, AGENTS_SECONDS)["snapshot"]
    found = {"currentModeId": snapshot.get("currentModeId"), "availableModes": snapshot.get("availableModes") or []}
    tell(as_json, found, *_modes(found))


def _modes(found: dict[str, Any]) -> list[str]:
    rows = [
        ["*" if each.get("id") == found["currentModeId"] else "", str(each.get("id")), str(each.get("label") or ""),
         str(each.get("description") or "")]
        for each in found["availableModes"]
    ]  # fmt: skip
    return table.columns(["", "MODE", "NAME", "DESCRIPTION"], rows) if rows else ["Its provider has no modes."]


@agent.command(short_help="Forget closed agents.")
@click.option("--worktrees", is_flag=True, help="Remove their worktrees, too, where no work would be lost.")
@click.option("--force", is_flag=True, help="Remove worktrees also where work would be lost. For a person only.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before --force.")
@json_option()
@with_places
def prune(places: Places, worktrees: bool, force: bool, yes: bool, as_json: bool) -> None:
    """Forget the agents that are closed, with their timelines; those with a worktree only with --worktrees. A worktree
    that holds work which is nowhere else (uncommitted, untracked or ignored files, commits on no other branch) is kept,
    and so is its agent.

    \b
    Examples:
      hearth agent prune
      hearth agent prune --worktrees
      hearth agent prune --worktrees --force
    """
    if force and not worktrees:
        raise click.UsageError("--force is about worktrees: say --worktrees, too.")
    daemon = _running(places)
    if force and not yes:
        ask("Work in worktrees that is nowhere else would be lost", "remove them", as_json)
    with daemon.control() as control, Spinner("removing what is left of closed agents"):
        done = control.agent("prune", {"worktrees": worktrees, "force": force})
    tell(as_json, done, *_pruned(done))


def _pruned(done: dict[str, Any]) -> list[str]:
    removed, kept = done.get("removed") or [], done.get("kept") or []
    lines = [f"removed {table.clean(str(each))}" for each in removed]
    lines += [f"kept {table.clean(str(each.get('id')))}: {table.clean(str(each.get('reason')))}" for each in kept]
    return lines or ["There is nothing to remove."]
