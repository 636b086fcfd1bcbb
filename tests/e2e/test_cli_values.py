"""Verbs that change one value of the config: `config get|set|edit`, `enable`, `disable`, `tools block|unblock`."""

import os
import stat
import sys

import pytest

from e2e.cli_home import Bridge, Home, attached_bridge, read, write

CONFIG = """\
# mine
log_level = "info"  # quiet

# the time
[mcpServers.time]
command = "true"  # fast
args = ["a"]

[mcpServers."git.hub".env]
TOKEN = "abc"

[mcpServers."git.hub"]
command = "true"
"""


def test_get_prints_one_value_and_where_it_comes_from(home: Home) -> None:
    path = home.write_config(CONFIG)
    assert home.run("config", "get", "log_level").stdout == "info\n"
    assert home.run("config", "get", "idle_timeout").stdout == "60.0\n"
    assert home.run("config", "get", "mcpServers.time.args").stdout == '["a"]\n'
    assert home.json("config", "get", "mcpServers.git.hub.env", "--json")["value"] == {"TOKEN": "***"}
    assert home.json("config", "get", "mcpServers.time", "--json")["value"]["command"] == "true"
    found = home.json("config", "get", "log_level", "--json")
    assert found == {"key": "log_level", "value": "info", "origin": f"{path}:2"}
    assert home.run("config", "get", "idle_timeout", HEARTH_IDLE_TIMEOUT="5").stdout == "5.0\n"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("idle_timout", "Did you mean 'idle_timeout'?"),
        ("mcpServers.tyme.args", "Did you mean 'time'?"),
        ("mcpServers.time.arg", "Did you mean 'args'?"),
    ],
)
def test_a_key_that_is_not_there_is_told_the_nearest(home: Home, key: str, words: str) -> None:
    path = home.write_config(CONFIG)
    for verb in (["get", key], ["set", key, "1"]):
        assert words in home.refuses(2, "config", *verb)
    assert read(path) == CONFIG


@pytest.mark.quick
def test_set_changes_the_value_and_no_other_byte(home: Home) -> None:
    path = home.write_config(CONFIG)
    assert home.run("config", "set", "log_level", "debug").returncode == 0
    assert read(path) == CONFIG.replace('"info"', '"debug"')
    home.run("config", "set", "log_level", "info")
    home.run("config", "set", "idle_timeout", "600")
    assert read(path) == CONFIG.replace("# quiet\n", "# quiet\nidle_timeout = 600\n")
    home.run("config", "set", "idle_timeout", "--unset")
    home.run("config", "set", "mcpServers.time.call_timeout", "5")
    assert read(path) == CONFIG.replace('args = ["a"]\n', 'args = ["a"]\ncall_timeout = 5\n')
    home.run("config", "set", "mcpServers.time.call_timeout", "--unset")
    assert read(path) == CONFIG


def test_set_makes_the_file_and_the_table_that_are_not_there(home: Home) -> None:
    done = home.json("config", "set", "owner.approve", "always", "--json")
    assert (done["action"], done["created"]) == ("set", True)
    assert stat.S_IMODE(os.stat(done["path"]).st_mode) == 0o600
    assert home.run("config", "get", "owner.approve").stdout == "always\n"
    home.run("config", "set", "http_hosts", "a.example,b.example")
    assert home.run("config", "get", "http_hosts").stdout == '["a.example", "b.example"]\n'
    assert home.run("config", "check").returncode == 0


@pytest.mark.parametrize(
    "words", [("idle_timeout", "soon"), ("idle_timeout",), ("idle_timeout", "1", "--unset"), ("mcpServers.time", "x")]
)
def test_a_value_that_cannot_be_is_refused(home: Home, words: tuple[str, ...]) -> None:
    path = home.write_config(CONFIG)
    home.refuses(2, "config", "set", *words)
    assert read(path) == CONFIG


def test_a_dry_run_shows_the_line_and_changes_nothing(home: Home) -> None:
    path = home.write_config(CONFIG)
    assert "+idle_timeout = 5" in home.run("config", "set", "idle_timeout", "5", "--dry-run").stdout
    assert "+disabled = true" in home.run("disable", "time", "--dry-run").stdout
    assert read(path) == CONFIG


def test_a_variable_that_wins_over_the_file_is_told_of(home: Home) -> None:
    home.write_config(CONFIG)
    said = home.run("config", "set", "idle_timeout", "5", HEARTH_IDLE_TIMEOUT="7").stderr
    assert "HEARTH_IDLE_TIMEOUT is set in this shell" in said


def test_disable_and_enable_leave_the_file_as_it_was(home: Home) -> None:
    path = home.write_config(CONFIG)
    assert home.run("disable", "git.hub").returncode == 0
    (found,) = home.json("ls", "git.hub", "--json")
    assert found["state"] == "disabled"
    assert home.run("disable", "git.hub").stdout == "git.hub is disabled already.\n"
    assert home.json("enable", "git.hub", "--json")["action"] == "enabled"
    assert read(path) == CONFIG
    assert home.run("enable", "nothing").returncode == 2


def test_a_running_daemon_takes_up_what_is_disabled(home: Home, bridge: Bridge) -> None:
    assert tool_names(bridge)
    assert "has taken it up" in home.run("disable", "demo").stdout
    assert tool_names(bridge) == set()
    assert "has taken it up" in home.run("enable", "demo").stdout
    assert tool_names(bridge)


@pytest.mark.parametrize(("key", "value"), [("listen", "tcp:127.0.0.1:0"), ("socket_mode", "0660")])
def test_a_running_daemon_does_not_take_up_what_holds_at_its_start(
    home: Home, bridge: Bridge, key: str, value: str
) -> None:
    said = home.run("config", "set", key, value).stdout
    assert "keeps the former value until it is restarted: `hearth restart`" in said
    assert "has taken it up" not in said
    assert "has taken it up" in home.run("config", "set", "idle_timeout", "600").stdout


def tool_names(bridge: Bridge) -> set[str]:
    return {each["name"] for each in bridge.ask("tools/list")["result"]["tools"]}


@pytest.mark.quick
def test_a_blocked_tool_is_in_no_list_and_cannot_be_called(home: Home) -> None:
    for bridge in attached_bridge(home):
        before, config = tool_names(bridge), read(home.json("config", "path", "--json")["path"])
        pid = home.json("ps", "--json")[0]["pid"]
        assert home.run("tools", "block", "demo__add").returncode == 0
        assert tool_names(bridge) == before - {"demo__add"}
        answer = bridge.ask("tools/call", name="demo__add", arguments={"a": 1, "b": 2})
        assert "is blocked in the config" in answer["error"]["message"]
        assert answer["error"]["data"]["reason"] == "blocked"
        assert "demo__add" not in home.run("tools").stdout
        assert home.run("tools", "block", "demo__add").stdout == "demo__add is blocked already.\n"
        assert home.json("config", "get", "mcpServers.demo.blocked_tools", "--json")["value"] == ["add"]
        assert home.json("tools", "unblock", "demo__add", "--json")["action"] == "unblocked"
        assert tool_names(bridge) == before
        assert "error" not in bridge.ask("tools/call", name="demo__add", arguments={"a": 1, "b": 2})
        assert read(home.json("config", "path", "--json")["path"]) == config
        assert home.json("ps", "--json")[0]["pid"] == pid
    home.run("stop", "--yes")
    # With no daemon, too: from what is kept.
    home.run("tools", "block", "demo__count")
    assert "demo__count" not in home.run("tools").stdout
    assert home.run("tools", "unblock", "demo__count").returncode == 0


def test_a_tool_that_is_not_there_is_a_usage_error(home: Home) -> None:
    home.configure_demo()
    # Its tools are not known yet: what begins with its name is taken.
    assert home.run("tools", "block", "demo__add").returncode == 0
    assert "There is no tool 'other__add'" in home.refuses(2, "tools", "block", "other__add")
    assert "Blocked: demo__add." in home.fails(2, "tools", "unblock", "demo__slow")


def test_keys_and_names_are_completed(home: Home) -> None:
    home.write_config(CONFIG.replace("args", 'blocked_tools = ["x"]\nargs'))
    assert home.complete("hearth config get idle") == ["idle_timeout"]
    assert home.complete("hearth config set mcpServers.time.call_c") == ["mcpServers.time.call_ceiling"]
    assert home.complete("hearth disable ti") == ["time"]
    assert home.complete("hearth tools unblock t") == ["time__x"]


def editor(home: Home, code: str) -> str:
    """An editor that does this with the text of the file; its command."""
    head = "import pathlib, sys, os\npath = pathlib.Path(sys.argv[1])\ntext = path.read_text()\n"
    script = f"{head}{code}\npath.write_text(text)\nos.utime(path, (1, 1))\n"
    return f"{sys.executable} {write(os.path.join(home.folder, 'editor.py'), script)}"


def test_edit_puts_a_right_text_in_place(home: Home) -> None:
    path = home.write_config(CONFIG)
    said = home.ok("config", "edit", EDITOR=editor(home, 'text = text.replace("info", "error")'))
    assert read(path) == CONFIG.replace("info", "error")
    assert "is changed" in said
    assert "is not changed" in home.run("config", "edit", EDITOR="true").stdout


def test_edit_refuses_a_wrong_text_and_keeps_it(home: Home) -> None:
    path = home.write_config(CONFIG)
    assert "log_level" in home.refuses(2, "config", "edit", EDITOR=editor(home, 'text = text.replace("info", "loud")'))
    assert read(path) == CONFIG
    assert read(f"{path}.rejected") == CONFIG.replace("info", "loud")


def test_edit_mends_a_file_with_mistakes(home: Home) -> None:
    path = home.write_config("idle_timeout = soon\n")
    assert home.run("config", "edit", EDITOR=editor(home, 'text = text.replace("soon", "5")')).returncode == 0
    assert read(path) == "idle_timeout = 5\n"


def test_edit_offers_another_try_on_a_terminal(home: Home) -> None:
    path = home.write_config(CONFIG)
    # Wrong at first, then right.
    code = 'text = text.replace("loud", "error") if "loud" in text else text.replace("info", "loud")'
    home.at_terminal(0, "config", "edit", answers={"Edit again?": "y\n"}, EDITOR=editor(home, code))
    assert read(path) == CONFIG.replace("info", "error")
