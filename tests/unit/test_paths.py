"""Where the files of a daemon are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from platformdirs.api import PlatformDirsABC
from platformdirs.macos import MacOS
from platformdirs.unix import Unix

from hearth import paths
from hearth import places as user_folders
from hearth.paths import Places


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the test sets."""
    for name in [*os.environ]:
        if name.startswith(("XDG_", "HEARTH_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/me")


def test_the_default_profile_lies_where_the_unit_puts_its_socket() -> None:
    places = Places()
    assert (places.socket, places.registry) == ("/run/me/mcp/mcp.sock", "/run/me/mcp/mcp/daemon.json")
    assert places.config_file() == "/home/me/.config/hearth/config.toml"
    assert places.arguments() == []


def test_a_named_profile_has_places_of_its_own() -> None:
    places = Places("work")
    assert (places.socket, places.registry) == ("/run/me/mcp/work.sock", "/run/me/mcp/work/daemon.json")
    assert places.config_file() == "/home/me/.config/hearth/profiles/work/config.toml"
    assert places.arguments() == ["--profile", "work"]


def test_a_config_by_path_is_a_daemon_by_that_path(tmp_path: Path) -> None:
    (tmp_path / "real.json").touch()
    (tmp_path / "link.json").symlink_to("real.json")
    real, link = Places(config=str(tmp_path / "real.json")), Places(config=str(tmp_path / "link.json"))
    assert real.socket == link.socket != Places(config=str(tmp_path / "other.json")).socket
    assert link.arguments() == ["--config", str(tmp_path / "real.json")]
    assert link.config_file() == str(tmp_path / "real.json")


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be removed there")
def test_a_relative_config_in_a_folder_that_is_gone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ValueError, match="the current folder is gone"):
        Places(config="mcp.json")
    assert Places(config="/etc/mcp.json").config == "/etc/mcp.json"


def test_the_content_of_a_config_does_not_make_another_daemon(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text("idle_timeout = 1")
    before = Places(config=str(config)).socket
    config.write_text("idle_timeout = 2")
    assert Places(config=str(config)).socket == before


@pytest.mark.parametrize("name", ["..", ".hidden", "a/b", "a b", "ü", "a\n", "other.sock", "-\0"])
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a profile name"):
        Places(name)


def test_the_arguments_of_a_place_lead_another_process_to_it() -> None:
    code = "import sys; from hearth.paths import Places; print(Places(sys.argv[1], sys.argv[2] or None).socket)"
    # Nothing but what an MCP client hands on, and the runtime folder that a user manager would give.
    environ = {"HOME": "/home/me", "PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": "/run/me"}
    for places in (Places(), Places("work"), Places(config="/etc/x.json")):
        arguments = dict(zip(places.arguments()[::2], places.arguments()[1::2], strict=True))
        command = [sys.executable, "-I", "-c", code]
        command += [arguments.get("--profile", ""), arguments.get("--config", "")]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == places.socket


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is the platform's")
def test_a_socket_path_is_replaced_only_when_the_kernel_would_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = len("/mcp/mcp.sock")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "r" * (107 - fixed - 1))
    assert len(Places().socket) == 107
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "r" * (107 - fixed))
    short = Places().socket
    assert short.startswith(paths.short_dir() + "/")
    assert short == Places().socket != Places("work").socket


def test_bytes_count_not_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "ü" * 60)
    assert len(os.fsencode(Places().socket)) <= paths.SOCKET_PATH_LIMIT_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="XDG is Linux's")
def test_without_a_runtime_folder_of_mine_a_short_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    usual = f"/run/user/{os.getuid()}"
    expected = usual if os.path.isdir(usual) and os.stat(usual).st_uid == os.getuid() else paths.short_dir()
    assert paths.runtime_dir() == expected
    # A relative one would mean something else in every process.
    monkeypatch.setenv("XDG_RUNTIME_DIR", "run")
    assert paths.runtime_dir() == expected


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_a_home_that_is_not_set_is_looked_up(monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    import pwd

    monkeypatch.delenv("HOME")
    if home is not None:
        monkeypatch.setenv("HOME", home)
    known = {entry.pw_uid: entry.pw_dir for entry in reversed(pwd.getpwall())}
    assert paths.home_dir() == known.get(os.getuid(), "/")


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user that nobody knows")
def test_a_user_that_is_known_by_number_only_has_a_home() -> None:
    code = "import os; from hearth import paths; os.setuid(54321); print(paths.home_dir(), paths.Places().log)"
    done = subprocess.run([sys.executable, "-I", "-c", code], env={}, capture_output=True, text=True, check=True)
    assert done.stdout == "/ /.local/state/hearth/logs/mcp.log\n"


def test_every_folder_that_must_be_private_is_named_outermost_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Places().private_folders() == ["/run/me/mcp", "/run/me/mcp/mcp"]
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "r" * 200)
    long = "/" + "r" * 200
    assert Places().private_folders() == [paths.short_dir(), f"{long}/mcp", f"{long}/mcp/mcp"]


def test_what_is_kept_between_runs_and_the_config_follow_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/config")
    assert Places().log == "/state/hearth/logs/mcp.log"
    assert Places("work").learned == "/state/hearth/learned/work.json"
    assert Places().config_file() == "/config/hearth/config.toml"


@pytest.mark.parametrize("name", ["github", "a.b-c_9", "community", "x" * 60])
def test_a_server_with_a_plain_name_has_a_file_of_that_name(name: str) -> None:
    assert paths.safe_name(name) == name


ODD_NAMES = ["GitHub", "github ", "", ".", "..", "../x", "a/b", "a\\b", "con", "com1", "nul.txt", "x" * 61, "x" * 300,
             "日本", "日本語", "a\nb", "a~b", "\ud800", "\udcff", "a.", "-", "*"]  # fmt: skip


def test_every_name_has_a_file_of_its_own_on_every_file_system() -> None:
    names = [*ODD_NAMES, "github", "x", "a_b", "a"]
    found = [paths.safe_name(name) for name in names]
    assert len({each.lower() for each in found}) == len(names)
    assert all(set(each) <= paths._NAME_CHARACTERS | {"~"} and len(each) < 100 for each in found)
    assert not [each for each in found if each.startswith(".") or each.endswith(".")]
    assert not {"con", "prn", "aux", "nul", "com1", "lpt1"} & {each.split(".")[0] for each in found}
    # The digest stays: it is what the files of a former run are called.
    assert paths.safe_name("GitHub") == "GitHub~933bb589a4fe47e9"


def test_the_logs_of_servers_lie_in_a_folder_of_their_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert paths.Places("work").server_log("a/b").startswith("/state/hearth/logs/servers/work/a_b~")


# --- sockets that the administrator of a host has set up


@pytest.fixture
def shared_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with such a socket for this user."""
    if sys.platform != "linux":
        pytest.skip("system-wide sockets are Linux's")
    monkeypatch.setattr(paths, "SYSTEM_DIR", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    socket = tmp_path / f"{os.getuid()}.sock"
    socket.touch()
    return socket


@pytest.mark.parametrize("variable", [None, f"/run/user/{os.getuid()}", f"/run/user/{os.getuid()}/"])
def test_a_system_wide_socket_is_the_default_daemon_s_with_and_without_a_login(
    shared_host: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    if variable:
        monkeypatch.setenv("XDG_RUNTIME_DIR", variable)
    places = paths.Places()
    assert (places.system_wide, places.socket) == (True, str(shared_host))
    assert places.registry == str(shared_host.with_suffix("") / "daemon.json")
    assert places.private_folders() == [str(shared_host.with_suffix(""))]


def test_a_runtime_folder_of_one_s_own_goes_before_the_system_wide_socket(
    shared_host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/scratch")
    assert paths.Places().socket == "/scratch/mcp/mcp.sock"


def test_profiles_and_configs_by_path_have_no_system_wide_socket(shared_host: Path) -> None:
    assert not paths.Places("work").system_wide
    assert not paths.Places(config="/etc/x.toml").system_wide


def test_where_the_system_wide_socket_is_gone_the_user_s_own_is_used(shared_host: Path) -> None:
    shared_host.unlink()
    places = paths.Places()
    assert not places.system_wide
    assert places.socket == os.path.join(paths.runtime_dir(), "mcp", "mcp.sock")


def test_a_daemon_has_its_files_beside_the_socket_that_it_was_handed(shared_host: Path) -> None:
    own = paths.Places(adopted="/run/user/7/mcp/mcp.sock")
    assert (own.system_wide, own.socket) == (False, "/run/user/7/mcp/mcp.sock")
    assert own.daemon_lock == "/run/user/7/mcp/mcp/daemon.lock"
    assert paths.Places(adopted=str(shared_host)).daemon_lock == str(shared_host.with_suffix("") / "daemon.lock")


def test_a_socket_of_another_name_says_nothing_about_the_daemon_s_files(
    shared_host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert paths.Places("work", adopted="/elsewhere/other.sock").socket == "/run/user/7/mcp/work.sock"


def test_a_pipe_is_named_by_its_user_and_its_daemon() -> None:
    assert paths.pipe_name("S-1-5-21-7-8-9-1001", "mcp") == r"\\.\pipe\hearth-S-1-5-21-7-8-9-1001-mcp"
    assert paths.pipe_name("S-1-5-21-7-8-9-1002", "mcp") != paths.pipe_name("S-1-5-21-7-8-9-1001", "mcp")


def test_a_pipe_knows_no_capitals_as_the_folders_beside_it_do_not() -> None:
    assert paths.pipe_name("S-1-5-18", "Work") == paths.pipe_name("S-1-5-18", "work")


def test_a_pipe_whose_name_would_be_too_long_gets_a_short_one_that_stays_the_same() -> None:
    longest = "S-1-" + "-".join(["4294967295"] * 15)
    name = paths.pipe_name(longest, "a" * 300)
    assert len(name) <= paths.PIPE_NAME_LIMIT
    assert name == paths.pipe_name(longest, "a" * 300) != paths.pipe_name(longest, "a" * 299)


@pytest.mark.parametrize(("platform", "convention"), [("linux", Unix), ("darwin", MacOS)])
def test_the_places_are_those_of_the_platform_s_conventions(
    monkeypatch: pytest.MonkeyPatch, platform: str, convention: type[PlatformDirsABC]
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    usual = convention("hearth", appauthor=False)
    assert paths.config_dir() == usual.user_config_dir
    assert paths.state_dir() == usual.user_state_dir
    if platform == "darwin":
        assert paths.log_dir() == usual.user_log_dir


def test_a_bridge_is_told_the_socket_that_it_would_not_find_without_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert Places().bridge_arguments() == ["--socket", f"{tmp_path}/mcp/mcp.sock"]
    assert Places("work").bridge_arguments() == ["--profile", "work", "--socket", f"{tmp_path}/mcp/work.sock"]
    monkeypatch.setenv("XDG_RUNTIME_DIR", paths.usual_runtime_dir())
    assert Places().bridge_arguments() == []
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert Places("work").bridge_arguments() == ["--profile", "work"]


def test_a_long_path_is_told_as_it_was_and_not_as_its_stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 120)))
    places = Places()
    named = places.bridge_arguments()[1]
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    again = Places(named=named)
    assert (again.socket, again.folder) == (places.socket, places.folder)
    assert again.socket.startswith(paths.short_dir())


def test_a_named_socket_that_is_the_default_one_is_not_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert Places(named=f"{tmp_path}/mcp/mcp.sock").named is None
    assert Places(named=f"{tmp_path}/other.sock").named == f"{tmp_path}/other.sock"


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"XDG_STATE_HOME": "/state", "XDG_CONFIG_HOME": "/config"},
        {"XDG_STATE_HOME": "relative", "XDG_CONFIG_HOME": ""},
        {"HOME": ""},
        {"HOME": "relative"},
    ],
)
def test_bridge_and_command_line_work_out_the_same_folders(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert user_folders.config_dir() == paths.config_dir()
    assert user_folders.state_dir() == paths.state_dir()
