"""`hearth add` and `hearth remove` as typed: the file, the daemon, and what is refused."""

import os
import stat
import subprocess
import sys
import tomllib

import pytest

from e2e.cli_home import HEARTH, Bridge, Home, read, write

DEMO = ("--", sys.executable, "-I", "-m", "hearth.demo.server")


def config_path(home: Home) -> str:
    return home.run("config", "path").stdout.strip()


def servers(home: Home) -> dict[str, object]:
    found = tomllib.loads(read(config_path(home))).get("mcpServers", {})
    assert isinstance(found, dict)
    return found


def test_what_it_says_to_type_can_be_typed_whatever_the_name(home: Home) -> None:
    done = home.run("add", "my server", "--", "uvx", "mcp-server-time")
    assert "hearth call 'my server'" in done.stdout
    assert "hearth remove 'my server'" in done.stdout
    path = os.path.join(home.home, "other.json")
    done = home.run("add", "time", "--config", path, "--", "uvx", "mcp-server-time")
    assert f"hearth remove time --config {path}`" in done.stdout


@pytest.mark.quick
def test_the_first_server_makes_the_file_for_its_owner_only(home: Home) -> None:
    said = home.ok("add", "time", "--", "uvx", "mcp-server-time")
    path = config_path(home)
    assert path in said
    assert "hearth remove time" in said
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert servers(home) == {"time": {"command": "uvx", "args": ["mcp-server-time"]}}
    assert home.run("config", "check").returncode == 0
    assert home.run("remove", "time").returncode == 0
    assert servers(home) == {}


def test_every_option_has_its_place_in_the_entry(home: Home) -> None:
    words = ["--cwd", "/srv", "--isolation", "session", "--set", "call_timeout=60", "--set", "max_concurrency=1"]
    assert home.run("add", "a", "--env", "A=b=c", *words, "--", "run", "--env", "x").returncode == 0
    header = "X-Team: ${env:TEAM}"
    assert home.run("add", "b", "--url", "https://example.com/mcp", "--header", header).returncode == 0
    assert servers(home) == {
        "a": {
            "command": "run",
            "args": ["--env", "x"],
            "env": {"A": "b=c"},
            "cwd": "/srv",
            "isolation": "session",
            "call_timeout": 60,
            "max_concurrency": 1,
        },
        "b": {"url": "https://example.com/mcp", "headers": {"X-Team": "${env:TEAM}"}},
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["x"], "either a command"),
        (["x", "--url", "https://a", "--", "b"], "Not both"),
        (["x", "--url", "ftp://a"], "url must begin with"),
        (["x", "--set", "call_timeot=3", "--", "b"], "did you mean 'call_timeout'?"),
        (["x", "--set", "call_timeout=soon", "--", "b"], "call_timeout must be a number of seconds"),
        (["x", "--env", "secretword", "--", "b"], "--env takes NAME=VALUE"),
        (["x", "npx", "-y", "b"], "put `--` before"),
        ([" ", "--", "b"], "The name must not be empty"),
    ],
)
def test_what_cannot_be_an_entry_is_a_usage_error_and_nothing_is_written(
    home: Home, words: list[str], sentence: str
) -> None:
    assert sentence in home.fails(2, "add", *words)
    assert not os.path.exists(config_path(home))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--", "/no/such/program"], "the command '/no/such/program' does not exist"),
        (["--cwd", "/srv", "--", "./serve"], "the command '/srv/./serve' does not exist"),
        (["--", "/etc/passwd"], "the command '/etc/passwd' is not a program"),
    ],
)
def test_a_command_by_a_path_that_is_no_program_is_refused_unless_forced(
    home: Home, words: list[str], sentence: str
) -> None:
    said = home.fails(5, "add", "x", *words)
    assert sentence in said and "--force" in said
    assert "PATH" not in said
    assert not os.path.exists(config_path(home))
    home.ok("add", "x", "--force", *words)
    assert "[mcpServers.x]" in read(config_path(home))


@pytest.mark.parametrize("words", [["--", "${HOME}/serve"], ["--", "./serve"], ["--", "/bin/sh"]])
def test_a_command_that_is_a_program_or_depends_on_the_daemon_is_added(home: Home, words: list[str]) -> None:
    home.ok("add", "x", *words)


def test_the_error_of_a_server_by_its_path_does_not_speak_of_path(home: Home) -> None:
    home.run("add", "x", "--force", "--", "/no/such/program")
    done = home.run("call", "x")
    assert "its command '/no/such/program' does not exist" in done.stderr
    assert "PATH" not in done.stderr
    (found,) = [each for each in home.findings() if each["id"] == "servers.program"]
    assert "/no/such/program" in found["message"]
    assert "PATH" not in found["fix"]


def test_a_server_that_is_there_is_replaced_only_on_request(home: Home) -> None:
    text = '# mine\n[mcpServers.a] # a\ncommand = "a"\n\n[mcpServers.b]\ncommand = "b"\n'
    path = home.write_config(text)
    assert "--replace" in home.fails(5, "add", "a", "--", "c")
    assert read(path) == text
    assert home.run("add", "a", "--replace", "--", "c").returncode == 0
    assert read(path) == '# mine\n[mcpServers.a] # a\ncommand = "c"\n\n[mcpServers.b]\ncommand = "b"\n'


@pytest.mark.parametrize("text", ["idle_timeot = 3\n", "[mcpServers", "a = 1\na = 1\n"])
@pytest.mark.parametrize("words", [("add", "x", "--", "b"), ("remove", "x")])
def test_a_file_with_mistakes_is_refused_and_stays(home: Home, words: tuple[str, ...], text: str) -> None:
    path = home.write_config(text)
    assert f"{path}:" in home.fails(2, *words)
    assert read(path) == text


def test_a_dry_run_shows_the_lines_that_would_change_and_no_others(home: Home) -> None:
    text = '[mcpServers.a]\ncommand = "a"\nenv = { TOKEN = "hush" }\n'
    path = home.write_config(text)
    said = home.ok("add", "b", "--dry-run", "--", "b")
    assert '+[mcpServers.b]\n+command = "b"' in said
    assert "hush" not in said
    removed = home.json("remove", "a", "--dry-run", "--json")
    assert (removed["action"], removed["dryRun"], removed["daemon"]) == ("removed", True, None)
    assert '-command = "a"' in removed["diff"]
    assert read(path) == text


def test_a_link_stays_a_link_and_the_file_keeps_its_mode_and_line_ends(home: Home) -> None:
    path = home.write_config("")
    dotfile = os.path.join(home.home, "dotfiles.toml")
    os.replace(path, dotfile)
    os.symlink(dotfile, path)
    write(dotfile, "# mine\r\nidle_timeout = 5\r\n")
    os.chmod(dotfile, 0o640)
    assert home.run("add", "a", "--", "b").returncode == 0
    assert os.path.islink(path)
    assert stat.S_IMODE(os.stat(dotfile).st_mode) == 0o640
    assert read(dotfile).startswith("# mine\r\nidle_timeout = 5\r\n\r\n[mcpServers.a]\r\n")
    assert home.run("remove", "a").returncode == 0
    assert read(dotfile) == "# mine\r\nidle_timeout = 5\r\n"
    assert sorted(os.listdir(home.home)) == [".config", ".local", "dotfiles.toml"]


def test_another_client_s_file_is_edited_with_all_that_is_in_it(home: Home) -> None:
    text = '{\n  // mine\n  "theme": "dark",\n  "mcpServers": {\n    "a": { "command": "a" }, // a\n  },\n}\n'
    path = write(os.path.join(home.home, "mcp.json"), text)
    assert home.run("add", "time", "--config", path, "--", "uvx", "mcp-server-time").returncode == 0
    assert "time" in home.json("config", "show", "--json", "--config", path)["servers"]
    assert home.run("remove", "time", "--config", path).returncode == 0
    assert read(path) == text


@pytest.mark.quick
def test_a_running_daemon_takes_it_up(home: Home, bridge: Bridge) -> None:
    assert "has taken it up" in home.ok("add", "second", *DEMO)
    assert {"demo__add", "second__add"} <= {tool["name"] for tool in bridge.ask("tools/list")["result"]["tools"]}
    assert "has taken it up" in home.run("remove", "second").stdout
    assert [each["name"] for each in home.json("upstreams", "--json")] == ["demo"]


def test_many_at_once_are_all_in_the_file(home: Home) -> None:
    home.write_config("# mine\n")
    names = [f"server-{number}" for number in range(6)]
    running = [
        subprocess.Popen([HEARTH, "add", name, "--", "x"], env=home.environment, stdout=subprocess.DEVNULL)
        for name in names
    ]
    assert [each.wait(30) for each in running] == [0] * len(names)
    assert sorted(servers(home)) == names


def test_a_literal_secret_is_warned_of(home: Home) -> None:
    done = home.run("add", "github", "--env", "GITHUB_TOKEN=ghp_12345678", "--", "x")
    assert done.returncode == 0
    assert "hearth secret set github-github_token" in done.stderr
    assert "ghp_" not in done.stderr + done.stdout
    assert "DB_PASS looks like a secret" in home.run("add", "db", "--env", "DB_PASS=hunter2000", "--", "x").stderr
    quiet = home.run("add", "other", "--env", "GITHUB_TOKEN=${keyring:github}", "--env", "MODE=fast", "--", "x")
    assert quiet.stderr == ""


@pytest.mark.parametrize(
    "words",
    [
        ("--url", "https://example.com/mcp?key=abcd1234efgh"),
        ("--", "x", "--token", "abcd1234efgh"),
        ("--", "x", "--token=abcd1234efgh"),
        ("--", "x", "-k", "abcd1234efgh"),
    ],
)
def test_one_among_the_arguments_or_in_the_address_is_warned_of_too(home: Home, words: tuple[str, ...]) -> None:
    done = home.run("add", "search", *words)
    assert done.returncode == 0
    assert "looks like a secret" in done.stderr
    assert "abcd1234efgh" not in done.stderr
    plain = [word.replace("abcd1234efgh", "${keyring:search}") for word in words]
    assert home.run("add", "search", "--replace", *plain).stderr == ""


def test_on_a_terminal_a_literal_secret_may_go_into_the_keyring_instead(home: Home) -> None:
    # No keyring answers here: it is kept in a private file then.
    home.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    words = ("--url", "https://s/mcp", "--header", "Authorization: Bearer sk-12345678")
    home.at_terminal(0, "add", "search", *words, answers={"[Y/n]": "\n"})
    assert servers(home) == {
        "search": {"url": "https://s/mcp", "headers": {"Authorization": "Bearer ${keyring:search-authorization}"}}
    }
    assert "sk-12345678" not in read(config_path(home))
    kept = os.path.join(home.home, ".local", "state", "hearth", "vault")
    assert any("sk-12345678" in read(os.path.join(kept, name)) for name in os.listdir(kept))


def test_a_removal_names_the_secrets_that_nobody_refers_to_any_more(home: Home) -> None:
    home.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    for name in ("mine", "shared"):
        home.ok_with("x1234", "secret", "set", name)
    words = ["--env", "A=${keyring:mine}", "--env", "B=${keyring:shared}", "--env", "C=${keyring:nowhere}"]
    home.run("add", "one", *words, "--", "x")
    home.run("add", "two", "--env", "B=${keyring:shared}", "--", "x")
    said = home.run("remove", "one").stdout
    assert "`hearth secret remove mine`" in said
    assert "shared" not in said and "nowhere" not in said
    assert home.json("remove", "two", "--json")["warnings"] == [
        "no server refers to the secret 'shared' any more, and it is still kept: `hearth secret remove shared`"
    ]


def test_removing_what_is_not_there_names_the_nearest(home: Home) -> None:
    home.configure_demo()
    assert "Did you mean 'demo'?" in home.fails(2, "remove", "dem")
    assert home.complete("hearth remove ") == ["demo"]


def test_json_says_what_was_done(home: Home) -> None:
    done = home.json("add", "a", "--json", "--", "b")
    assert (done["action"], done["name"], done["created"], done["dryRun"]) == ("added", "a", True, False)
    assert home.json("add", "a", "--replace", "--json", "--", "c")["action"] == "replaced"
