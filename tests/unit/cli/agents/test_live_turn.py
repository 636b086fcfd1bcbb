"""A turn as it is followed: growing messages, permissions, the exit code. The entries are those that a daemon sends."""

from collections.abc import Iterator
from typing import Any

import pytest

from hearth.cli.agents.live_turn import TIME_UP, LivePrinter, LiveTurn, turn_of
from hearth.control_client.running_daemon import RunningDaemon
from hearth.errors import Refused, Unreachable

DAEMON = RunningDaemon("/nowhere", 1, 1)


def state(status: str, turn: int, **more: Any) -> dict[str, Any]:
    return {"kind": "state", "agentId": "a1", "status": status, "turn": turn, "pendingPermissions": [], **more}


def ended(turn: int, status: str = "idle", **more: Any) -> dict[str, Any]:
    return {"turn": turn, "status": status, "aborted": None, "lastError": None, **more}


def follow(*entries: dict[str, Any], number: int = 1, is_quiet: bool = False) -> int:
    return LiveTurn(DAEMON, "a1", LivePrinter(is_quiet=is_quiet), False).follow(entries, number)


def test_of_a_message_that_grows_each_part_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["Hel", "Hello", "Hello", "Hello there"]
    assert follow(*({"kind": "message", "seq": 2, "text": text} for text in texts), state("idle", 1)) == 0
    assert capsys.readouterr().out == "Hello there\n"


def test_messages_go_to_stdout_and_everything_else_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    follow(
        {"kind": "user", "seq": 1, "text": "do it"},
        {"kind": "message", "seq": 2, "text": "I look."},
        {"kind": "tool", "seq": 3, "title": "ls", "status": "pending"},
        {"kind": "tool", "seq": 3, "title": "ls", "status": "completed"},
        {"kind": "message", "seq": 4, "text": "Done.\n"},
        state("idle", 1),
    )
    shown = capsys.readouterr()
    assert shown.out == "I look.\nDone.\n"
    assert shown.err == "[ls]\n"


def test_a_turn_before_the_prompt_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert follow(state("idle", 3), state("running", 4), state("idle", 4), number=4) == 0
    with pytest.raises(Unreachable):
        follow(state("idle", 3), number=4)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (state("error", 1, lastError="the key is wrong"), "the key is wrong"),
        (state("closed", 0, closedReason="Agent terminated"), "Agent terminated"),
        (state("idle", 1, aborted="Agent run cancelled"), "Agent run cancelled"),
    ],
)
def test_an_end_that_is_none_of_its_own_is_a_failure_with_the_reason(
    end: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert follow(state("running", 1), end) == 1
    assert said in capsys.readouterr().err


def test_a_turn_that_another_prompt_replaces_has_not_finished(capsys: pytest.CaptureFixture[str]) -> None:
    replaced = ended(2, aborted="Agent run interrupted by new prompt")
    assert follow(state("running", 2), state("running", 3, endedTurns=[replaced]), number=2) == 1
    assert "interrupted by new prompt" in capsys.readouterr().err


def test_a_turn_that_has_finished_is_no_other_one_that_began_before_the_reader_looked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # As a turn of notices does, with the end of the former one.
    now = state("running", 3, lastMessage="done", aborted=None, endedTurns=[ended(1), ended(2)])
    turn = LiveTurn(DAEMON, "a1", LivePrinter(), False)
    assert turn.follow([state("running", 2), now], 2) == 0
    shown = turn.outcome()
    assert (shown["turn"], shown["status"], shown["lastMessage"]) == (2, "idle", "done")
    assert "endedTurns" not in shown
    failed = state("error", 3, lastError="late", endedTurns=[ended(2, "error", lastError="own"), ended(3, "error")])
    assert turn.follow([failed], 2) == 1
    assert "own" in capsys.readouterr().err
    assert turn.outcome()["lastMessage"] is None


def test_a_turn_whose_end_is_not_known_any_more_has_not_finished(capsys: pytest.CaptureFixture[str]) -> None:
    assert follow(state("running", 20, endedTurns=[ended(19)])) == 1
    assert "hearth agent logs" in capsys.readouterr().err


def test_a_permission_is_told_once_with_what_to_type_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = [{"id": "3f9a01c2", "name": "Bash", "input": {"command": "make"}}]
    asking = state("running", 1, pendingPermissions=asked)
    assert follow(asking, asking, state("idle", 1)) == 0
    said = capsys.readouterr().err
    assert said.count("hearth approve 3f9a01c2") == 1
    assert '{"command": "make"}' in said


def test_the_end_of_the_time_has_a_code_of_its_own() -> None:
    def entries() -> Iterator[dict[str, Any]]:
        yield state("running", 1)
        raise TimeoutError

    assert LiveTurn(DAEMON, "a1", LivePrinter(is_quiet=True), True).follow(entries()) == TIME_UP


def test_a_quiet_printer_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    follow({"kind": "message", "seq": 1, "text": "x"}, state("idle", 1), is_quiet=True)
    assert capsys.readouterr() == ("", "")


def test_a_log_has_prompts_and_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    printer = LivePrinter(is_log=True)
    for entry in (
        {"kind": "user", "seq": 1, "text": "do it"},
        {"kind": "thought", "seq": 2, "text": "hm"},
        {"kind": "message", "seq": 3, "text": "ok"},
        state("running", 1, pendingPermissions=[{"id": "3f9a01c2", "name": "Bash"}]),
    ):
        printer.show(entry)
    printer.end_line()
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out == "> do it\nhm\nok\nasks: Bash\n"


def test_a_daemon_that_names_no_turn_is_to_be_restarted() -> None:
    assert turn_of({"agentId": "a1", "turn": 3}, "a1") == 3
    with pytest.raises(Refused, match="hearth restart"):
        turn_of({"agentId": "a1"}, "a1")
