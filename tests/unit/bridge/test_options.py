"""The bridge's command line."""

import json

import pytest

from hearth.bridge import jsonlite
from hearth.bridge.options import USAGE, UsageError, parse
from hearth.wire.frames import FrameDecoder


def test_values_may_follow_a_space_or_an_equals_sign() -> None:
    options = parse(["--server", "time", "--role=lead", "--mode=search", "--agent-id", "a=b"], {})
    assert (options.server, options.role, options.mode, options.agent_id) == ("time", "lead", "search", "a=b")


def test_the_default_is_everything_of_the_default_daemon() -> None:
    options = parse([], {})
    assert (options.mode, options.places.key, options.server) == (None, "mcp", None)


def test_flags_go_before_the_environment() -> None:
    environ = {"HEARTH_CONFIG": "/a.toml"}
    assert parse([], environ).places.config == "/a.toml"
    assert parse(["--config", "/b.toml"], environ).places.config == "/b.toml"
    assert parse(["--profile", "work"], environ).places.key == "work"


def test_the_longest_values_fit_into_the_greeting() -> None:
    longest = "\U0001f525" * 1000
    values = parse(["--server", longest, "--role", longest, "--agent-id", longest], {}).greeting()
    frame = jsonlite.hello({**values, "cwd": "\udcff" * 4096}, 2**22, ("s" * 64, "x" * 64))
    [(header, _)] = FrameDecoder().receive_data(frame)
    assert json.loads(header)["agentId"] == longest


def test_a_value_that_would_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="--role is over the limit of 1000 characters"):
        parse(["--role", "x" * 1001], {})


@pytest.mark.parametrize(
    "words", [["--x"], ["x"], ["--server"], ["--server="], ["--to="], ["--mode=x"], ["--profile=a/b"]]
)
def test_what_is_not_understood_exits_with_2(words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words, {})
    assert caught.value.exit_code == 2
    assert str(caught.value).startswith("hearth bridge: ")


@pytest.mark.parametrize("mode", ["full", "search", "auto"])
def test_a_mode_is_told_to_the_daemon_as_it_was_given(mode: str) -> None:
    assert parse(["--mode", mode], {}).greeting()["mode"] == mode
    assert f"{mode}:" in USAGE


def test_without_a_mode_the_daemon_decides() -> None:
    assert parse([], {}).greeting()["mode"] is None


def test_help_is_not_a_failure() -> None:
    with pytest.raises(UsageError) as caught:
        parse(["--server", "x", "--help"], {})
    assert caught.value.exit_code == 0


def test_another_server_takes_headers() -> None:
    options = parse(["--to", "https://x/mcp?a=b", "--header", "A: b: c", "--header=X-Y:${env:Z}"], {})
    assert options.target is not None
    told = json.loads(options.target.settings)
    assert (told["url"], told["headers"]) == ("https://x/mcp?a=b", [["A", "b: c"], ["X-Y", "${env:Z}"]])
    assert parse([], {}).target is None


def test_a_token_file_is_a_path_and_its_content_is_not_read_yet() -> None:
    longest = "/" + "x" * 3000
    assert parse(["--token-file", longest], {}).token_file == longest
    assert parse([], {}).token_file is None
    assert "token" not in parse(["--token-file", longest], {}).greeting()


@pytest.mark.parametrize(
    "name", ["--mode", "--role", "--token-file", "--agent-id", "--profile", "--config", "--socket"]
)
def test_options_about_the_daemon_go_with_another_server_which_it_reaches(name: str) -> None:
    assert parse(["--to", "https://x", name, "/full" if name == "--socket" else "full"], {}).target


def test_two_servers_cannot_be_named() -> None:
    with pytest.raises(UsageError, match="--server and --to both name a server"):
        parse(["--to", "https://x", "--server", "echo"], {})


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("s3cret", "is written 'NAME: VALUE'"),
        (": s3cret", "is written 'NAME: VALUE'"),
        ("a b: s3cret", "is written 'NAME: VALUE'"),
        ("X: s3cret\r\nY: z", "X has a line end"),
        ("Mcp-Session-Id: s3cret", "Mcp-Session-Id is the bridge's own"),
        ("content-length: 5", "content-length is the bridge's own"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_without_showing_its_value(header: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse(["--to", "https://x", "--header", header], {})
    assert "s3cret" not in str(caught.value)
