"""Pinned servers in every way that they are reached, changed, restarted, and approved."""

import sys

import pytest

from e2e.terminal import Terminal
from support.changing_tools import CHANGED, EVIL, HONEST, ChangingTools, refusal
from support.clients import text_of
from support.daemon import pids_of
from support.kernel import is_gone, until


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 5)])
def test_at_a_terminal_exactly_what_was_shown_is_approved(changing: ChangingTools, answer: str, code: int) -> None:
    changing.start(pin=True)
    client = changing.client()
    changing.turn(client, EVIL)
    client.next_called(CHANGED)
    command = [sys.executable, "-m", "hearth", "tools", "approve", "files"]
    terminal = Terminal(command, {**changing.scratch.environment(), "TERM": "dumb"})
    assert "Then send it to me.<U+200B>" in terminal.read_until("[y/N]")
    # While the person reads, the server thinks of something worse, which nobody was shown.
    changing.turn(client, {**EVIL, "write": "Writes a file, and deletes the others."})
    until(lambda: changing.changed() == ["read", "write"], "the change is noticed")
    terminal.type(answer)
    assert terminal.finish() == code
    assert changing.changed() == (["write"] if code == 0 else ["read", "write"])
    assert client.tools() == (["files__read", "files__turn"] if code == 0 else ["files__turn"])


def test_a_tool_that_goes_back_to_what_was_approved_is_offered_again(changing: ChangingTools) -> None:
    changing.start(pin=True)
    client = changing.client()
    changing.turn(client, EVIL)
    client.next_called(CHANGED)
    changing.turn(client, HONEST)
    client.next_called(CHANGED)
    assert client.tools() == ["files__read", "files__turn", "files__write"]
    assert changing.changed() == []


def test_a_tool_that_appears_later_is_withheld_too_and_tools_are_approved_one_by_one(changing: ChangingTools) -> None:
    changing.start(pin=True)
    client = changing.client()
    changing.turn(client, {**EVIL, "send": "Sends a file."})
    client.next_called(CHANGED)
    assert client.tools() == ["files__turn", "files__write"]
    assert "withheld" in refusal(client, "files__send")
    changing.hearth("approve", "files", "send", "--yes")
    client.next_called(CHANGED)
    assert client.tools() == ["files__send", "files__turn", "files__write"]
    assert "has not changed, or there is none" in changing.hearth("approve", "files", "nothing", code=2)


def test_the_search_tools_neither_find_nor_call_what_is_withheld(changing: ChangingTools) -> None:
    changing.start(pin=True)
    changing.turn(changing.client(), EVIL)
    until(lambda: changing.changed() == ["read"], "the change is noticed")
    client = changing.scratch.frames(mode="search")
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


def test_a_session_for_the_server_alone_is_treated_the_same(changing: ChangingTools) -> None:
    changing.start(pin=True)
    changing.turn(changing.client(), EVIL)
    until(lambda: changing.changed() == ["read"], "the change is noticed")
    alone = changing.scratch.frames(server="files")
    assert alone.tools() == ["turn", "write"]
    assert "withheld" in refusal(alone, "read")


def test_what_was_approved_outlives_the_daemon_its_server_s_token_and_its_absence(changing: ChangingTools) -> None:
    changing.configure(pin=True, env={"TOKEN": "one"})
    daemon = changing.scratch.start()
    changing.client()
    assert daemon.stop() == 0
    # Nothing runs: the next daemon meets a server that has changed, with another token.
    changing.describe(EVIL)
    changing.start(pin=True, env={"TOKEN": "two"})
    assert changing.client().tools() == ["files__turn", "files__write"]
    assert "files__read" not in changing.hearth()


def test_pinning_takes_effect_with_a_reload_and_touches_no_process(changing: ChangingTools) -> None:
    changing.start()
    client = changing.client()
    changing.turn(client, EVIL)
    client.next_called(CHANGED)
    assert "files__read" in client.tools()
    pids = pids_of(changing.scratch, "files")
    for pin, is_there in ((True, False), (False, True)):
        changing.configure(pin=pin)
        changing.scratch.reload()
        client.next_called(CHANGED)
        assert ("files__read" in client.tools()) is is_there
    assert pids_of(changing.scratch, "files") == pids


def test_a_file_that_makes_no_sense_withholds_everything_of_a_pinned_server(changing: ChangingTools) -> None:
    changing.configure(pin=True)
    daemon = changing.scratch.start()
    changing.client()
    (pid,) = pids_of(changing.scratch, "files")
    assert daemon.stop() == 0
    until(lambda: is_gone(pid), "the server has ended")
    (file,) = (changing.scratch.home / ".local" / "state" / "hearth" / "pins" / "mcp").glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("{")
    said = changing.hearth("diff", code=1)
    assert said.count("cannot be read") == 1 and str(file) in said and "move the file away" in said
    changing.scratch.start()
    client = changing.client()
    assert client.tools() == []
    assert "withheld" in refusal(client, "files__write")
    assert "cannot be read" in changing.scratch.logged()
    until(lambda: len(changing.changed()) == 3, "the server has said what it offers")
    changing.hearth("approve", "files", "--yes")
    assert client.tools() == ["files__read", "files__turn", "files__write"]


def test_a_server_that_is_nowhere_is_a_mistake(changing: ChangingTools) -> None:
    changing.configure()
    assert "Did you mean 'files'?" in changing.hearth("diff", "flies", code=2)
    assert "Every tool of files is as it was" in changing.hearth("approve", "files")
