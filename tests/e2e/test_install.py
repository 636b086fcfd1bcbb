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


def hearth(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command line in a scratch home; the service manager of whoever runs the tests is out of its reach."""
    environment = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-I", "-m", "hearth", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def units(home: Path) -> Path:
    return home / ".config" / "systemd" / "user"


def test_the_units_are_written_and_the_two_commands_are_said(home: Path) -> None:
    done = hearth(home, "install")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in units(home).iterdir()} == {"mcp.socket", "mcp.service"}
    assert "systemctl --user daemon-reload" in done.stdout
    assert "systemctl --user enable --now mcp.socket" in done.stdout
    service = (units(home) / "mcp.service").read_text()
    assert f"ExecStart=:{sys.executable} -I -m hearth.server --profile mcp" in service


def test_installing_again_changes_nothing(home: Path) -> None:
    hearth(home, "install")
    before = written(home)
    document = json.loads(hearth(home, "install", "--json").stdout)
    assert document["written"] == []
    assert written(home) == before


def written(home: Path) -> dict[Path, tuple[int, int]]:
    """Which file each unit is and when it was written; not when it was read, which installing does."""
    found = {path: path.stat() for path in units(home).iterdir()}
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
    drop_in.parent.mkdir()
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
    command = ["systemd-analyze", "verify", "--user", *map(str, sorted(units(home).glob("mcp.*")))]
    environment = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("", "")
