"""The unit files as text: rendering, planning, and that they say what the daemon reads."""

import configparser
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hearth import paths
from hearth.config.model import Config
from hearth.daemon.main import DaemonOptions
from hearth.errors import HearthError
from hearth.host.install import service_files
from hearth.host.linux import units

TEMPLATES = Path(__file__).resolve().parents[2] / "units"


def read(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(delimiters="=", interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((TEMPLATES / name).read_text())
    return parser


ALL_NAMES = (*units.UNIT_NAMES, units.HTTP_UNIT, *units.PROFILE_UNIT_NAMES, *units.SYSTEM_UNIT_NAMES)
SERVICE = read(units.SERVICE_UNIT)
SOCKET = read(units.SOCKET_UNIT)
SERVICES = {name: read(name) for name in ALL_NAMES if name.endswith(".service")}
SOCKETS = {name: read(name) for name in ALL_NAMES if name.endswith(".socket")}
every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def daemon_options(service: configparser.ConfigParser) -> DaemonOptions:
    words = service["Service"]["ExecStart"].split()
    return DaemonOptions(words[words.index("hearth.daemon") + 1 :])


def test_the_interpreter_of_the_installation_is_filled_in_everywhere() -> None:
    text = units.render((TEMPLATES / units.SERVICE_UNIT).read_text(), "/opt/venv/bin/python")
    assert "ExecStart=:/opt/venv/bin/python -I -m hearth.daemon --profile mcp --delegated\n" in text
    assert "ExecReload=:/opt/venv/bin/python -I -m hearth reload --yes --profile mcp\n" in text
    assert units.PLACEHOLDER not in text


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/usr/bin/python3", ":/usr/bin/python3"),
        ("/home/a b/python", '":/home/a b/python"'),
        ("/odd;name/python", '":/odd;name/python"'),
        ("/100%/$HOME/python", ":/100%%/$HOME/python"),
        ("/home/zoë/python", ":/home/zoë/python"),
    ],
)
def test_a_path_is_written_so_that_systemd_reads_it_back(path: str, word: str) -> None:
    assert units.exec_word(path) == word


@pytest.mark.parametrize("path", ["", "python3", "/a\nb", '/a"b', "/a'b", "/a\\b", "/a\x7fb"])
def test_a_path_that_systemd_would_refuse_is_refused_with_a_sentence(path: str) -> None:
    with pytest.raises(HearthError, match="plainer name"):
        units.exec_word(path)


def test_absent_units_are_written() -> None:
    plan = service_files.plan_install({"a": "1", "b": "2"}, {"a": None, "b": None})
    assert plan == service_files.Plan(write=("a", "b"))


def test_units_that_are_the_same_are_kept_and_older_ones_of_ours_are_rewritten() -> None:
    wanted = {"a": f"# {service_files.MARK}\nnew", "b": f"# {service_files.MARK}\nsame"}
    plan = service_files.plan_install(wanted, {"a": f"# {service_files.MARK}\nold", "b": wanted["b"]})
    assert plan == service_files.Plan(write=("a",), keep=("b",))


def test_a_unit_that_somebody_else_wrote_is_neither_overwritten_nor_removed() -> None:
    present = {"a": "[Socket]\nListenStream=1\n", "b": f"# {service_files.MARK}\n"}
    assert service_files.plan_install({"a": "x", "b": "y"}, present) == service_files.Plan(write=("b",), foreign=("a",))
    assert service_files.plan_uninstall(present) == service_files.Plan(remove=("b",), foreign=("a",))


def test_where_nothing_is_installed_nothing_is_removed() -> None:
    assert service_files.plan_uninstall({"a": None, "b": None}) == service_files.Plan()


@pytest.mark.parametrize("name", ALL_NAMES)
def test_each_template_carries_the_mark_by_which_it_is_known_again(name: str) -> None:
    assert service_files.MARK in (TEMPLATES / name).read_text()


def test_a_checkout_finds_the_templates_in_its_own_folder() -> None:
    assert Path(service_files.templates_folder("units", units.SOCKET_UNIT)) == TEMPLATES


def test_the_socket_unit_listens_where_the_bridge_knocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert SOCKET["Socket"]["ListenStream"].replace("%t", "/run/user/7") == paths.Places().socket
    assert SOCKET["Socket"]["FileDescriptorName"] == paths.DEFAULT_PROFILE


@pytest.mark.parametrize("setting", ["ExecStart", "ExecReload"])
def test_a_config_in_the_service_manager_s_environment_does_not_make_it_another_daemon(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEARTH_CONFIG", "/other.toml")
    words = SERVICE["Service"][setting].split()
    if setting == "ExecStart":
        options = DaemonOptions(words[words.index("hearth.daemon") + 1 :])
        assert paths.Places(options.profile, options.config).key == paths.DEFAULT_PROFILE
    else:
        assert words[-2:] == ["--profile", paths.DEFAULT_PROFILE]


def test_the_units_of_a_profile_are_those_of_its_socket_and_its_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    names = units.of_profile("my-work.2")
    assert names.socket == "mcp@my-work.2.socket"
    listen = SOCKETS["mcp@.socket"]["Socket"]["ListenStream"].replace("%t", "/run/user/7").replace("%i", "my-work.2")
    assert listen == paths.Places("my-work.2").socket
    service = SERVICES["mcp@.service"]
    assert daemon_options(service).profile == "%i"
    assert service["Service"]["ExecReload"].split()[-2:] == ["--profile", "%i"]
    assert service["Unit"]["Requires"].replace("%i", "my-work.2") == names.socket


def test_the_default_profile_has_units_without_an_instance() -> None:
    assert units.of_profile(paths.DEFAULT_PROFILE)[:3] == (units.SOCKET_UNIT, units.SERVICE_UNIT, units.UNIT_NAMES)


def test_a_system_wide_socket_listens_where_that_user_s_bridge_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    socket = SOCKETS["system/mcp-user@.socket"]["Socket"]
    uid = str(os.getuid())
    assert socket["ListenStream"].replace("%i", uid) == paths.system_socket()
    places = paths.Places(adopted=paths.system_socket())
    made = socket["ExecStartPre"].replace("%i", uid).split()
    assert places.private_folders() == [places.folder] == made[-1:]
    assert (socket["SocketUser"], socket["SocketMode"], socket["DirectoryMode"]) == ("%i", "0600", "0755")
    assert made[1:-1] == ["-d", "-m", "0700", "-o", uid]


def test_a_system_wide_daemon_runs_as_the_user_that_its_socket_is_for() -> None:
    service = SERVICES["system/mcp-user@.service"]
    assert service["Service"]["User"] == "%i"
    assert service["Service"]["Slice"] == "user-%i.slice"
    assert service["Unit"]["Requires"] == units.of_user(7).socket.replace("7", "%i")


def test_units_for_profiles_and_users_differ_from_the_plain_ones_in_what_names_them_only() -> None:
    """Whatever is changed in one is changed in all, or has its reason here."""
    named = {"Description", "Requires", "ExecStart", "ExecReload", "ExecStopPost", "Also"}
    own = {"system/mcp-user@.service": {"User", "WorkingDirectory", "Slice"}}
    for name, service in SERVICES.items():
        assert settings(service, named | own.get(name, set())) == settings(SERVICE, named), name
    named = {"Description", "ListenStream"}
    own = {"system/mcp-user@.socket": {"SocketUser", "DirectoryMode", "ExecStartPre", "ExecStopPost"}}
    for name, socket in SOCKETS.items():
        if name == units.HTTP_UNIT:
            # A port has neither a file nor a folder.
            continue
        leave_out = named | own.get(name, set())
        assert settings(socket, leave_out) == settings(SOCKET, leave_out), name


def settings(unit: configparser.ConfigParser, leave_out: set[str]) -> dict[tuple[str, str], str]:
    found = {(section, key): unit[section][key] for section in unit.sections() for key in unit[section]}
    return {where: value for where, value in found.items() if where[1] not in leave_out}


@pytest.mark.parametrize("name", ["mcp.socket", "mcp@.socket"])
def test_only_the_user_may_reach_the_socket(name: str) -> None:
    socket = SOCKETS[name]["Socket"]
    assert (socket["SocketMode"], socket["DirectoryMode"]) == ("0600", "0700")


@every_service
def test_systemd_waits_longer_for_the_end_than_the_daemon_takes(service: configparser.ConfigParser) -> None:
    # The stop sequence of an upstream takes up to ten seconds more.
    assert int(service["Service"]["TimeoutStopSec"]) >= Config.drain_timeout + 10 + 5


@every_service
def test_the_daemon_divides_the_control_group_only_where_the_unit_hands_it_over(
    service: configparser.ConfigParser,
) -> None:
    assert (service["Service"]["Delegate"], daemon_options(service).delegated) == ("yes", True)
    assert not DaemonOptions([]).delegated


@every_service
def test_nothing_that_the_servers_would_inherit_is_restricted(service: configparser.ConfigParser) -> None:
    forbidden = {"NoNewPrivileges", "SystemCallFilter", "MemoryDenyWriteExecute", "UMask", "PrivateUsers"}
    prefixes = ("Restrict", "Protect", "Private", "Lock", "Capability")
    assert not forbidden & set(service["Service"])
    assert not [key for key in service["Service"] if key.startswith(prefixes)]


@every_service
def test_the_start_limits_are_finite_and_a_few(service: configparser.ConfigParser) -> None:
    assert 1 <= int(service["Unit"]["StartLimitBurst"]) <= 5
    assert float(service["Unit"]["StartLimitIntervalSec"]) > 0
    assert service["Service"]["Restart"] == "no"


# What systemd tells a command that runs after the service; nobody else can set it.
TOLD_BY_SYSTEMD = {"SERVICE_RESULT", "EXIT_CODE", "EXIT_STATUS"}
SHELL_BUILTINS = {"[", "exec", "exit", "test", "true"}


def privileged_commands(name: str) -> list[tuple[str, list[str]]]:
    """The prefixes and the words of each command that systemd runs as root."""
    text = (TEMPLATES / name).read_text()
    # Commands of a socket have no User= of their own here.
    all_are = name.startswith("system/") and not re.search("^User=", text, re.MULTILINE)
    found = re.findall(r"^Exec\w+=([-@:+!]*)(.*)$", text, re.MULTILINE)
    return [(prefix, shlex.split(line)) for prefix, line in found if all_are or set("+!") & set(prefix)]


def looked_up(script: str) -> list[str]:
    """The commands of a shell script, of the plain kind that units have, that its shell would search PATH for."""
    words = [part.split() for part in re.split(r"\|\||&&|[;|&\n]", script)]
    commands = [each[1] if each[:1] == ["exec"] else each[0] for each in words if each]
    return [word for word in commands if word not in SHELL_BUILTINS and not word.startswith("/")]


@pytest.mark.parametrize("name", ALL_NAMES)
def test_what_runs_as_root_finds_nothing_by_a_path_or_a_variable_that_is_a_user_s(name: str) -> None:
    """A drop-in may set PATH to folders of the user that the daemon is for."""
    for prefix, words in privileged_commands(name):
        assert words[0].startswith("/"), words
        # Without the colon systemd itself would put variables in.
        assert ":" in prefix or not any("$" in word for word in words), words
        if words[0] == "/bin/sh":
            assert words[1] == "-c" and len(words) == 3, words
            assert looked_up(words[2]) == []
            assert set(re.findall(r"\$\{?(\w*)", words[2])) <= TOLD_BY_SYSTEMD
            assert "`" not in words[2]
        else:
            assert os.path.basename(words[0]) in {"install", "rm"}, "a command that starts others is to be looked at"


def test_the_commands_of_the_system_wide_units_that_run_as_root_are_seen() -> None:
    counts = {name: len(privileged_commands(name)) for name in ALL_NAMES if privileged_commands(name)}
    assert counts == {"system/mcp-user@.service": 1, "system/mcp-user@.socket": 2}
    assert looked_up("[ a != b ] || exec systemctl stop; /bin/rm x && ls") == ["systemctl", "ls"]


def test_a_package_s_preset_decides_about_each_socket_of_a_user() -> None:
    """systemd enables what no preset speaks of when it is asked to preset everything."""
    preset = (TEMPLATES.parent / "packaging" / "deb" / "80-mcp-hearth.preset").read_text().splitlines()
    decided = dict(reversed(line.split()) for line in preset if not line.startswith("#"))
    assert decided == {"mcp.socket": "enable", "mcp@.socket": "disable", "mcp-http.socket": "disable"}
    assert set(decided) == {name for name in SOCKETS if "/" not in name}


@pytest.mark.parametrize("name", ALL_NAMES)
def test_each_setting_has_its_reason_beside_it(name: str) -> None:
    """Self-evident ones aside, a setting follows a comment or a setting that shares it."""
    plain = ("Description=", "Documentation=", "Type=", "WantedBy=")
    lines = (TEMPLATES / name).read_text().splitlines()
    explained = False
    for line in lines:
        if line.startswith("#"):
            explained = True
        elif not line or line.startswith("["):
            explained = False
        else:
            assert explained or line.startswith(plain), line


def test_the_page_about_systemd_explains_each_setting() -> None:
    page = (TEMPLATES.parent / "docs" / "systemd.md").read_text()
    plain = {"Description", "Documentation"}
    keys = {
        key for unit in (*SERVICES.values(), *SOCKETS.values()) for section in unit.sections() for key in unit[section]
    }
    assert [key for key in sorted(keys - plain) if f"`{key}=" not in page] == []


def test_a_package_gets_them_with_its_own_interpreter_and_without_the_mark(tmp_path: Path) -> None:
    script = TEMPLATES.parent / "packaging" / "units.py"
    command = [sys.executable, str(script), "--python", "/usr/lib/hearth/bin/python", str(tmp_path)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert sorted(listed) == sorted(map(str, tmp_path.glob("*/*")))
    written = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.glob("*/*")}
    assert set(written) == {f"user/{n}" for n in ALL_NAMES if "/" not in n} | set(units.SYSTEM_UNIT_NAMES)
    assert not [name for name, text in written.items() if service_files.MARK in text or units.PLACEHOLDER in text]
    assert "ExecStart=:/usr/lib/hearth/bin/python -I -m hearth.daemon" in written["user/mcp@.service"]
