"""The command line of the daemon's module, which programs type and people do not."""

import os
import sys

import pytest

from hearth.daemon import main
from hearth.daemon.main import DaemonOptions, Start
from hearth.errors import StartError
from hearth.paths import Places


@pytest.fixture(autouse=True)
def without_a_config_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEARTH_CONFIG", raising=False)


def test_nothing_given_is_the_default_profile() -> None:
    options = DaemonOptions([])
    assert (options.profile, options.config, options.detach, options.ready_fd) == ("mcp", None, False, -1)


@pytest.mark.parametrize("words", [["--profile", "p", "--ready-fd", "7"], ["--profile=p", "--ready-fd=7"]])
def test_values_come_as_words_of_their_own_or_behind_an_equals_sign(words: list[str]) -> None:
    options = DaemonOptions([*words, "--detach"])
    assert (options.profile, options.ready_fd, options.detach) == ("p", 7, True)


@pytest.mark.parametrize("words", [["--profile"], ["--colour", "red"], ["serve"], ["--ready-fd"]])
def test_what_is_unknown_or_incomplete_is_refused(words: list[str]) -> None:
    with pytest.raises(StartError, match="unknown or incomplete option"):
        DaemonOptions(words)


def test_a_config_may_come_from_the_environment_and_the_command_line_outranks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEARTH_CONFIG", "/from/environment")
    assert DaemonOptions([]).config == "/from/environment"
    assert DaemonOptions(["--config", "/typed"]).config == "/typed"


@pytest.mark.parametrize("words", [["--profile", "p"], ["--config", "/c"], []])
def test_an_exec_gets_the_same_daemon_and_neither_detaches_nor_reports_again(words: list[str]) -> None:
    options = DaemonOptions(DaemonOptions([*words, "--detach", "--ready-fd", "7"]).again())
    assert (options.profile, options.config) == (DaemonOptions(words).profile, DaemonOptions(words).config)
    assert (options.detach, options.ready_fd) == (False, -1)


def test_an_exec_is_told_that_the_daemon_has_a_watcher() -> None:
    assert not DaemonOptions(DaemonOptions([]).again()).watched
    assert DaemonOptions(DaemonOptions(["--watched"]).again()).watched


def test_the_starter_is_told_once() -> None:
    reading, writing = os.pipe()
    start = Start(Places(), None, writing, [])
    start.report("ok")
    start.report("again")
    assert os.read(reading, 100) == b"ok\n"
    assert os.read(reading, 100) == b""
    os.close(reading)


def test_without_a_listener_the_daemon_is_its_own() -> None:
    start = Start(Places(), None, -1, [])
    assert (start.adopted, start.activation) == (False, "self")


@pytest.mark.skipif(sys.platform != "linux", reason="the watcher is Linux's")
@pytest.mark.parametrize("watched", [True, False])
def test_a_daemon_whose_orphans_nobody_will_end_says_so(
    watched: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hearth.host.linux.orphan_reaper.fork_watched", lambda: watched)
    monkeypatch.setattr(main, "_run", lambda start: 0)
    assert main.main([]) == 0
    assert ("may outlive the daemon" in capfd.readouterr().err) is not watched
