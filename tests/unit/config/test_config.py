"""What a configuration comes to, and which source wins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from config_reading import config_of, examined

from hearth import config
from hearth.config import Config, OAuthSpec, ServerSpec
from hearth.config.model import HEARTHS_OWN_KEYS, AgentSettings, ProviderSpec, TeamSettings
from hearth.errors import ConfigError
from hearth.paths import Places

NOTHING: dict[str, str] = {}


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_a_file_every_value_is_its_default(home: Path) -> None:
    found = config.load(Places(), NOTHING)
    assert found == Config(path=str(home / ".config/hearth/config.toml"))
    assert (found.hash, found.servers, found.idle_timeout, found.owner.approve) == ("", {}, 60.0, "never")


def test_the_default_file_is_read(home: Path) -> None:
    path = written(home / ".config/hearth/config.toml", 'idle_timeout = 5\n[mcpServers.a]\ncommand = "x"\n')
    found = config.load(Places(), NOTHING)
    assert (found.idle_timeout, list(found.servers), found.path) == (5.0, ["a"], str(path))


def test_a_profile_has_a_file_of_its_own(home: Path) -> None:
    written(home / ".config/hearth/config.toml", "idle_timeout = 5\n")
    written(home / ".config/hearth/profiles/work/config.toml", "idle_timeout = 7\n")
    assert config.load(Places("work"), NOTHING).idle_timeout == 7.0


def test_a_file_that_was_named_must_exist(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml: does not exist"):
        config.load(Places(config=str(home / "absent.toml")), NOTHING)


def test_a_folder_in_place_of_the_file_is_one_sentence(home: Path) -> None:
    (home / ".config/hearth/config.toml").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"config\.toml: cannot be read: is a directory"):
        config.load(Places(), NOTHING)


def test_a_file_in_place_of_the_folder_is_an_absent_config(home: Path) -> None:
    written(home / ".config/hearth", "not a folder")
    assert config.load(Places(), NOTHING).servers == {}


def test_a_named_pipe_without_a_writer_does_not_hold_the_start(home: Path) -> None:
    os.mkfifo(home / "pipe")
    with pytest.raises(ConfigError, match="is not a file"):
        config.load(Places(config=str(home / "pipe")), NOTHING)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_one_sentence(home: Path) -> None:
    written(home / ".config/hearth/config.toml", "").chmod(0)
    with pytest.raises(ConfigError, match="cannot be read: permission denied"):
        config.load(Places(), NOTHING)


def test_a_file_beyond_the_limit_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hearth.config.loader.FILE_LIMIT_BYTES", 10)
    path = written(home / "c.toml", "# 34567890\n")
    with pytest.raises(ConfigError, match="has over 10 bytes"):
        config.load(Places(config=str(path)), NOTHING)


def test_the_hash_is_of_the_bytes(home: Path) -> None:
    path = written(home / "c.toml", "idle_timeout = 5\n")
    first = config.load(Places(config=str(path)), NOTHING).hash
    assert first == config.load(Places(config=str(path)), NOTHING).hash
    written(path, "idle_timeout = 5 \n")
    assert len(first) == 64
    assert config.load(Places(config=str(path)), NOTHING).hash != first


@pytest.mark.parametrize(("text", "count"), [("a = 1\nb = 2\n", 2), ("a = \n", 1), ("", 0)])
def test_a_wrong_file_is_refused_with_every_problem(home: Path, text: str, count: int) -> None:
    path = written(home / "c.toml", text)
    with pytest.raises(ConfigError) as caught:
        config.load(Places(config=str(path)), {"HEARTH_LOG_LEVEL": "loud"})
    assert len(caught.value.problems) == count + 1
    assert caught.value.exit_code == 2


def test_examine_keeps_problems_instead_of_raising(home: Path) -> None:
    found = config.examine(Places(config=str(home / "absent.toml")), {"HEARTH_IDLE_TIMEOUT": "9"})
    assert len(found.problems) == 1
    assert found.config.idle_timeout == 9.0


def test_where_nothing_is_configured_no_parser_is_loaded(home: Path) -> None:
    code = (
        "import sys; from hearth import config; from hearth.paths import Places; config.load(Places(), {});"
        "print([name for name in ('tomllib', 'json', 'difflib', 'dataclasses', 'hashlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_flags_win_over_variables_over_the_file_over_defaults() -> None:
    text = "idle_timeout = 1\ndrain_timeout = 1\nlist_timeout = 1\n"
    found = examined(text, environ={"HEARTH_IDLE_TIMEOUT": "2", "HEARTH_DRAIN_TIMEOUT": "2"}, flags={"idle_timeout": 3})
    loaded = found.config
    assert (loaded.idle_timeout, loaded.drain_timeout, loaded.list_timeout, loaded.eof_timeout) == (3, 2, 1, 60)
    origins = [found.origin(f"{name}_timeout") for name in ("idle", "drain", "list", "eof")]
    assert origins == ["--idle-timeout", "HEARTH_DRAIN_TIMEOUT", "config.toml:3", "default"]


def test_every_setting_has_a_variable() -> None:
    variables = {
        "HEARTH_IDLE_TIMEOUT": "0",
        "HEARTH_DRAIN_TIMEOUT": "0.5",
        "HEARTH_LIST_TIMEOUT": "2e1",
        "HEARTH_EOF_TIMEOUT": "3",
        "HEARTH_QUESTION_TIMEOUT": "4",
        "HEARTH_PARKED_TIMEOUT": "5",
        "HEARTH_PARKED_LIMIT": "6",
        "HEARTH_HEARTBEAT_INTERVAL": "0.05",
        "HEARTH_MESSAGE_LIMIT": "8 MiB",
        "HEARTH_OUTBOUND_LIMIT": "4096",
        "HEARTH_UPSTREAM_QUEUE_LIMIT": "4KiB",
        "HEARTH_LIST_LIMIT": "8192",
        "HEARTH_LIST_ENTRIES": "18",
        "HEARTH_MAX_CONNECTIONS": "12",
        "HEARTH_RATE_LIMIT": "0.5",
        "HEARTH_IN_FLIGHT_LIMIT": "15",
        "HEARTH_PORT_RATE_LIMIT": "0",
        "HEARTH_PORT_IN_FLIGHT_LIMIT": "16",
        "HEARTH_RATE_BURST": "17",
        "HEARTH_HTTP_REQUEST_TIMEOUT": "14",
        "HEARTH_HTTP_HOSTS": "a.example, b.example",
        "HEARTH_LISTEN": "tcp:127.0.0.1:0",
        "HEARTH_SOCKET_MODE": "0660",
        "HEARTH_HTTP_ORIGINS": "https://a.example",
        "HEARTH_ALLOWED_UIDS": "1000, 1001",
        "HEARTH_ALLOWED_GIDS": "7",
        "HEARTH_MODE": "auto",
        "HEARTH_SEARCH_THRESHOLD": "13",
        "HEARTH_LOG_LEVEL": "debug",
        "HEARTH_OWNER_APPROVE": "always",
        "HEARTH_AGENTS_DEFAULT_PROVIDER": "codex",
        "HEARTH_AGENTS_WAIT_TIMEOUT": "20",
        "HEARTH_AGENTS_TURN_TIMEOUT": "21",
        "HEARTH_AGENTS_IDLE_CLOSE": "22",
        "HEARTH_AGENTS_MAX_AGENTS": "23",
        "HEARTH_AGENTS_MAX_RUNNING": "24",
        "HEARTH_AGENTS_MAX_DEPTH": "25",
        "HEARTH_AGENTS_TIMELINE_LIMIT": "26",
        "HEARTH_TEAM_FILE_PR": "gh pr create '{title} x'",
    }
    found = config_of("", environ=variables)
    expected = Config(
        idle_timeout=0.0,
        drain_timeout=0.5,
        list_timeout=20.0,
        eof_timeout=3.0,
        question_timeout=4.0,
        parked_timeout=5.0,
        parked_limit=6,
        heartbeat_interval=0.05,
        message_limit=8 * 1024 * 1024,
        outbound_limit=4096,
        upstream_queue_limit=4096,
        list_limit=8192,
        list_entries=18,
        max_connections=12,
        rate_limit=0.5,
        in_flight_limit=15,
        port_rate_limit=0.0,
        port_in_flight_limit=16,
        rate_burst=17.0,
        http_request_timeout=14.0,
        http_hosts=("a.example", "b.example"),
        http_origins=("https://a.example",),
        listen="tcp:127.0.0.1:0",
        socket_mode="0660",
        allowed_uids=(1000, 1001),
        allowed_gids=(7,),
        mode="auto",
        search_threshold=13,
        log_level="debug",
        owner=config.OwnerPolicy(approve="always"),
        agents=AgentSettings(
            default_provider="codex",
            wait_timeout=20.0,
            turn_timeout=21.0,
            idle_close=22.0,
            max_agents=23,
            max_running=24,
            max_depth=25,
            timeline_limit=26,
        ),
        team=TeamSettings(file_pr=("gh", "pr", "create", "{title} x")),
        path="config.toml",
        hash=found.hash,
    )
    assert found == expected
    unchanged = {name for name in Config.fields if getattr(found, name) == getattr(Config(), name)}
    assert unchanged == {"servers", "packs", "warnings"}


def test_providers_of_agents_are_named_tables_with_a_command() -> None:
    text = "[agents.providers.mine]\ncommand = 'my-agent'\nargs = ['--acp']\n[agents.providers.mine.env]\nA = 'b'"
    providers = config_of(text).agents.providers
    assert dict(providers) == {"mine": ProviderSpec(command="my-agent", args=("--acp",), env={"A": "b"})}


def test_an_empty_variable_counts_as_not_set() -> None:
    assert config_of("idle_timeout = 4", environ={"HEARTH_IDLE_TIMEOUT": ""}).idle_timeout == 4.0


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    assert config_of("idle_timeout = 4", flags={"idle_timeout": None}).idle_timeout == 4.0


def test_a_flag_may_be_a_text_or_a_value() -> None:
    assert config_of("", flags={"message_limit": "1 MiB", "idle_timeout": 2}).message_limit == 1024 * 1024


def test_servers_keep_the_order_of_the_file() -> None:
    names = ["zeta", "alpha", "mid"]
    assert list(config_of("".join(f'[mcpServers.{name}]\ncommand = "x"\n' for name in names)).servers) == names


def test_a_server_has_what_its_entry_says() -> None:
    text = """
        [mcpServers.a]
        command = "npx"
        args = ["-y", ""]
        env = { A = "1", "b.c" = "" }
        cwd = "~/x"
        era = "legacy"
        isolation = "workspace"
        max_concurrency = 4
        start_timeout = 3
        call_timeout = 0
        call_ceiling = 5.5
        instance_idle = 0
        disabled = true
        [mcpServers.b]
        url = "unix:/run/b.sock"
        headers = { Authorization = "x" }
        transport = "sse"
    """
    servers = config_of(text).servers
    assert servers["b"] == ServerSpec(name="b", url="unix:/run/b.sock", headers={"Authorization": "x"}, transport="sse")
    assert servers["a"] == ServerSpec(
        name="a",
        command="npx",
        args=("-y", ""),
        env={"A": "1", "b.c": ""},
        cwd="~/x",
        era="legacy",
        isolation="workspace",
        max_concurrency=4,
        start_timeout=3.0,
        call_timeout=0.0,
        call_ceiling=5.5,
        instance_idle=0.0,
        disabled=True,
    )


def test_toml_and_json_of_the_same_content_are_the_same_config() -> None:
    toml = 'idle_timeout = 5\n[owner]\napprove = "always"\n[mcpServers.a]\nurl = "https://x"\nheaders = { A = "b" }\n'
    json = (
        '{"idle_timeout": 5, "owner": {"approve": "always"},'
        ' "mcpServers": {"a": {"url": "https://x", "headers": {"A": "b"}}}}'
    )
    first, second = config_of(toml), config_of(json, "config.json")
    assert first.replace(hash="", path="") == second.replace(hash="", path="")


def test_a_reload_sees_which_servers_changed() -> None:
    before = config_of('[mcpServers]\na = { command = "x" }\nb = { command = "y", env = { T = "1" } }\n').servers
    after = config_of('[mcpServers]\nb = { command = "y", env = { T = "2" } }\na = { command = "x" }\n').servers
    assert before["a"] == after["a"]
    assert before["b"] != after["b"]


def test_what_only_hearth_goes_by_asks_for_no_other_process() -> None:
    blank = ServerSpec(name="a", command="x")
    others: dict[str, object] = {
        "name": "b", "command": "y", "args": ("z",), "env": {"A": "1"}, "cwd": "/", "url": "https://x",
        "headers": {"A": "1"}, "oauth": OAuthSpec(client_id="c"),
        "transport": "sse", "disabled": True, "era": "modern", "isolation": "shared",
        "memory_max": 2**30, "cpu_weight": 9,
    }  # fmt: skip
    assert others.keys() | HEARTHS_OWN_KEYS == {*ServerSpec.fields}, "whoever adds a key decides"
    assert [key for key, value in others.items() if blank.runs_like(blank.replace(**{key: value}))] == []
    assert all(blank.runs_like(blank.replace(**{key: 7})) for key in HEARTHS_OWN_KEYS)


@pytest.mark.parametrize(("written", "read"), [("0", 0), ("4096", 4096), ('"64 KiB"', 65536)])
def test_a_limit_of_results_is_a_size_or_none(written: str, read: int) -> None:
    assert config_of(f'[mcpServers.a]\ncommand = "x"\nresult_limit = {written}\n').servers["a"].result_limit == read


@pytest.mark.parametrize("written", ["1", "4095", "-1", "false", '"many"', "[]"])
def test_a_limit_below_an_ordinary_result_is_refused(written: str) -> None:
    [problem] = examined(f'[mcpServers.a]\ncommand = "x"\nresult_limit = {written}\n').problems
    assert "result_limit must be a number of bytes from 4096 to" in str(problem)
    assert str(problem).endswith("; 0 means no limit")


def test_a_config_cannot_be_changed() -> None:
    found = config_of('[mcpServers.a]\ncommand = "x"\nenv = { A = "1" }\n')
    with pytest.raises(AttributeError, match="immutable"):
        found.idle_timeout = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        found.servers["a"].env["A"] = "2"  # type: ignore[index]
    assert found.replace(idle_timeout=1.0).idle_timeout == 1.0
    assert found.idle_timeout == 60.0


def test_a_record_refuses_fields_that_it_does_not_have_and_wants_those_without_default() -> None:
    with pytest.raises(TypeError, match="has no"):
        Config(idle=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="needs 'name'"):
        ServerSpec()  # type: ignore[call-arg]


def test_the_repr_of_a_config_shows_no_secret() -> None:
    found = config_of('[mcpServers.a]\ncommand = "x"\nargs = ["s3cret"]\nenv = { A = "s3cret" }\n')
    assert "s3cret" not in repr(found)
    assert "'a'" in repr(found)


def test_hosts_and_origins_are_kept_as_they_are_compared() -> None:
    found = config_of(
        'http_hosts = ["MyHost", "[::1]", "fd00::A"]\n'
        'http_origins = ["https://App.Example", "http://a.b:8080", "http://[::1]:3000", "app://xY", "null"]\n'
    )
    assert found.http_hosts == ("myhost", "::1", "fd00::a")
    assert found.http_origins == ("https://app.example", "http://a.b:8080", "http://[::1]:3000", "app://xY", "null")
