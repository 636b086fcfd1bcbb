"""A turn of an agent as it runs: its text as it comes, the permissions that it asks for, and how it ends."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import click

from hearth.cli.agents.agent_lines import BUSY, Document, entry_text, permission_hint, permission_text
from hearth.cli.messages import can_ask, complain, confirm, note
from hearth.control_client.running_daemon import RunningDaemon
from hearth.errors import HearthError, Refused, Unreachable
from hearth.output import table
from hearth.output.terminal import Spinner

# Kinds of entries whose text grows while the agent writes.
_GROWING = frozenset({"message", "thought"})
# Exit code of a wait whose time is up, as that of timeout(1).
TIME_UP = 124
LOST = "the turn has ended, and others after it: `hearth agent logs` shows how"


def turn_of(answer: Document, id: str) -> int:
    """Return the number of the turn that a command has begun. Raises Refused if a daemon of older code names none."""
    turn = answer.get("turn")
    if not isinstance(turn, int):
        raise Refused(
            f"agent {id} is at work, but this daemon does not say in which turn: `hearth agent wait {id}` waits for it,"
            " `hearth restart` updates the daemon"
        )
    return turn


class LivePrinter:
    """Printer of entries as they come: messages on standard output, everything else on standard error.

    An entry that comes again, with the same number, has grown or has changed its state: only what is new is printed.
    """

    def __init__(self, is_quiet: bool = False, is_log: bool = False) -> None:
        self._is_quiet = is_quiet
        # Whether everything goes to standard output, prompts too.
        self._is_log = is_log
        # How much of each entry is printed already, and the entry in whose line the cursor is.
        self._printed: dict[object, str] = {}
        self._open: object = None
        self._is_error = False
        # How much of the text in that entry is not in the timeline.
        self._missing: object = None

    def show(self, entry: Document) -> None:
        """Print what is new of an entry. The prompt is the caller's own, and is not repeated."""
        kind, seq = entry.get("kind"), entry.get("seq")
        if kind == "state":
            for asked in (entry.get("pendingPermissions") or ()) if self._is_log else ():
                self._show_once(("permission", asked.get("id")), f"asks: {permission_text(asked)}")
            return
        if self._is_quiet or (kind == "user" and not self._is_log):
            return
        if kind in _GROWING:
            self._show_growth(seq, str(entry.get("text") or ""), is_message=kind == "message")
            self._missing = entry.get("cut")
            return
        self._show_once(seq, entry_text(entry))

    def _show_once(self, key: object, text: str) -> None:
        if text and self._printed.get(key) != text:
            self._printed[key] = text
            self.end_line()
            click.echo(text, err=not self._is_log)

    def _show_growth(self, seq: object, text: str, is_message: bool) -> None:
        before = self._printed.get(seq, "")
        new = text.removeprefix(before) if text.startswith(before) else text
        if not new:
            return
        if self._open != seq:
            self.end_line()
        self._printed[seq] = text
        # Output to a file or a pipe stays unchanged.
        is_error = not is_message and not self._is_log
        shown = new if is_message and not self._is_log and not sys.stdout.isatty() else table.harmless(new)
        click.echo(shown if is_message else click.style(shown, dim=True), nl=False, err=is_error)
        self._open = None if new.endswith("\n") else seq
        self._is_error = is_error

    @property
    def is_in_line(self) -> bool:
        """Whether the cursor is behind a text whose line has not ended."""
        return self._open is not None

    def end_line(self) -> None:
        """Put the cursor at the beginning of a line."""
        if self._open is not None:
            click.echo(err=self._is_error)
        self._open = None
        if self._missing:
            click.echo(click.style(f"[{self._missing} characters more, which are not kept]", dim=True), err=True)
        self._missing = None


class LiveTurn:
    """Follower of one agent until it rests: prints what it does, and has permissions decided."""

    def __init__(self, daemon: RunningDaemon, id: str, printer: LivePrinter, as_json: bool) -> None:
        self._daemon = daemon
        self._id = id
        self._printer = printer
        self._asks = can_ask() and not as_json
        self._seen: set[str] = set()
        self.state: dict[str, Any] = {}

    def follow(self, entries: Iterable[Document], number: int | None = None) -> int:
        """Follow until a turn has ended, by default the present one; return the exit code. Raises Unreachable."""
        try:
            return self._follow(entries, number)
        except TimeoutError:
            return TIME_UP

    def outcome(self) -> dict[str, Any]:
        """Return what a program is told of the end: the last state, as it was with the end of the turn."""
        hidden = ("kind", "at", "endedTurns")
        return {"agentId": self._id, **{key: value for key, value in self.state.items() if key not in hidden}}

    def _follow(self, entries: Iterable[Document], own: int | None) -> int:
        for entry in self._awaited(entries):
            if entry.get("kind") != "state":
                self._printer.show(entry)
                continue
            self.state = dict(entry)
            turn = int(entry.get("turn") or 0)
            own = turn if own is None else own
            ended: list[Document] = entry.get("endedTurns") or []
            if (end := next((each for each in ended if each.get("turn") == own), None)) is not None:
                # Other turns, such as those of notices, may have begun since.
                message = entry.get("lastMessage") if ended[-1] is end else None
                self.state = {**self.state, **end, "lastMessage": message}
            elif turn > own:
                self._printer.end_line()
                complain(LOST)
                return HearthError.exit_code
            elif entry.get("status") in BUSY or (turn < own and entry.get("status") != "closed"):
                self._decide(entry)
                continue
            self._printer.end_line()
            return self._report(self.state)
        self._printer.end_line()
        raise Unreachable("the daemon has ended, and the turn with it; the agent goes on with its next prompt")

    def _awaited(self, entries: Iterable[Document]) -> Iterator[Document]:
        """Yield the entries; a spinner turns while none comes, unless the line that it would erase has a text."""
        coming = iter(entries)
        while True:
            with nullcontext() if self._printer.is_in_line else Spinner(f"{self._id} works"):
                entry = next(coming, None)
            if entry is None:
                return
            yield entry

    def _decide(self, state: Document) -> None:
        for asked in state.get("pendingPermissions") or ():
            id = str(asked.get("id"))
            if id in self._seen:
                continue
            self._seen.add(id)
            what = f"{self._id} asks: {permission_text(asked)}"
            self._printer.end_line()
            if self._asks:
                self._answer(id, confirm(f"{what}. Allow?"))
            else:
                note(what, permission_hint(asked))

    def _answer(self, id: str, is_allowed: bool) -> None:
        try:
            with self._daemon.control() as control:
                control.command("decide", id=id, action="approve" if is_allowed else "deny", scope="once", reason="")
        except Unreachable:
            raise
        except HearthError as exc:
            # Another person was quicker, or it was withdrawn.
            complain(table.harmless(str(exc)))

    def _report(self, state: Document) -> int:
        status, aborted = state.get("status"), state.get("aborted")
        if status == "idle" and not aborted:
            return 0
        why = state.get("closedReason") or aborted or state.get("lastError")
        what = "was closed" if status == "closed" else "did not finish its turn"
        complain(f"the agent {what}: {table.clean(table.text_of(why))}")
        return HearthError.exit_code
