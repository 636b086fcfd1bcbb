"""The launchd agent as text: rendering, and that it says what the daemon and the bridge rely on."""

import os
import plistlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hearth import paths
from hearth.bridge.pump import PATIENCE_SECONDS
from hearth.config.model import Config
from hearth.daemon.daemon import STOP_SECONDS
from hearth.daemon.main import DaemonOptions
from hearth.errors import HearthError
from hearth.host import listener
from hearth.host.install import launchd, service_files
from hearth.host.install.service_files import fill
from hearth.host.macos import launchd as agent

TEMPLATE = Path(__file__).resolve().parents[2] / "launchd" / agent.FILE_NAME
TEXT = TEMPLATE.read_text()

# launchd.plist(5), as far as it is used here: the keys and their types. A key of another type is ignored by launchd.
KEYS: dict[str, type] = {
    "Label": str,
    "Disabled": bool,
    "Program": str,
    "ProgramArguments": list,
    "EnvironmentVariables": dict,
    "WorkingDirectory": str,
    "RunAtLoad": bool,
    "KeepAlive": bool,
    "LimitLoadToSessionType": str,
    "ThrottleInterval": int,
    "ExitTimeOut": int,
    "ProcessType": str,
    "AbandonProcessGroup": bool,
    "SoftResourceLimits": dict,
    "HardResourceLimits": dict,
    "StandardInPath": str,
    "StandardOutPath": str,
    "StandardErrorPath": str,
    "Nice": int,
    "Umask": int,
    "Sockets": dict,
}
SOCKET_KEYS: dict[str, type] = {
    "SockType": str,
    "SockPassive": bool,
    "SockNodeName": str,
    "SockServiceName": str,
    "SockFamily": str,
    "SockProtocol": str,
    "SockPathName": str,
    "SockPathOwner": int,
    "SockPathGroup": int,
    "SockPathMode": int,
}
LIMIT_KEYS = {
    "Core",
    "CPU",
    "Data",
    "FileSize",
    "MemoryLock",
    "NumberOfFiles",
    "NumberOfProcesses",
    "ResidentSetSize",
    "Stack",
}
PROCESS_TYPES = {"Background", "Standard", "Adaptive", "Interactive"}
VALUES = {"PYTHON": "/v/bin/python", "SOCKET": "/s", "PATH": "/bin", "HOME": "/Users/me", "OUTPUT": "/l"}


def read(values: dict[str, str] = VALUES) -> dict[str, Any]:
    return plistlib.loads(fill(TEXT, values, "launchd").encode())


AGENT = read()
SOCKET = AGENT["Sockets"]["mcp"]


def test_every_key_is_one_of_launchd_s_and_of_its_type() -> None:
    assert {key: type(value) for key, value in AGENT.items()} == {key: KEYS[key] for key in AGENT}
    assert {key: type(value) for key, value in SOCKET.items()} == {key: SOCKET_KEYS[key] for key in SOCKET}
    assert {type(word) for word in AGENT["ProgramArguments"]} == {str}
    assert {type(value) for value in AGENT["EnvironmentVariables"].values()} == {str}
    assert AGENT["SoftResourceLimits"].keys() <= LIMIT_KEYS
    assert {type(value) for value in AGENT["SoftResourceLimits"].values()} == {int}
    assert AGENT["ProcessType"] in PROCESS_TYPES
    assert (SOCKET["SockFamily"], SOCKET["SockType"]) == ("Unix", "stream")


def test_what_is_written_is_read_back_the_same() -> None:
    assert plistlib.loads(plistlib.dumps(AGENT)) == AGENT


@pytest.mark.parametrize(
    "odd", ["/a b/python", "/R&D/<x>/python", '/zoë/it\'s/"python"', "/@PATH@/python", "/$HOME/%h"]
)
def test_a_path_is_written_so_that_launchd_reads_it_back(odd: str) -> None:
    assert read(dict.fromkeys(VALUES, odd))["ProgramArguments"][0] == odd
    assert read({**VALUES, "SOCKET": odd})["Sockets"]["mcp"]["SockPathName"] == odd
    assert read({**VALUES, "PATH": odd})["EnvironmentVariables"] == {"PATH": odd}


@pytest.mark.parametrize("odd", ["/a\nb", "/a\x01b", "/a\x7fb", "/a\ud800b"])
def test_what_a_property_list_cannot_hold_is_refused_with_a_sentence(odd: str) -> None:
    with pytest.raises(HearthError, match="plainer name"):
        fill(TEXT, {**VALUES, "PYTHON": odd}, "launchd")


def test_every_place_is_filled_in_and_none_is_left_over() -> None:
    assert set(re.findall("@([A-Z]+)@", TEXT)) == VALUES.keys()
    assert "@" not in fill(TEXT, VALUES, "launchd")


def test_the_file_is_named_after_its_label_and_carries_the_mark_by_which_it_is_known_again() -> None:
    assert (AGENT["Label"], agent.FILE_NAME) == (agent.LABEL, f"{agent.LABEL}.plist")
    assert service_files.MARK in TEXT


def test_a_checkout_finds_the_template_in_its_own_folder() -> None:
    assert Path(service_files.templates_folder("launchd", agent.FILE_NAME)) == TEMPLATE.parent


def test_the_daemon_asks_for_the_socket_by_the_name_that_it_has_here() -> None:
    assert list(AGENT["Sockets"]) == [listener.SOCKET_NAME]


def test_only_the_user_may_reach_the_socket() -> None:
    assert SOCKET["SockPathMode"] == 0o600


def test_it_is_the_daemon_of_the_default_profile_whatever_the_login_s_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEARTH_CONFIG", "/other.toml")
    words = AGENT["ProgramArguments"]
    assert words[:4] == ["/v/bin/python", "-I", "-m", "hearth.daemon"]
    options = DaemonOptions(words[4:])
    assert agent.serves(paths.Places(options.profile, options.config))


def test_nothing_runs_before_somebody_connects() -> None:
    assert not {"KeepAlive", "RunAtLoad", "StartInterval", "WatchPaths", "QueueDirectories"} & AGENT.keys()


def test_launchd_waits_longer_for_the_end_than_the_daemon_takes() -> None:
    assert AGENT["ExitTimeOut"] >= Config.drain_timeout + STOP_SECONDS


def test_bridges_wait_longer_than_launchd_delays_a_start() -> None:
    # And then the daemon has to come up.
    assert AGENT["ThrottleInterval"] + 5 <= PATIENCE_SECONDS


def test_each_key_has_its_reason_beside_it() -> None:
    """A key of the outermost dictionary follows a comment, or one that shares it."""
    explained = False
    for line in TEXT.splitlines():
        if "-->" in line:
            explained = True
        elif not line.strip():
            explained = False
        elif line.startswith("\t<key>"):
            assert explained, line


def test_the_page_about_macos_explains_each_key() -> None:
    page = (TEMPLATE.parents[1] / "docs" / "macos.md").read_text()
    assert [key for key in (*AGENT, *SOCKET) if f"`{key}`" not in page] == []


# --- what is filled in


def test_the_path_that_is_kept_has_whole_paths_once_and_the_standard_ones() -> None:
    assert agent.search_path("/opt/homebrew/bin:bin:.::/usr/bin:/opt/homebrew/bin:/a\tb") == (
        "/opt/homebrew/bin:/usr/bin:/usr/local/bin:/bin:/usr/sbin:/sbin"
    )
    assert agent.search_path("") == ":".join(agent.STANDARD_PATH)


def test_an_interpreter_without_its_whole_path_is_refused() -> None:
    with pytest.raises(HearthError, match="whole path"):
        launchd.rendered("python3", paths.Places(), "/bin")


def test_only_the_default_profile_has_an_agent() -> None:
    assert agent.serves(paths.Places())
    assert not agent.serves(paths.Places("work"))
    assert not agent.serves(paths.Places(config="/etc/x.toml"))


# --- the places on macOS, asked of a process whose platform has that name

PLACES = """
import sys
import tomllib
sys.platform = "darwin"
from hearth import paths
places = paths.Places(*sys.argv[1:])
found = [places.socket, places.log, places.config_file(), *places.private_folders()]
print(paths.SOCKET_PATH_LIMIT_BYTES, *found, sep="\\n")
"""


def places_on_a_mac(home: str, *arguments: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-I", "-c", PLACES, *arguments],
        env={"HOME": home, **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout.splitlines()


def test_on_macos_everything_lies_below_library_whatever_xdg_says() -> None:
    support = "/Users/me/Library/Application Support/hearth"
    expected = [
        "103",
        f"{support}/run/mcp/mcp.sock",
        "/Users/me/Library/Logs/hearth/mcp.log",
        f"{support}/config.toml",
        f"{support}/run/mcp",
        f"{support}/run/mcp/mcp",
    ]
    assert places_on_a_mac("/Users/me") == expected
    assert places_on_a_mac("/Users/me", XDG_RUNTIME_DIR="/run/me", XDG_STATE_HOME="/s", TMPDIR="/var/x") == expected


def test_on_macos_a_socket_path_is_cut_at_103_bytes() -> None:
    longest = "/" + "u" * (103 - len("/Library/Application Support/hearth/run/mcp/mcp.sock") - 1)
    assert len(places_on_a_mac(longest)[1]) == 103
    assert places_on_a_mac(longest + "u")[1].startswith(f"/tmp/hearth-{os.getuid()}/")


def test_wheel_and_source_distribution_carry_the_template() -> None:
    targets = tomllib.loads((TEMPLATE.parents[1] / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"]["force-include"]["launchd"] == "hearth/data/launchd"
    assert "/launchd" in targets["sdist"]["include"]
