"""`hearth connect` and `hearth disconnect` as typed, in a home with clients in it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import BashComplete

from hearth.cli.main import cli, main
from hearth.clients import backups
from hearth.clients.table import Table
from hearth.errors import ConfigError, FileAccessError, HearthError, Refused

SECRET = "ghp_sup3rs3cret"
GIT = {"command": "uvx", "args": ["mcp-server-git"], "env": {"GITHUB_TOKEN": SECRET}, "timeout": 9}
TIME = {"url": "https://time.example/mcp"}


class Home:
    """What is in a home, and what `hearth` says there."""

    def __init__(self, folder: Path, output: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._output = output
        self.cursor = folder / ".cursor" / "mcp.json"
        self.codex = folder / ".codex" / "config.toml"
        self.write(self.cursor, json.dumps({"mcpServers": {"git": GIT, "time": TIME}}, indent=2))
        self.write(self.codex, 'model = "x"\n')
        config = '[mcpServers.git]\ncommand = "uvx"\nargs = ["mcp-server-git"]\nenv = { GITHUB_TOKEN = "%s" }\n'
        self.write(folder / ".config" / "hearth" / "config.toml", config % SECRET)

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def contents(self) -> dict[str, bytes]:
        """Every file of a client."""
        paths = [path for path in self.folder.rglob("*") if path.is_file() and ".local" not in path.parts]
        return {str(path): path.read_bytes() for path in paths}

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run `hearth` in this process; no server here is a program, so that trying them would leave every entry."""
        untried = ["--no-try"] if words[0] == "connect" and "--yes" in words else []
        code = main([*words, *untried])
        said = self._output.readouterr()
        return code, said.out, said.err

    def ok(self, *words: str) -> str:
        """Run `hearth`, which must succeed; return what it printed."""
        code, out, err = self.run(*words)
        assert code == 0, err
        return out

    def fails(self, code: int, *words: str) -> str:
        """Run `hearth`, which must end with this code; return what it wrote to stderr."""
        found, _, err = self.run(*words)
        assert found == code, err
        return err

    def json(self, *words: str) -> Any:
        return json.loads(self.ok(*words, "--json"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Home:
    for name in [name for name in os.environ if name.startswith(("XDG_", "HEARTH_", "CLAUDE", "CODEX", "GEMINI"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return Home(tmp_path, capsys)


def servers(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())["mcpServers"]


def test_without_a_client_it_lists_those_that_are_there(home: Home) -> None:
    rows = [line.split(None, 3) for line in home.ok("connect").splitlines()]
    assert ["codex", "user", str(home.codex), "not connected"] in rows
    assert ["cursor", "user", str(home.cursor), "not connected (2 of its own)"] in rows
    assert [row["client"] for row in home.json("connect")] == ["codex", "cursor"]


def test_a_broken_file_is_listed_with_what_is_wrong(home: Home) -> None:
    home.cursor.write_text("{")
    assert "1: is not valid JSON" in home.run("connect")[1]
    (row,) = [row for row in home.json("connect") if row["error"]]
    assert row["client"] == "cursor"


def test_on_a_machine_without_clients_it_says_what_to_do(home: Home) -> None:
    for path in (home.cursor, home.codex):
        path.unlink()
        path.parent.rmdir()
    assert "hearth connect --print" in home.run("connect")[1]
    assert home.run("connect", "--all", "--yes")[0] == 0


def test_everything_is_connected_and_comes_back(home: Home) -> None:
    former = home.contents()
    code, out, err = home.run("connect", "--all", "--yes")
    assert code == 0
    assert "Cursor is connected: git in" in out
    assert "Codex is connected: hearth in" in out
    assert "hearth disconnect codex cursor" in out
    assert "time: is not among Hearth's servers" in err
    assert servers(home.cursor)["git"]["args"][-2:] == ["--server", "git"]
    assert servers(home.cursor)["git"]["timeout"] == 9
    assert servers(home.cursor)["time"] == TIME
    assert "[mcp_servers.hearth]" in home.codex.read_text()
    assert "connected: git (1 of its own)" in home.ok("connect")
    assert home.ok("disconnect", "--all").count("every byte as it was") == 2
    assert home.contents() == former


def test_once_more_changes_nothing(home: Home) -> None:
    home.run("connect", "--all", "--yes")
    former = home.contents()
    code, out, err = home.run("connect", "--all", "--yes")
    assert (code, out) == (0, "Nothing had to be changed.\n")
    assert "git: leads to Hearth already" in err
    assert home.contents() == former


def test_what_is_about_to_change_is_shown_without_secrets(home: Home) -> None:
    former = home.contents()
    out = home.ok("connect", "cursor", "--dry-run")
    assert f'--- {home.cursor}\n+++ {home.cursor}\n@@ mcpServers.git @@\n-{{\n-  "command": "uvx",\n' in out
    assert '"GITHUB_TOKEN": "***"' in out
    assert '/.local/state/hearth/hearth-bridge",' in out
    assert not (home.folder / ".local" / "state" / "hearth" / "hearth-bridge").exists()
    assert SECRET not in out
    assert SECRET not in json.dumps(home.json("connect", "cursor", "--dry-run"))
    assert home.contents() == former


@pytest.mark.parametrize(
    "written",
    [
        '{"mcpServers": {"git": {"command": "uvx", "env": {"GITHUB_TOKEN": "ghp\\u005fsup3rs3cr\\u0065t"}}}}',
        '{"mcpServers": {"git": {"command": "uvx", "args": ["--token", "ghp_sup3rs3cret"]}}}',
        '{"mcpServers": {"git": {"url": "https://x/mcp?key=ghp_sup3rs3cret"}}}',
        '{"mcpServers": {"git": {"url": "https://x", "headers": {"Authorization": "Bearer ghp_sup3rs3cret"}}}}',
        '{"mcpServers": {"git": {"url": "https://x", "oauth": {"clientSecret": "ghp_sup3rs3cret"}}}}',
    ],
)
def test_secrets_are_not_shown_wherever_they_stand(home: Home, written: str) -> None:
    home.cursor.write_text(written)
    backups.remember([(Table("cursor", str(home.cursor), ("mcpServers",), "user", None), "git", "git")])
    _, out, _ = home.run("connect", "cursor", "--dry-run")
    assert "***" in out
    assert "sup3rs3cret" not in out


def test_without_a_terminal_it_does_not_guess(home: Home) -> None:
    former = home.contents()
    assert "say --yes" in home.fails(5, "connect", "--all")
    assert home.contents() == former


def test_a_program_has_to_say_yes_as_nobody_is_asked(home: Home) -> None:
    former = home.contents()
    code, out, err = home.run("connect", "--all", "--json")
    assert (code, out) == (5, "")
    assert "say --yes" in err
    assert home.contents() == former
    assert home.json("connect", "--all", "--dry-run")["clients"][0]["dryRun"]
    home.json("connect", "--all", "--yes")
    # Nothing is left to be asked about.
    assert [each["action"] for each in home.json("connect", "--all")["clients"]] == ["unchanged"] * 2


@pytest.mark.parametrize("words", [["connect", "--all", "--yes"], ["disconnect", "--all"]])
@pytest.mark.parametrize("error", [Refused("r"), FileAccessError("s"), ConfigError(["c"])], ids=repr)
def test_each_failure_has_its_own_exit_code(
    home: Home, monkeypatch: pytest.MonkeyPatch, words: list[str], error: HearthError
) -> None:
    home.run("connect", "cursor", "--yes")

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(f"hearth.clients.bridge_entries.{words[0]}", fail)
    assert str(error) in home.fails(error.exit_code, *words)


@pytest.mark.parametrize(
    "words",
    [
        ["connect"],
        ["connect", "--all", "--yes"],
        ["import", "--yes"],
        ["import", "--dry-run", "--scope", "all"],
        ["setup", "--dry-run", "--no-service"],
        ["disconnect", "--all"],
    ],
    ids=" ".join,
)
def test_in_a_folder_that_is_gone_only_its_project_is_not_known(home: Home, words: list[str]) -> None:
    (home.folder / "work").rmdir()
    home.ok(*words)


@pytest.mark.parametrize(
    "words",
    [
        ["connect", "cursor", "--scope", "project", "--yes"],
        ["import", "--scope", "project", "--yes"],
        ["setup", "--scope", "project", "--yes", "--no-service"],
        ["import", "mcp.json", "--yes"],
    ],
    ids=" ".join,
)
def test_a_project_in_a_folder_that_is_gone_is_a_sentence(home: Home, words: list[str]) -> None:
    (home.folder / "work").rmdir()
    assert "the current folder is gone" in home.fails(2, *words)


def test_an_entry_that_was_imported_gives_way_to_the_server_that_it_became(home: Home) -> None:
    config = home.folder / ".config" / "hearth" / "config.toml"
    config.write_text('[mcpServers.time-2]\nurl = "https://elsewhere"\n')
    backups.remember([(Table("cursor", str(home.cursor), ("mcpServers",), "user", None), "time", "time-2")])
    home.run("connect", "cursor", "--yes")
    assert servers(home.cursor)["time"]["args"][-2:] == ["--server", "time-2"]
    assert servers(home.cursor)["git"] == GIT


def test_a_server_of_the_same_name_that_is_another_is_not_taken_for_it(home: Home) -> None:
    home.cursor.write_text(json.dumps({"mcpServers": {"git": {"command": "uvx", "args": ["other"]}}}))
    home.run("connect", "cursor", "--each", "--yes")
    assert servers(home.cursor)["git"]["args"] == ["other"]
    home.run("connect", "cursor", "--yes")
    assert list(servers(home.cursor)) == ["git", "hearth"]


def test_one_entry_is_added_beside_the_others(home: Home) -> None:
    _, _, err = home.run("connect", "cursor", "--one", "--yes")
    assert list(servers(home.cursor)) == ["git", "time", "hearth"]
    assert servers(home.cursor)["git"] == GIT
    assert "git: stays, so its tools are offered twice" in err


def test_each_adds_nothing(home: Home) -> None:
    code, out, _ = home.run("connect", "codex", "--each", "--yes")
    assert (code, out) == (0, "Nothing had to be changed.\n")
    assert home.codex.read_text() == 'model = "x"\n'


def test_the_profile_stands_in_the_entry(home: Home) -> None:
    home.run("connect", "codex", "--yes", "--profile", "work")
    assert '"--profile", "work"]' in home.codex.read_text()


def test_files_of_a_project_are_touched_only_when_it_is_said(home: Home) -> None:
    project = home.folder / "work" / ".cursor" / "mcp.json"
    home.write(project, json.dumps({"mcpServers": {"git": GIT}}))
    former = project.read_bytes()
    home.run("connect", "--all", "--yes")
    assert project.read_bytes() == former
    assert "is shared with others" in home.fails(0, "connect", "cursor", "--scope", "project", "--yes")
    assert servers(project)["git"]["args"][-2:] == ["--server", "git"]
    home.run("disconnect", "--all")
    assert project.read_bytes() == former


def test_one_broken_file_does_not_keep_the_others_from_being_connected(home: Home) -> None:
    home.cursor.write_text("{")
    code, out, err = home.run("connect", "--all", "--yes")
    assert code == 2
    assert "Codex is connected" in out
    assert f"{home.cursor}:1: is not valid JSON" in err
    assert home.cursor.read_text() == "{"
    home.run("disconnect", "--all")
    home.cursor.write_text("{}")
    home.run("connect", "--all", "--yes")
    home.cursor.write_text("{")
    code, out, err = home.run("disconnect", "--all")
    assert code == 2
    assert "Codex is disconnected" in out
    assert f"{home.cursor}:1: is not valid JSON" in err


def test_a_broken_config_of_hearth_s_own_is_not_taken_for_an_empty_one(home: Home) -> None:
    (home.folder / ".config" / "hearth" / "config.toml").write_text("mcpServers = 5\n")
    former = home.contents()
    assert "config.toml" in home.fails(2, "connect", "--all", "--yes")
    assert home.contents() == former


def test_for_programs_there_is_a_document(home: Home) -> None:
    document = home.json("connect", "--all", "--yes")
    assert document["problems"] == []
    codex, cursor = document["clients"]
    found = (codex["client"], codex["action"], codex["entries"], codex["created"])
    assert found == ("codex", "connected", ["hearth"], False)
    assert (cursor["keys"], cursor["entries"]) == (["mcpServers"], ["git"])
    back = home.json("disconnect", "--all")["clients"]
    assert sorted((each["client"], each["action"], each["exact"]) for each in back) == [
        ("codex", "disconnected", True),
        ("cursor", "disconnected", True),
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["connect", "curser"], "There is no client 'curser'. Did you mean 'cursor'?"),
        (["disconnect", "xyz"], "Known: claude-code, claude-desktop, codex"),
        (["connect", "--all", "cursor"], "not both"),
        (["disconnect"], "Connected: none."),
        (["disconnect", "--all", "cursor"], "Name clients, or say --all."),
        (["connect", "cursor", "--mode", "search"], "--mode goes with --print."),
        (["connect", "cursor", "--server", "git"], "--server goes with --print."),
        (["connect", "--print", "cursor"], "no client can be named"),
        # A client that is not there is named.
        (["connect", "zed", "--yes"], "Zed was not found on this machine"),
        (["connect", "zed", "--scope", "project", "--yes"], "Zed has no file of its own in this project"),
        (["connect", "claude-code", "--scope", "local", "--yes"], "Claude Code has no servers of scope local"),
    ],
)
def test_what_makes_no_sense_or_is_not_there_is_said(home: Home, words: list[str], sentence: str) -> None:
    assert sentence in home.fails(2, *words)


def test_a_client_that_is_not_connected_is_named(home: Home) -> None:
    assert "Cursor is not connected.\n" in home.run("disconnect", "cursor")[1]


def test_a_damaged_trace_is_said_and_everything_else_is_done(home: Home) -> None:
    former = home.codex.read_bytes()
    home.run("connect", "cursor", "--yes")
    Path(backups.place(str(home.cursor))).write_text("{")
    assert home.run("connect", "codex", "--yes")[0] == 0
    assert "note: " in home.fails(0, "disconnect", "codex", "--dry-run")
    code, out, err = home.run("disconnect", "--all")
    assert code == 2
    assert "Codex is disconnected" in out
    assert backups.place(str(home.cursor)) in err
    assert home.codex.read_bytes() == former
    assert backups.place(str(home.cursor)) in home.fails(2, "disconnect", "cursor")


def test_a_dry_run_of_the_way_back_shows_it_and_changes_nothing(home: Home) -> None:
    home.run("connect", "cursor", "--yes")
    former = home.contents()
    out = home.ok("disconnect", "--all", "--dry-run")
    assert '+  "command": "uvx",' in out
    assert SECRET not in out
    assert home.contents() == former


def test_names_of_clients_are_completed() -> None:
    for verb in ("connect", "disconnect"):
        items = BashComplete(cli, {}, "hearth", "_HEARTH_COMPLETE").get_completions([verb, "cline"], "c")
        assert [item.value for item in items] == ["claude-code", "claude-desktop", "codex", "cursor"]
