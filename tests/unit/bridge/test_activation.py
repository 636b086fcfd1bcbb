"""Whether launchd is asked for the agent, by a launchctl that only records its calls: launchd cannot run here."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth.bridge import activation
from hearth.bridge.activation import Attempt
from hearth.errors import StartError
from hearth.host.macos import launchd as agent
from hearth.paths import Places
from support.launchd.launchctl import Launchd, calls, put_on_path

DOMAIN = f"gui/{os.getuid()}"
Prepare = Callable[..., None]


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
