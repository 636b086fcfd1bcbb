"""`hearth call` as typed: tools of servers of both eras, questions, progress, cancellation, codes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from e2e.cli_home import HEARTH, PATIENCE_SECONDS, Home, scratch_home, write
from e2e.terminal import Terminal
from support.kernel import until

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
UPSTREAMS = os.path.join(TESTS, "support", "upstreams")
REVISION_SERVER = os.path.join(TESTS, "support", "conformance", "upstreams", "revision_server.py")
ERAS = {"old": "2025-11-25", "new": "2026-07-28"}


def entry(name: str, server: str) -> str:
    """Of one of the servers that are written for the tests."""
    arguments = json.dumps([os.path.join(UPSTREAMS, server)])
    return f"[mcpServers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One daemon for all: each test has sessions of its own."""
    for made in scratch_home():
        with open(made.configure_demo(), "a", encoding="utf-8") as file:
            for name, revision in ERAS.items():
                command = json.dumps(sys.executable)
                arguments = json.dumps([REVISION_SERVER, revision])
                # Shared, so that what one call did can be asked by another.
                file.write(f'[mcpServers.{name}]\ncommand = {command}\nargs = {arguments}\nisolation = "shared"\n')
            file.write(entry("awkward", "big_server.py") + entry("mute", "silent_server.py"))
            file.write('[mcpServers.broken]\ncommand = "/nowhere/at/all"\n')
            file.write('[mcpServers.off]\ncommand = "off"\ndisabled = true\n')
        yield made


@pytest.fixture
def own_home() -> Iterator[Home]:
    """A home without a daemon."""
    yield from scratch_home()


@pytest.fixture(params=ERAS)
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def said(home: Home, *words: str) -> str:
    done = home.run("call", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_it_lights_the_daemon_and_lists_the_tools_with_their_arguments(own_home: Home) -> None:
    own_home.configure_demo()
    assert "add a=NUMBER b=NUMBER\n    Add two numbers." in said(own_home, "demo")
    assert own_home.json("status", "--json")["running"] is True
    assert own_home.json("status", "--json")["sessions"] == []


def test_arguments_may_be_typed_or_given_as_json_or_read(home: Home) -> None:
    path = write(os.path.join(home.home, "arguments.json"), '{"a": 1, "b": 2}')
    assert said(home, "demo", "add", "a=1", "b=2") == "3\n"
    assert said(home, "demo", "add", '{"a": 1, "b": 2}') == "3\n"
    assert said(home, "demo", "add", f"@{path}") == "3\n"
    assert home.ok_with('{"a": 1, "b": 2}', "call", "demo", "add", "-") == "3\n"


def test_the_result_as_it_came_and_the_list_as_it_came(home: Home, server: str) -> None:
    assert home.json("call", server, "structured", "--json")["structuredContent"]["city"] == "Oslo"
    assert "echo" in [tool["name"] for tool in home.json("call", server, "--json")]


def test_a_tool_that_says_that_it_failed_exits_with_1(home: Home, server: str) -> None:
    done = home.run("call", server, "failing")
    assert (done.returncode, done.stdout) == (1, "failed on purpose\n")
    done = home.run("call", server, "failing", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["isError"] is True


def test_an_error_is_a_sentence_and_with_json_an_object(home: Home, server: str) -> None:
    assert "broken on purpose" in home.refuses(1, "call", server, "broken")
    assert json.loads(home.run("call", server, "broken", "--json").stdout)["error"]["code"] == -32603


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["dmo", "add"], "Did you mean 'demo'?"),
        (["demo", "ad"], "Did you mean 'add'?"),
        (["demo", "add", "a=1"], "It needs b=…"),
        (["demo", "add", "a=x", "b=1"], "a must be a number"),
        (["off"], "is disabled"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(home: Home, words: list[str], sentence: str) -> None:
    assert sentence in home.fails(2, "call", *words)


@pytest.mark.parametrize("words", [[], ["anything"]])
def test_a_server_that_cannot_be_started_says_why(home: Home, words: list[str]) -> None:
    assert "/nowhere/at/all" in home.fails(1, "call", "broken", *words)


@pytest.mark.parametrize(
    ("seconds", "words", "sentence"),
    [
        # One that is not there yet is not one without tools.
        (20, ["--timeout", "1"], "mute is still starting"),
        (2, [], "did not answer within 2 s (key start_timeout)"),
    ],
)
def test_a_slow_server_is_waited_for_no_longer_than_its_start_may_take(
    own_home: Home, seconds: int, words: list[str], sentence: str
) -> None:
    own_home.write_config(f"list_timeout = 0.2\n{entry('mute', 'silent_server.py')}start_timeout = {seconds}\n")
    assert sentence in own_home.refuses(1, "call", "mute", *words)


def slow_home(home: Home, seconds: str) -> None:
    """Configure the demo server behind a sleep that is longer than a list waits for it."""
    script = f"sleep {seconds}; exec {sys.executable} -I -m hearth.demo.server"
    home.write_config(f'list_timeout = 0.2\n[mcpServers.late]\ncommand = "/bin/sh"\nargs = ["-c", "{script}"]\n')


@pytest.mark.parametrize("words", [[], ["add", "a=1", "b=2"]])
def test_a_slow_server_is_waited_for(own_home: Home, words: list[str]) -> None:
    slow_home(own_home, "1")
    shown = said(own_home, "late", *words)
    # Typed by the schema, so the tools were known before the call.
    assert shown == "3\n" if words else "add a=NUMBER b=NUMBER" in shown


def test_on_a_terminal_it_says_that_it_waits_for_a_slow_server(own_home: Home) -> None:
    slow_home(own_home, "1")
    seen = own_home.at_terminal(0, "call", "late", "add", "a=1", "b=2")
    assert "waiting for late to start, at most 60 s (start_timeout)" in seen
    assert "3\r\n" in seen


def test_a_server_that_was_mended_is_tried_again(own_home: Home) -> None:
    mark = os.path.join(own_home.home, "mended")
    script = f"test -e {mark} || exit 3; exec {sys.executable} -I -m hearth.demo.server"
    own_home.write_config(f'[mcpServers.flaky]\ncommand = "/bin/sh"\nargs = ["-c", "{script}"]\n')
    assert own_home.run("call", "flaky").returncode == 1
    write(mark, "")
    assert "add a=NUMBER b=NUMBER" in said(own_home, "flaky")


def test_the_time_that_is_given_holds_for_a_server_that_is_not_there_yet(home: Home) -> None:
    assert "mute did not answer within 0.3 s" in home.fails(1, "call", "mute", "echo", "--timeout", "0.3")


def test_a_mistake_in_the_config_does_not_keep_it_from_the_daemon_that_runs(own_home: Home) -> None:
    own_home.configure_demo()
    said(own_home, "demo", "whoami")
    own_home.write_config("[mcpServers.\n")
    assert said(own_home, "demo", "add", "a=1", "b=2") == "3\n"
    assert own_home.run("call", "nobody").returncode == 2


def test_a_text_that_cannot_be_encoded_is_printed_with_an_escape(home: Home) -> None:
    assert said(home, "awkward", "surrogate") == "lone \\ud800 surrogate\n"
    (block,) = json.loads(said(home, "awkward", "surrogate", "--json"))["content"]
    assert block["text"] == "lone \ud800 surrogate"


def test_data_are_described_or_saved(home: Home, server: str) -> None:
    assert said(home, server, "audio") == "[audio: audio/wav, 3 bytes]\n"
    folder = os.path.join(home.home, f"saved-{server}")
    line = said(home, server, "audio", "--output", folder)
    (name,) = os.listdir(folder)
    assert line == f"saved {os.path.join(folder, name)}\n"


def test_without_a_terminal_a_question_is_declined(home: Home, server: str) -> None:
    done = home.run("call", server, "elicit")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["action"] == "decline"
    assert f"{server} asks: Who are you?" in done.stderr


def test_on_a_terminal_a_question_is_asked(home: Home, server: str) -> None:
    seen = home.at_terminal(0, "call", server, "elicit", answers={"[Y/n]": "y\n", "name": "\nAda\n"})
    assert "It needs an answer." in seen
    assert '"content": {"name": "Ada"}' in seen


def test_the_folder_is_the_root(home: Home) -> None:
    assert json.loads(said(home, "old", "roots")) == [f"file://{home.home}"]


def test_what_only_a_model_can_answer_fails_the_tool_and_nothing_else(home: Home, server: str) -> None:
    assert "Traceback" not in home.fails(1, "call", server, "sample")


def test_progress_is_shown_on_a_terminal(home: Home) -> None:
    seen = home.at_terminal(0, "call", "demo", "slow", "seconds=2.5", "steps=5")
    assert "[####" in seen
    assert "5 steps done" in seen


def await_cancel(home: Home, server: str, mark: str) -> None:
    """Wait until the server was told."""
    until(lambda: mark in json.loads(said(home, server, "cancelled")), "the server is told")


def test_ctrl_c_cancels_the_call(home: Home, server: str) -> None:
    mark = f"interrupted-{server}"
    # It is shown while the call is under way: by then the server has said how far it is.
    seen = home.at_terminal(130, "call", server, "waiting", f"mark={mark}", answers={"50%": "\x03"})
    assert "hearth: interrupted." in seen
    await_cancel(home, server, mark)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_call_that_is_told_to_end_is_cancelled(home: Home, server: str, number: signal.Signals) -> None:
    mark = f"{number.name}-{server}"
    terminal = Terminal([HEARTH, "call", server, "waiting", f"mark={mark}"], home.environment)
    terminal.read_until("50%")
    terminal.process.send_signal(number)
    assert terminal.finish() == 130
    await_cancel(home, server, mark)


def test_a_call_that_takes_too_long_is_cancelled(home: Home, server: str) -> None:
    mark = f"late-{server}"
    assert "did not answer within 0.3 s" in home.fails(1, "call", server, "waiting", f"mark={mark}", "--timeout", "0.3")
    await_cancel(home, server, mark)


def test_a_killed_call_leaves_no_session(home: Home) -> None:
    process = subprocess.Popen([HEARTH, "call", "demo", "slow", "seconds=60", "steps=1000"], env=home.environment)
    until(lambda: any(each["inFlight"] for each in home.json("sessions", "--json")), "the call is under way")
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE_SECONDS)
    until(lambda: not any(each["inFlight"] for each in home.json("sessions", "--json")), "the call is over")


def test_servers_tools_and_arguments_are_completed_from_what_is_kept(home: Home) -> None:
    said(home, "demo", "whoami")
    assert "demo" in home.complete("hearth call ")
    assert home.complete("hearth call demo s") == ["slow"]
    assert home.complete("hearth call demo add ") == ["a=", "b="]
    assert home.complete("hearth call nobody ") == []
