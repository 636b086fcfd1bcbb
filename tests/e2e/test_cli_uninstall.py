"""`hearth uninstall` with connected clients: none of them is left with an entry that starts nothing."""

import json
import sys
from pathlib import Path

import pytest

from e2e.cli_home import Bridge, Home

CURSOR = '{\n  "mcpServers": {\n    "demo": {"command": "%s", "args": ["-I", "-m", "hearth.demo.server"]}\n  }\n}\n'
CODEX = '# mine\n[mcp_servers.demo] # a comment\ncommand = "%s"\nargs = ["-I", "-m", "hearth.demo.server"]\n'


@pytest.fixture
def files(home: Home) -> dict[Path, bytes]:
    """The files of two clients that are connected, and their content from before."""
    home.configure_demo()
    texts = {Path(home.home, ".cursor", "mcp.json"): CURSOR, Path(home.home, ".codex", "config.toml"): CODEX}
    for path, text in texts.items():
        path.parent.mkdir()
        path.write_text(text % sys.executable, encoding="utf-8")
    before = {path: path.read_bytes() for path in texts}
    home.ok("connect", "--all", "--yes")
    assert bytes_of(before).items().isdisjoint(before.items())
    return before


def bytes_of(files: dict[Path, bytes]) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in files}


def test_clients_get_their_original_servers_back_before_the_units_go(home: Home, files: dict[Path, bytes]) -> None:
    assert home.run("install", "--no-enable").returncode == 0
    said = home.ok("uninstall")
    assert bytes_of(files) == files
    assert "Cursor is disconnected" in said
    assert "Codex is disconnected" in said
    assert "mcp.socket" in said
    assert not Path(home.home, ".config", "systemd", "user", "mcp.socket").exists()


def test_clients_are_kept_by_request_and_named(home: Home, files: dict[Path, bytes]) -> None:
    connected = bytes_of(files)
    said = home.ok("uninstall", "--keep-clients")
    assert bytes_of(files) == connected
    assert "Still connected: Codex and Cursor." in said
    assert "hearth disconnect --all" in said


def test_a_dry_run_shows_the_change_and_makes_none(home: Home, files: dict[Path, bytes]) -> None:
    connected = bytes_of(files)
    document = home.json("uninstall", "--dry-run", "--json")
    assert sorted(document["connected"]) == ["codex", "cursor"]
    assert {Path(each["path"]) for each in document["clients"]} == set(files)
    assert bytes_of(files) == connected
    assert "hearth.demo.server" in home.run("uninstall", "--dry-run").stdout


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_is_asked_and_may_keep_the_clients(home: Home, files: dict[Path, bytes], answer: str) -> None:
    connected = bytes_of(files)
    question = "Restore their original servers first?"
    seen = home.at_terminal(0, "uninstall", answers={question: f"{answer}\n"})
    assert "Connected to Hearth: Codex and Cursor." in seen.partition(question)[0]
    assert bytes_of(files) == (files if answer == "y" else connected)


def test_only_clients_of_the_named_profile_are_disconnected(home: Home, files: dict[Path, bytes]) -> None:
    connected = bytes_of(files)
    assert home.json("uninstall", "--profile", "work", "--json")["connected"] == []
    assert bytes_of(files) == connected


def test_an_entry_that_was_written_by_hand_is_named(home: Home) -> None:
    path = Path(home.home, ".cursor", "mcp.json")
    path.parent.mkdir()
    entry = home.json("connect", "--print")["mcpServers"]["hearth"]
    path.write_text(json.dumps({"mcpServers": {"mine": entry}}), encoding="utf-8")
    before = path.read_bytes()
    done = home.run("uninstall")
    assert path.read_bytes() == before
    assert f"{path}: mine starts Hearth and was not written by `hearth connect`" in done.stderr


def test_disconnect_below_a_folder_leaves_entries_of_other_installations(
    home: Home, files: dict[Path, bytes], tmp_path: Path
) -> None:
    connected = bytes_of(files)
    assert home.json("disconnect", "--all", "--below", str(tmp_path), "--json")["clients"] == []
    assert bytes_of(files) == connected
    # The folder of the launcher that entries name.
    folder = str(Path(home.home, ".local", "state"))
    assert len(home.json("disconnect", "--all", "--below", folder, "--json")["clients"]) == 2
    assert bytes_of(files) == files


def test_a_daemon_that_no_service_manager_holds_is_stopped(home: Home) -> None:
    home.configure_demo()
    with Bridge(home):
        pid = home.json("status", "--json")["pid"]
        assert home.json("uninstall", "--json")["stopped"] == pid
        assert home.json("status", "--json")["running"] is False
