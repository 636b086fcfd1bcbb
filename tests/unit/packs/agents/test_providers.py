"""Providers of agents: found on the PATH, configured, chosen, and said to be missing."""

import os
import sys
from pathlib import Path

import pytest

from hearth.config.model import ProviderSpec
from hearth.errors import AgentError
from hearth.host import system
from hearth.packs.agents import providers
from hearth.packs.agents.providers import Provider, choose, known


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def install(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def on_path(*folders: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.pathsep.join(map(str, folders)), **more}


def test_built_in_providers_are_found_with_their_whole_paths(programs: Path) -> None:
    install(programs, "claude-agent-acp", "codex-acp", "gemini", "opencode")
    found = known({}, on_path(programs))
    assert {name: provider.argv for name, provider in found.items()} == {
        "claude": (f"{programs}/claude-agent-acp",),
        "codex": (f"{programs}/codex-acp",),
        "gemini": (f"{programs}/gemini", "--acp"),
        "opencode": (f"{programs}/opencode", "acp"),
    }
    assert {name: provider.tool_client for name, provider in found.items()} == {
        "claude": "claude",
        "codex": "codex",
        "gemini": "gemini",
        "opencode": "",
    }


def test_folders_that_are_not_whole_paths_and_files_that_are_no_programs_are_passed_over(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(programs)
    install(programs, "gemini")
    other = tmp_path / "other"
    other.mkdir()
    (other / "gemini").write_text("no program")
    (other / "codex-acp").mkdir()
    found = known({}, {"PATH": f".{os.pathsep}{os.pathsep}bin{os.pathsep}{other}"})
    assert not any(provider.is_installed for provider in found.values())
    assert known({}, on_path(other, programs))["gemini"].argv[0] == f"{programs}/gemini"


def test_a_program_has_the_endings_that_the_environment_names(programs: Path) -> None:
    install(programs, "gemini.cmd", "codex-acp")
    found = known({}, on_path(programs, PATHEXT=os.pathsep.join((".exe", ".cmd"))))
    assert found["gemini"].argv == (f"{programs}/gemini.cmd", "--acp")
    assert not found["codex"].is_installed


def test_root_tells_claude_code_that_it_is_in_a_sandbox(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for uid, expected in ((0, {"IS_SANDBOX": "1"}), (1000, {})):
        monkeypatch.setattr(system, "user_id", lambda uid=uid: uid)
        assert dict(known({}, on_path(programs))["claude"].env) == expected


def test_gemini_cli_logs_in_with_the_key_of_the_environment(programs: Path) -> None:
    assert known({}, on_path(programs))["gemini"].auth_method is None
    assert known({}, on_path(programs, GEMINI_API_KEY=""))["gemini"].auth_method is None
    assert known({}, on_path(programs, GEMINI_API_KEY="k"))["gemini"].auth_method == "gemini-api-key"
    for value, method in (("k", "gemini-api-key"), ("", None)):
        spec = ProviderSpec(command="gemini", env={"GEMINI_API_KEY": value})
        found = known({"gemini": spec}, on_path(programs, GEMINI_API_KEY="" if value else "k"))
        assert found["gemini"].auth_method == method


def test_modes_in_which_an_agent_decides_by_itself_are_known(programs: Path) -> None:
    found = known({}, on_path(programs))
    assert providers.never_asks(found["claude"], "bypassPermissions")
    assert not providers.never_asks(found["claude"], "default")
    assert not providers.never_asks(found["claude"], None)
    assert providers.never_asks(found["codex"], "agent-full-access")
    assert not providers.never_asks(found["codex"], "read-only")
    assert providers.never_asks(found["gemini"], "yolo")
    assert providers.never_asks(found["opencode"], "build") and providers.never_asks(found["opencode"], None)


# --- configured ones


def test_a_configured_provider_is_one_more(programs: Path) -> None:
    install(programs, "my-agent")
    spec = ProviderSpec(command="my-agent", args=("acp", "-x"), env={"A": "b"}, title="Mine")
    found = known({"mine": spec}, on_path(programs))
    assert [*found] == ["claude", "codex", "gemini", "opencode", "mine"]
    mine = found["mine"]
    assert (mine.argv, dict(mine.env), mine.title) == ((f"{programs}/my-agent", "acp", "-x"), {"A": "b"}, "Mine")
    assert mine.tool_client == ""
    # It may be a built-in one under another name.
    assert [providers.never_asks(mine, each) for each in ("bypassPermissions", "yolo", "default", None)] == [
        True, True, False, False,
    ]  # fmt: skip


def test_a_configured_provider_with_a_built_in_name_replaces_its_program_only(programs: Path) -> None:
    spec = ProviderSpec(command=sys.executable, args=("claude.py",), env={"A": "b"})
    found = known({"claude": spec}, on_path(programs))["claude"]
    assert found.argv == (sys.executable, "claude.py")
    assert (found.title, found.tool_client) == ("Claude Code", "claude")
    assert found.env["A"] == "b"
    assert providers.never_asks(found, "bypassPermissions")


def test_a_command_may_be_a_path_and_its_own_path_is_searched(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(programs, "agent")
    monkeypatch.setenv("HOME", str(tmp_path))
    specs = {
        "whole": ProviderSpec(command=f"{programs}/agent"),
        "home": ProviderSpec(command="~/bin/agent"),
        "own": ProviderSpec(command="agent", env={"PATH": str(programs)}),
        "relative": ProviderSpec(command="bin/agent"),
    }
    found = known(specs, {"PATH": "/nowhere"})
    assert [found[name].argv for name in specs] == [(f"{programs}/agent",)] * 3 + [()]


def test_a_configured_command_that_is_missing_is_named_with_its_key(programs: Path) -> None:
    found = known({"mine": ProviderSpec(command="my-agent")}, on_path(programs))
    with pytest.raises(AgentError) as caught:
        choose("mine", None, found)
    assert str(caught.value) == (
        "provider 'mine' is not installed: its command 'my-agent' (key agents.providers.mine.command) is no program on"
        " the daemon's PATH"
    )


# --- the choice


def of(*names: str, installed: tuple[str, ...] = ()) -> dict[str, Provider]:
    return {
        name: Provider(name, name, ("/x",) if name in installed else (), install_hint=f"install {name}")
        for name in names
    }


def test_the_named_one_comes_before_the_default_and_that_before_the_first_installed() -> None:
    found = of("claude", "codex", "gemini", installed=("codex", "gemini"))
    assert choose("gemini", "codex", found).name == "gemini"
    assert choose(None, "gemini", found).name == "gemini"
    assert choose(None, None, found).name == "codex"
    assert choose(None, "", found).name == "codex"


def test_an_unknown_provider_is_refused_with_the_nearest_name() -> None:
    found = of("claude", "codex", installed=("claude",))
    with pytest.raises(AgentError) as caught:
        choose("cluade", None, found)
    assert str(caught.value) == "provider 'cluade' is not known: did you mean 'claude'? Known are claude, codex"
    with pytest.raises(AgentError) as caught:
        choose(None, "xyz", found)
    assert str(caught.value) == "provider 'xyz' (key agents.default_provider) is not known: Known are claude, codex"


def test_a_provider_that_is_not_installed_is_refused_with_what_to_type(programs: Path) -> None:
    found = known({}, on_path(programs))
    with pytest.raises(AgentError) as caught:
        choose("claude", None, found)
    sentence = str(caught.value)
    assert "provider 'claude' is not installed: type `npm install -g @agentclientprotocol/claude-agent-acp`" in sentence
    assert "Node.js 22" in sentence and "`hearth install`" in sentence
    with pytest.raises(AgentError, match="no provider of agents is installed") as caught:
        choose(None, None, found)
    assert all(name in str(caught.value) for name in found)
