"""What a daemon's first words and systemctl's answers mean, and whether launchd is asked for the agent.

A launchctl that only records its calls stands in for launchd, which cannot run here.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth.bridge import activation
from hearth.bridge.activation import ABSENT, START, WAIT, ActivationUnits, Attempt, judge, judge_units
from hearth.errors import StartError
from hearth.host.macos import launchd as agent
from hearth.paths import Places
from support.launchd.launchctl import Launchd, calls, put_on_path

DOMAIN = f"gui/{os.getuid()}"
Prepare = Callable[..., None]
UNITS = ActivationUnits("mcp")


def test_ok_means_that_it_listens_whatever_was_said_before() -> None:
    assert judge("a warning\nok\n", "the.log")


def test_another_daemon_that_runs_is_no_failure() -> None:
    assert "pid 12" in judge("running pid 12 at /x\n", "the.log")


@pytest.mark.parametrize("said", ["", "\n \n"])
def test_one_that_was_killed_before_it_could_speak_may_have_a_luckier_successor(said: str) -> None:
    assert "the.log" in judge(said, "the.log")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("line 3: no such key\n", "line 3: no such key"),
        ("Traceback (most recent call last):\n  File x\nImportError: y\n", "ImportError: y"),
    ],
)
def test_anything_else_is_the_reason(said: str, told: str) -> None:
    with pytest.raises(StartError) as caught:
        judge(said, "the.log")
    assert told in str(caught.value)


# --- systemd


def state(active: str, load: str = "loaded", result: str = "success") -> dict[str, str]:
    return {"LoadState": load, "ActiveState": active, "Result": result}


def test_what_show_prints_is_one_paragraph_for_each_unit() -> None:
    text = "Result=success\nLoadState=loaded\nActiveState=active\n\nResult=exit-code=1\nLoadState=loaded\n"
    assert activation.parse_show(text) == [
        {"Result": "success", "LoadState": "loaded", "ActiveState": "active"},
        {"Result": "exit-code=1", "LoadState": "loaded"},
    ]


@pytest.mark.parametrize(
    ("socket", "service", "verdict"),
    [
        (state("inactive", load="not-found"), state("inactive", load="not-found"), ABSENT),
        (state("inactive", load="masked"), state("inactive"), ABSENT),
        ({}, {}, ABSENT),
        (state("inactive"), state("inactive"), START),
        (state("active"), state("active"), WAIT),
        (state("active"), state("failed"), WAIT),
        (state("activating"), state("inactive"), WAIT),
        (state("deactivating"), state("inactive"), WAIT),
    ],
)
def test_the_states_of_both_units_decide(socket: dict[str, str], service: dict[str, str], verdict: str) -> None:
    assert judge_units(UNITS, socket, service) == verdict


@pytest.mark.parametrize(
    ("socket", "service", "named"),
    [
        (state("failed", result="trigger-limit-hit"), state("inactive"), "mcp.socket has failed (trigger-limit-hit)"),
        (state("inactive"), state("failed", result="exit-code"), "mcp.service has failed (exit-code)"),
    ],
)
def test_a_failed_unit_is_named(socket: dict[str, str], service: dict[str, str], named: str) -> None:
    with pytest.raises(StartError) as caught:
        judge_units(UNITS, socket, service)
    assert named in str(caught.value)


def test_each_profile_has_its_units_and_a_config_path_has_none() -> None:
    default, work = activation.units_of(Places()), activation.units_of(Places("my-work"))
    assert default and work
    assert (default.socket, default.service) == ("mcp.socket", "mcp.service")
    assert work.socket == "mcp@my-work.socket"
    assert activation.units_of(Places(config="/etc/x.toml")) is None


# --- launchd


@pytest.fixture
def launchd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """A launchctl on the PATH, and a home in which the agent is installed or not."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def prepare(*, installed: bool = True, loaded: bool = False, **how: int) -> None:
        monkeypatch.setenv("PATH", put_on_path(tmp_path, **how))
        if installed:
            os.makedirs(agent.agents_folder())
            Path(agent.file()).write_text("<plist/>")
        if loaded:
            known = Launchd(tmp_path)
            known.loaded = agent.file()
            known.save()

    return prepare


def test_without_an_agent_launchd_is_not_even_asked(launchd: Prepare, tmp_path: Path) -> None:
    launchd(installed=False)
    assert activation.wake_agent(Places(), os.environ) is None
    assert calls(tmp_path) == []


@pytest.mark.parametrize("places", [Places("work"), Places(config="/etc/x.toml")])
def test_a_daemon_that_has_no_agent_is_the_bridge_s_to_start(launchd: Prepare, places: Places) -> None:
    launchd(loaded=True)
    assert activation.wake_agent(places, os.environ) is None


def test_an_agent_that_is_loaded_is_left_alone(launchd: Prepare, tmp_path: Path) -> None:
    launchd(loaded=True)
    assert "nobody listens there" in (activation.wake_agent(Places(), os.environ) or "")
    assert calls(tmp_path) == [f"print {DOMAIN}/mcp.hearth"]


def test_an_agent_that_is_not_loaded_is_loaded(launchd: Prepare, tmp_path: Path) -> None:
    launchd()
    assert activation.wake_agent(Places(), os.environ)
    assert f"bootstrap {DOMAIN} {agent.file()}" in calls(tmp_path)
    assert Launchd(tmp_path).loaded == agent.file()


def test_on_an_older_system_it_is_loaded_by_load(launchd: Prepare, tmp_path: Path) -> None:
    launchd(old=1)
    assert activation.wake_agent(Places(), os.environ)
    assert f"load {agent.file()}" in calls(tmp_path)


def test_an_agent_that_cannot_be_loaded_is_an_error_with_what_to_type(launchd: Prepare) -> None:
    launchd(refuses=1)
    with pytest.raises(StartError, match=r"Bootstrap failed: 5.*`hearth install` sets it up anew"):
        activation.wake_agent(Places(), os.environ)


def test_without_a_login_at_the_screen_the_bridge_starts_a_daemon_of_its_own(launchd: Prepare) -> None:
    launchd(away=1)
    assert activation.wake_agent(Places(), os.environ) is None


def test_where_an_agent_is_installed_no_daemon_is_started(
    launchd: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launchd()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(activation, "wake", activation.wake_agent)
    monkeypatch.setattr(activation, "_start", lambda *_: pytest.fail("a daemon was started"))
    places = Places()
    os.makedirs(places.folder, mode=0o700)
    found = activation.start(places, lambda _: Attempt(absent=True), time.monotonic() + 30)
    assert (found.sock, "nobody listens there" in found.hint) == (None, True)


@pytest.mark.parametrize(("system", "module"), [("darwin", "hearth.host.macos.launchd"), ("linux", None)])
def test_modules_that_waking_needs_are_loaded_ahead(
    system: str, module: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("hearth.host.macos", "hearth.host.macos.launchd"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "platform", system)
    activation.preload()
    assert ("hearth.host.macos.launchd" in sys.modules) == (module is not None)
