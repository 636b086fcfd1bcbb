"""Commands of desktop notifications: texts of agents are arguments, and nothing else."""

import shutil
import sys

import pytest

from hearth.host import notifications

NOTIFY_SEND = "/usr/bin/notify-send"


def command(monkeypatch: pytest.MonkeyPatch, platform: str, title: str, body: str) -> list[str]:
    """The command on a platform that has its program."""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(shutil, "which", lambda name: NOTIFY_SEND if name == "notify-send" else None)
    found = notifications.command(title, body)
    assert found is not None
    return found


def options(words: list[str]) -> list[str]:
    """The words that the program reads as options, as getopt(3) does."""
    return words[1 : words.index("--")]


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("text", ["-e", "--help", "-", "--", "--urgency=critical", "-l JavaScript"])
def test_a_text_that_begins_with_a_dash_is_no_option(monkeypatch: pytest.MonkeyPatch, platform: str, text: str) -> None:
    words = command(monkeypatch, platform, text, text)
    assert words[-2:] == [text, text]
    assert options(words) == options(command(monkeypatch, platform, "title", "body"))


def test_markup_is_text_where_the_body_may_hold_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    given = """<a href='https://evil.example'>"approve" & go</a>"""
    title, body = command(monkeypatch, "linux", given, given)[-2:]
    assert title == given
    assert body == """&lt;a href='https://evil.example'&gt;"approve" &amp; go&lt;/a&gt;"""
    assert command(monkeypatch, "darwin", given, given)[-2:] == [given, given]


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("character", ["\0", "\n", "\x1b", "\x7f", "\x9b", "\u202e", "\u200b", "\ud800", "\u2028"])
def test_a_character_that_does_not_show_is_a_space(
    monkeypatch: pytest.MonkeyPatch, platform: str, character: str
) -> None:
    words = command(monkeypatch, platform, f"a{character}b", f"c{character}d")
    assert words[-2:] == ["a b", "c d"]


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_text_in_any_script_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    assert command(monkeypatch, platform, "größe", "日本 ✓")[-2:] == ["größe", "日本 ✓"]


@pytest.mark.parametrize("platform", ["linux", "win32", "freebsd14"])
def test_without_a_program_there_is_no_command(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert notifications.command("title", "body") is None
