"""`hearth logs NAME`: what a server has written to its stderr, without waking anything."""

import json
import os
from collections.abc import Iterator

import pytest

from e2e.cli_home import Home, following, scratch_home
from hearth.host import line_files

CONFIG = """
[mcpServers.github]
command = "true"
[mcpServers."a b/c"]
command = "true"
[mcpServers.remote]
url = "http://127.0.0.1:9/mcp"
"""


@pytest.fixture
def home() -> Iterator[Home]:
    for made in scratch_home():
        made.write_config(CONFIG)
        yield made
        # Nothing was lit.
        assert not os.path.exists(made.registry)


def write(home: Home, *lines: str, name: str = "github") -> str:
    folder = os.path.join(home.home, ".local", "state", "hearth", "logs", "servers", "mcp")
    path = os.path.join(folder, f"{name}.log")
    line_files._append(path, "".join(f"{line}\n" for line in lines).encode())
    return path


def test_the_last_lines_of_a_server_are_printed(home: Home) -> None:
    write(home, *(f"line {number}" for number in range(100)))
    assert home.run("logs", "github", "-n", "2").stdout == "line 98\nline 99\n"
    assert len(home.run("logs", "github").stdout.splitlines()) == 50


def test_lines_that_were_rotated_away_fill_the_number_up(home: Home) -> None:
    path = write(home, "one", "two", "three")
    os.rename(path, f"{path}.1")
    write(home, "four")
    assert home.run("logs", "github", "-n", "3").stdout == "two\nthree\nfour\n"


def test_a_server_that_is_configured_no_longer_still_has_its_log(home: Home) -> None:
    write(home, "old", name="gone")
    assert home.run("logs", "gone").stdout == "old\n"


def test_a_name_with_odd_characters_has_a_log(home: Home) -> None:
    assert home.fails(1, "logs", "a b/c").startswith("hearth: server 'a b/c' has written nothing to its stderr yet")


@pytest.mark.parametrize(
    ("name", "words"), [("githup", "Did you mean 'github'?"), ("zzz", "Known: github, a b/c, remote.")]
)
def test_an_unknown_name_is_told_those_that_are_configured(home: Home, name: str, words: str) -> None:
    said = home.fails(2, "logs", name)
    assert f"There is no server {name!r}" in said
    assert words in said


def test_a_server_by_url_has_its_stderr_elsewhere(home: Home) -> None:
    assert "is reached by its url" in home.refuses(1, "logs", "remote", "-f")


def test_names_are_completed(home: Home) -> None:
    assert home.complete("hearth logs gi") == ["github"]


def test_what_is_added_is_followed_over_rotations(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_files, "FILE_BYTES", 100)
    write(home, "before")
    with following(home, "github") as lines:
        assert lines.next() == b"before"
        for number in range(10):
            line = f"line {number} {'x' * 20}"
            write(home, line)
            # One rotation at most between two looks: what is rotated away twice is gone.
            assert lines.next() == line.encode()


def test_a_server_that_has_said_nothing_yet_can_be_followed_already(home: Home) -> None:
    with following(home, "github") as lines:
        write(home, "first")
        assert lines.next() == b"first"


STAMPED = ("2020-01-01 10:00:00,000 [1] old", "2030-01-01 10:00:00,000 [1] new", "  more of it")


def test_lines_since_a_time_are_all_of_them(home: Home) -> None:
    write(home, STAMPED[0], *(STAMPED[1],) * 60, STAMPED[2])
    shown = home.run("logs", "github", "--since", "2025-01-01").stdout.splitlines()
    assert shown == [*(STAMPED[1],) * 60, STAMPED[2]]
    assert home.run("logs", "github", "--since", "2025-01-01", "-n", "1").stdout == ""
    assert home.run("logs", "github", "--since", "2025-01-01", "-n", "2").stdout.count("\n") == 2


def test_since_something_that_is_no_time_is_a_usage_error(home: Home) -> None:
    assert "say 10m, 2h" in home.refuses(2, "logs", "github", "--since", "soon")


def test_lines_are_printed_as_json(home: Home) -> None:
    write(home, *STAMPED)
    found = [json.loads(line) for line in home.run("logs", "github", "--json").stdout.splitlines()]
    assert [each["text"] for each in found] == ["[1] old", "[1] new", "  more of it"]
    assert found[0]["time"].startswith("2020-01-01T10:00:00.000")
    assert found[2]["time"] is None
