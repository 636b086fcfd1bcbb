"""`hearth pack`: what it lists, writes and refuses."""

import json

import pytest

from e2e.cli_home import Bridge, Home, read, write

CONFIG = """\
# mine
idle_timeout = 0  # stays

[mcpServers.time]
command = "true"  # fast
"""


def test_no_pack_is_on_until_it_is_switched_on(home: Home) -> None:
    packs = {pack["name"]: pack["enabled"] for pack in home.json("pack", "list", "--json")["packs"]}
    assert packs == dict.fromkeys(("hearth", "agents", "self-id", "team"), False)
    shown = home.run("pack", "list").stdout
    assert "hearth" in shown
    assert "off" in shown


def test_enable_and_disable_change_one_value_and_no_other_byte(home: Home) -> None:
    path = home.write_config(CONFIG)
    said = home.ok("pack", "enable", "hearth")
    assert said == f"hearth is enabled in {path}. No daemon runs; the next one reads it.\n"
    assert read(path) == CONFIG + "\n[packs.hearth]\nenabled = true\n"
    assert home.json("pack", "list", "--json")["packs"][0]["enabled"] is True
    assert home.run("pack", "enable", "hearth").stdout == "hearth is enabled already.\n"
    assert home.json("pack", "disable", "hearth", "--json")["action"] == "disabled"
    assert read(path) == CONFIG + "\n[packs.hearth]\nenabled = false\n"


def test_a_dry_run_changes_nothing(home: Home) -> None:
    path = home.write_config(CONFIG)
    assert "+enabled = true" in home.run("pack", "enable", "hearth", "--dry-run").stdout
    assert read(path) == CONFIG


def test_enable_makes_the_file(home: Home) -> None:
    done = home.json("pack", "enable", "hearth", "--json")
    assert done["created"] is True
    assert read(done["path"]).endswith("[packs.hearth]\nenabled = true\n")


def test_the_same_key_is_written_into_json(home: Home) -> None:
    path = write(f"{home.home}/servers.json", '{\n  "mcpServers": {}\n}\n')
    assert home.run("pack", "enable", "hearth", "--config", path).returncode == 0
    assert json.loads(read(path)) == {"mcpServers": {}, "packs": {"hearth": {"enabled": True}}}
    assert home.json("pack", "list", "--config", path, "--json")["packs"][0]["enabled"] is True


def test_an_unknown_pack_is_told_the_nearest(home: Home) -> None:
    assert "There is no pack 'heart'. Did you mean 'hearth'?" in home.refuses(2, "pack", "enable", "heart")


def test_a_server_by_the_name_of_a_pack_is_refused_and_both_are_named(home: Home) -> None:
    text = CONFIG.replace("mcpServers.time", "mcpServers.hearth")
    path = home.write_config(text)
    said = home.fails(2, "pack", "enable", "hearth")
    assert f"{path}:4: server 'hearth' has the name of the pack 'hearth' that is on ({path}:7)" in said
    assert read(path) == text


@pytest.mark.parametrize(("line", "words"), [("hearth pack ", "list"), ("hearth pack enable ", "hearth")])
def test_verbs_and_names_are_completed(home: Home, line: str, words: str) -> None:
    assert words in home.complete(line)


def test_a_running_daemon_takes_it_up(home: Home, bridge: Bridge) -> None:
    def names() -> list[str]:
        return [tool["name"] for tool in bridge.ask("tools/list")["result"]["tools"]]

    assert "The running daemon has taken it up." in home.run("pack", "enable", "hearth").stdout
    assert "hearth__status" in names()
    assert "uptimeSeconds" in home.ok("call", "hearth", "status")
    assert "hearth" in home.run("ls").stdout
    assert "is a pack" in home.run("logs", "hearth").stderr
    home.ok("tools", "block", "hearth__restart_server")
    assert "hearth__restart_server" not in names()
    assert "taken it up" in home.run("pack", "disable", "hearth").stdout
    assert "hearth__status" not in names()
    assert "hearth pack enable hearth" in home.run("call", "hearth", "status").stderr
