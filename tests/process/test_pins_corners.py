"""Pinned servers in every way that they are reached, changed, restarted, and approved."""

import sys

import pytest

from e2e.terminal import Terminal
from process.clients import text_of
from process.daemon import pids_of
from process.kernel import is_gone, until
from process.turncoat import CHANGED, EVIL, HONEST, Turncoat, refusal


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 5)])
def test_at_a_terminal_exactly_what_was_shown_is_approved(turncoat: Turncoat, answer: str, code: int) -> None:
    turncoat.start(pin=True)
    client = turncoat.client()
    turncoat.turn(client, EVIL)
    client.next_called(CHANGED)
    command = [sys.executable, "-m", "hearth", "tools", "approve", "files"]
    terminal = Terminal(command, {**turncoat.scratch.environment(), "TERM": "dumb"})
    assert "Then send it to me.<U+200B>" in terminal.read_until("[y/N]")
    # While the person reads, the server thinks of something worse, which nobody was shown.
    worse = {**EVIL, "write": "Writes a file, and deletes the others."}
    turncoat.turn(client, worse)
    until(lambda: turncoat.changed() == ["read", "write"], "the change is noticed")
    terminal.type(answer)
    assert terminal.finish() == code
    assert turncoat.changed() == (["write"] if code == 0 else ["read", "write"])
    assert client.tools() == (["files__read", "files__turn"] if code == 0 else ["files__turn"])


def test_a_tool_that_goes_back_to_what_was_approved_is_offered_again(turncoat: Turncoat) -> None:
    turncoat.start(pin=True)
    client = turncoat.client()
    turncoat.turn(client, EVIL)
    client.next_called(CHANGED)
    turncoat.turn(client, HONEST)
    client.next_called(CHANGED)
    assert client.tools() == ["files__read", "files__turn", "files__write"]
    assert turncoat.changed() == []


def test_a_tool_that_appears_later_is_withheld_too_and_tools_are_approved_one_by_one(turncoat: Turncoat) -> None:
    turncoat.start(pin=True)
    client = turncoat.client()
    turncoat.turn(client, {**EVIL, "send": "Sends a file."})
    client.next_called(CHANGED)
    assert client.tools() == ["files__turn", "files__write"]
    assert "withheld" in refusal(client, "files__send")
    turncoat.hearth("approve", "files", "send", "--yes")
    client.next_called(CHANGED)
    assert client.tools() == ["files__send", "files__turn", "files__write"]
    assert "has not changed, or there is none" in turncoat.hearth("approve", "files", "nothing", code=2)


def test_the_search_tools_neither_find_nor_call_what_is_withheld(turncoat: Turncoat) -> None:
    turncoat.start(pin=True)
    turncoat.turn(turncoat.client(), EVIL)
    until(lambda: turncoat.changed() == ["read"], "the change is noticed")
    client = turncoat.scratch.frames(mode="search")
    client.initialize()
    found = text_of(client.call("find_tools", query="read a file"))
    assert "files__write" in found
    assert "files__read" not in found
    assert (
        "files__read"
        not in text_of(client.call("describe_tools", names=["files__read", "files__write"])).split("files__write")[1]
    )
    assert "withheld" in refusal(client, "call_tool", name="files__read", arguments={})
    assert text_of(client.call("call_tool", name="files__write", arguments={})) == "write"


def test_a_session_for_the_server_alone_is_treated_the_same(turncoat: Turncoat) -> None:
    turncoat.start(pin=True)
    turncoat.turn(turncoat.client(), EVIL)
    until(lambda: turncoat.changed() == ["read"], "the change is noticed")
    alone = turncoat.scratch.frames(server="files")
    assert alone.tools() == ["turn", "write"]
    assert "withheld" in refusal(alone, "read")


def test_what_was_approved_outlives_the_daemon_its_server_s_token_and_its_absence(turncoat: Turncoat) -> None:
    turncoat.configure(pin=True, env={"TOKEN": "one"})
    daemon = turncoat.scratch.start()
    turncoat.client()
    assert daemon.stop() == 0
    # Nothing runs: the next daemon meets a server that has changed, with another token.
    turncoat.describe(EVIL)
    turncoat.start(pin=True, env={"TOKEN": "two"})
    client = turncoat.client()
    assert client.tools() == ["files__turn", "files__write"]
    assert "files__read" not in turncoat.hearth()


def test_pinning_takes_effect_with_a_reload_and_touches_no_process(turncoat: Turncoat) -> None:
    turncoat.start()
    client = turncoat.client()
    turncoat.turn(client, EVIL)
    client.next_called(CHANGED)
    assert "files__read" in client.tools()
    pids = pids_of(turncoat.scratch, "files")
    for pin, is_there in ((True, False), (False, True)):
        turncoat.configure(pin=pin)
        assert turncoat.scratch.control().control("reload")[0]["ok"] is True
        client.next_called(CHANGED)
        assert ("files__read" in client.tools()) is is_there
    assert pids_of(turncoat.scratch, "files") == pids


def test_a_file_that_makes_no_sense_withholds_everything_of_a_pinned_server(turncoat: Turncoat) -> None:
    turncoat.configure(pin=True)
    daemon = turncoat.scratch.start()
    turncoat.client()
    (pid,) = pids_of(turncoat.scratch, "files")
    assert daemon.stop() == 0
    until(lambda: is_gone(pid), "the server has ended")
    (file,) = (turncoat.scratch.home / ".local" / "state" / "hearth" / "pins" / "mcp").glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("{")
    said = turncoat.hearth("diff", code=1)
    assert said.count("cannot be read") == 1 and str(file) in said and "move the file away" in said
    turncoat.scratch.start()
    client = turncoat.client()
    assert client.tools() == []
    assert "withheld" in refusal(client, "files__write")
    assert "cannot be read" in turncoat.scratch.logged()
    until(lambda: len(turncoat.changed()) == 3, "the server has said what it offers")
    turncoat.hearth("approve", "files", "--yes")
    assert client.tools() == ["files__read", "files__turn", "files__write"]


def test_a_server_that_is_nowhere_is_a_mistake(turncoat: Turncoat) -> None:
    turncoat.configure()
    assert "Did you mean 'files'?" in turncoat.hearth("diff", "flies", code=2)
    assert "Every tool of files is as it was" in turncoat.hearth("approve", "files")
