"""The bridge's options as completion offers them: those of its own help, and those that it takes."""

from pathlib import Path

import pytest
from click.shell_completion import CompletionItem, ShellComplete

from hearth.bridge.options import MODES, parse
from hearth.cli.daemon.serve import described
from hearth.cli.main import cli


def offered(*words: str) -> list[CompletionItem]:
    return ShellComplete(cli, {}, "hearth", "_HEARTH_COMPLETE").get_completions(["bridge", *words[:-1]], words[-1])


def values(*words: str) -> list[str]:
    return [str(item.value) for item in offered(*words)]


def test_the_options_are_those_of_its_help() -> None:
    assert values("--") == [
        *("--server", "--mode", "--role", "--token-file", "--agent-id", "--profile", "--config", "--socket"),
        *("--no-start", "--to", "--header", "--help"),
    ]
    helps = {item.value: item.help or "" for item in offered("--")}
    assert helps["--header"].startswith("sent with every request of --to")
    assert all(helps.values())


def test_the_bridge_takes_every_one_of_them() -> None:
    samples = {"--mode": "full", "--header": "A: b", "--to": "http://127.0.0.1/mcp"}
    names = [name for name in values("--") if name != "--help"]
    for name in names:
        companion = ["--to", samples["--to"]] if name == "--header" else []
        value = [] if name == "--no-start" else [samples.get(name, "x")]
        assert parse([*companion, name, *value], {})


def test_values_are_offered_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[mcpServers.github]\ncommand = "a"\n[mcpServers.time]\ncommand = "b"\n')
    monkeypatch.setenv("HEARTH_CONFIG", str(file))
    assert values("--mode", "") == list(MODES)
    assert values("--mode", "s") == ["search"]
    assert values("--mode", "full", "--server", "") == ["github", "time"]
    assert values("--server", "ti") == ["time"]
    assert values("--to", "") == []


def test_an_option_whose_help_begins_in_the_next_line_is_described() -> None:
    assert dict(described())["--header 'NAME: VALUE'"].startswith("sent with every request of --to")
