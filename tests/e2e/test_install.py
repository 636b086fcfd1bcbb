"""`hearth install` where no service manager can be reached, as any user may run it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hearth-home-", dir="/tmp"))
    (folder / "run").mkdir(mode=0o700)
    yield folder
    shutil.rmtree(folder)


def hearth(home: Path, *arguments: str, path: str = "") -> "subprocess.CompletedProcess[str]":
    """The command line in a scratch home; the service manager of whoever runs the tests is out of its reach."""
    environment = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "PATH": path or os.environ["PATH"]}
    command = [sys.executable, "-I", "-m", "hearth", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def units(home: Path) -> Path:
    return home / ".config" / "systemd" / "user"


UNITS = {"mcp.socket", "mcp.service", "mcp-http.socket"}


def files(home: Path) -> set[str]:
    """Everything below the folder of the units."""
    return {str(path.relative_to(units(home))) for path in units(home).rglob("*") if not path.is_dir()}


def test_the_units_are_written_and_the_two_commands_are_said(home: Path) -> None:
    done = hearth(home, "install")
    assert done.returncode == 0, done.stderr
    assert files(home) == {*UNITS, "mcp.service.d/10-hearth-path.conf"}
    assert "systemctl --user daemon-reload" in done.stdout
    assert "systemctl --user enable --now mcp.socket" in done.stdout
    service = (units(home) / "mcp.service").read_text()
    assert f"ExecStart=:{sys.executable} -I -m hearth.daemon --profile mcp" in service


def test_installing_again_changes_nothing(home: Path) -> None:
    hearth(home, "install")
    before = written(home)
    assert json.loads(hearth(home, "install", "--json").stdout)["written"] == []
    assert written(home) == before


def written(home: Path) -> dict[Path, tuple[int, int]]:
    """Which file each unit is and when it was written; not when it was read, which installing does."""
    found = {path: path.stat() for path in units(home).rglob("*") if path.is_file()}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()}


def test_an_older_unit_of_ours_is_replaced(home: Path) -> None:
    hearth(home, "install")
    service = units(home) / "mcp.service"
    current = service.read_text()
    service.write_text(current.replace("KillMode=mixed", "KillMode=process"))
    assert json.loads(hearth(home, "install", "--json").stdout)["written"] == ["mcp.service"]
    assert service.read_text() == current


def test_uninstall_takes_the_link_of_an_enabled_socket_away_too(home: Path) -> None:
    hearth(home, "install")
    wants = units(home) / "sockets.target.wants"
    wants.mkdir()
    (wants / "mcp.socket").symlink_to(units(home) / "mcp.socket")
    done = hearth(home, "uninstall")
    assert done.returncode == 0, done.stderr
    assert not (home / ".config" / "systemd").exists()


def test_uninstall_leaves_the_drop_ins_that_a_person_wrote(home: Path) -> None:
    hearth(home, "install")
    drop_in = units(home) / "mcp.service.d" / "mine.conf"
    drop_in.write_text("[Service]\nMemoryMax=2G\n")
    hearth(home, "uninstall")
    assert [path for path in units(home).rglob("*") if path.is_file()] == [drop_in]


def test_a_folder_that_cannot_be_written_is_named(home: Path) -> None:
    (home / ".config").write_text("a file where a folder should be")
    done = hearth(home, "install")
    assert done.returncode == 1
    assert str(units(home)) in done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_analyze_verify_has_nothing_to_say_about_what_was_written(home: Path) -> None:
    hearth(home, "install")
    hearth(home, "install", "--profile", "work")
    written = [path for path in units(home).iterdir() if path.is_file()]
    assert len(written) == 5
    # A wheel's man page is not on the system's man path.
    command = ["systemd-analyze", "verify", "--man=no", "--user", *map(str, sorted(written))]
    environment = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_analyze_verify_has_nothing_to_say_about_the_units_of_the_system(home: Path) -> None:
    script = Path(__file__).resolve().parents[2] / "packaging" / "units.py"
    subprocess.run([sys.executable, script, "--python", sys.executable, home], check=True, capture_output=True)
    written = sorted((home / "system").iterdir())
    assert len(written) == 2
    command = ["systemd-analyze", "verify", "--man=no", *map(str, written)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("", "")


# --- the PATH of the shell


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder that lasts, other than those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="hearth-path-", dir="/opt" if os.access("/opt", os.W_OK) else Path.home()))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def kept_path(home: Path, unit: str = "mcp.service") -> str:
    (setting,) = [
        line
        for line in (units(home) / f"{unit}.d" / "10-hearth-path.conf").read_text().splitlines()
        if line.startswith("Environment=")
    ]
    return setting.removeprefix('Environment="PATH=').removesuffix('"')


def test_the_path_of_the_shell_is_kept_and_said_and_what_is_left_out_is_said_too(home: Path, shelf: Path) -> None:
    open_to_all, venv = shelf / "open", shelf / "venv" / "bin"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    venv.mkdir(parents=True)
    (venv.parent / "pyvenv.cfg").touch()
    typed = f"{shelf}:{venv}:{open_to_all}:{home}:bin:{shelf}/gone:{shelf}/:/usr/bin"
    done = hearth(home, "install", path=typed)
    assert kept_path(home) == f"{shelf}:/usr/bin:/usr/local/bin:/bin:/usr/sbin:/sbin"
    assert kept_path(home) in done.stdout
    for entry, reason in [
        (venv, "virtual environment"),
        (open_to_all, "by everybody"),
        (home, "temporary"),
        ("bin", "whole path"),
        (shelf / "gone", "not there"),
    ]:
        assert any(f"left out: {entry} " in line and reason in line for line in done.stdout.splitlines()), entry


def test_installing_again_renews_the_path_and_uninstalling_removes_it(home: Path, shelf: Path) -> None:
    hearth(home, "install", path="/usr/bin")
    document = json.loads(hearth(home, "install", "--json", path=f"{shelf}:/usr/bin").stdout)
    assert document["written"] == ["mcp.service.d/10-hearth-path.conf"]
    assert document["path"] == kept_path(home)
    assert kept_path(home).startswith(f"{shelf}:")
    hearth(home, "uninstall")
    assert not (home / ".config" / "systemd").exists()


def test_a_path_that_was_changed_by_hand_is_neither_renewed_nor_removed(home: Path, shelf: Path) -> None:
    hearth(home, "install", path="/usr/bin")
    drop_in = units(home) / "mcp.service.d" / "10-hearth-path.conf"
    mine = drop_in.read_text().replace("/usr/local/bin", "/my/own")
    drop_in.write_text(mine)
    done = hearth(home, "install", path=f"{shelf}:/usr/bin")
    assert done.returncode == 0, done.stderr
    assert f"{drop_in} was changed by hand" in done.stdout
    assert "will be looked for" not in done.stdout
    hearth(home, "install", "--no-path")
    hearth(home, "uninstall")
    assert files(home) == {"mcp.service.d/10-hearth-path.conf"}
    assert drop_in.read_text() == mine


def test_a_path_can_be_given_and_none_be_kept(home: Path, shelf: Path) -> None:
    hearth(home, "install", "--path", f"{shelf}:/usr/bin")
    assert kept_path(home) == f"{shelf}:/usr/bin"
    hearth(home, "install", "--no-path")
    assert files(home) == UNITS
    done = hearth(home, "install", "--path", "bin:/usr/bin")
    assert (done.returncode, "'bin' cannot be searched" in done.stderr) == (1, True)
    assert files(home) == UNITS


def test_odd_names_in_a_path_are_read_back_by_systemd_as_they_were(home: Path, shelf: Path) -> None:
    odd = shelf / 'a "b" 100% $HOME \\c'
    odd.mkdir()
    hearth(home, "install", path=str(odd))
    escaped = str(odd).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    assert kept_path(home).startswith(f"{escaped}:")


# --- profiles


def test_a_profile_s_units_are_installed_beside_the_others_and_the_last_takes_the_files_along(home: Path) -> None:
    assert hearth(home, "install").returncode == 0
    done = hearth(home, "install", "--profile", "work")
    assert "systemctl --user enable --now mcp@work.socket" in done.stdout
    hearth(home, "--profile", "play", "install")
    for profile in ("work", "play"):
        enabled = units(home) / "sockets.target.wants" / f"mcp@{profile}.socket"
        enabled.parent.mkdir(exist_ok=True)
        enabled.symlink_to(units(home) / "mcp@.socket")
    hearth(home, "uninstall", "--profile", "work")
    assert {name for name in files(home) if "@" in name} == {
        "mcp@.socket",
        "mcp@.service",
        "mcp@play.service.d/10-hearth-path.conf",
        "sockets.target.wants/mcp@play.socket",
    }
    hearth(home, "uninstall", "--profile", "play")
    assert files(home) == {*UNITS, "mcp.service.d/10-hearth-path.conf"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--profile", "a/b"], "not a profile name"),
        (["--profile", "x" * 200], "take a shorter one"),
        (["--config", "x.toml"], "leave out --config"),
        (["--user", "alice"], "--user goes with --system"),
        (["--system", "--profile", "work"], "a profile is its user's own"),
        (["--path", "/usr/bin", "--no-path"], "contradict"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_written(home: Path, arguments: list[str], said: str) -> None:
    done = hearth(home, "install", *arguments)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert not (home / ".config").exists()
