"""The launcher: its text, where it is written, and that what it starts outlasts upgrades."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hearth
from hearth.clients import launcher
from hearth.clients.launcher import bridge_command, printed_command
from hearth.doctor import clients as checkup
from hearth.paths import Places

PACKAGE = Path(hearth.__file__).parent
VERSION = "python{}.{}".format(*sys.version_info)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a short path."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def environment(folder: Path, version: str) -> Path:
    """A virtual environment with Hearth in it, for one version of Python; its interpreter."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    python.unlink(missing_ok=True)
    python.symlink_to(os.path.realpath(sys.executable))
    (folder / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
    packages = folder / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (packages / "hearth").symlink_to(PACKAGE)
    return python


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o700)
    return path


def run(script: str | Path) -> "subprocess.CompletedProcess[bytes]":
    """Run a launcher as a client does, where no daemon runs and none may be started."""
    command = [str(script), "--no-start"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)


def is_bridge(script: str | Path) -> bool:
    """Return whether the bridge itself ran: it says that there is no daemon."""
    return b"--no-start" in run(script).stderr


# --- the text


def test_the_first_line_is_the_interpreter_with_both_flags_in_one_word() -> None:
    assert launcher.text("/v/bin/python", "/v/lib").splitlines()[0] == "#!/v/bin/python -IS"


@pytest.mark.parametrize(
    ("python", "expected"),
    [
        ("/usr/bin/python3", True),
        ("/my home/bin/python", False),
        ("/a\tb/python", False),
        ("/" + "x" * 119, True),
        ("/" + "x" * 120, False),
        ("/" + "ü" * 60, False),
    ],
)
def test_a_path_with_a_space_or_too_long_does_not_fit(python: str, expected: bool) -> None:
    assert launcher.fits(python) == expected


# --- written and named


def test_it_is_written_for_its_owner_and_starts_the_bridge() -> None:
    path = launcher.prepared(write=True)
    assert path == launcher.own_path()
    assert os.stat(path).st_mode & 0o777 == 0o700
    assert launcher.missing(path) == ""
    assert is_bridge(path)


def test_nothing_is_written_for_a_look_or_for_a_printed_entry() -> None:
    assert launcher.prepared(write=False) == launcher.own_path()
    assert printed_command(Places()) == bridge_command(Places())
    assert not os.path.exists(launcher.own_path())
    launcher.prepared(write=True)
    assert printed_command(Places("work"))[:3] == [launcher.own_path(), "--profile", "work"]


@pytest.mark.parametrize("python", ["/my home/bin/python", "/" + "x" * 130])
def test_where_it_cannot_be_entries_name_the_interpreter(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", python)
    assert launcher.prepared(write=True) is None
    assert not os.path.exists(launcher.own_path())


def test_where_no_file_can_be_written_entries_name_the_interpreter(state: Path) -> None:
    (state / "state").write_text("in the way")
    assert launcher.prepared(write=True) is None


def test_one_that_a_package_brought_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = write(tmp_path / "mcp-hearth" / launcher.NAME, "#!/bin/sh\n")
    monkeypatch.setattr("sys.executable", str(tmp_path / "mcp-hearth" / "bin" / "python"))
    assert launcher.prepared(write=True) == str(shipped)
    assert not os.path.exists(launcher.own_path())


def test_a_package_gets_one_with_its_own_interpreter_that_says_who_brought_it(tmp_path: Path) -> None:
    program = str(PACKAGE.parents[1] / "packaging" / "launcher.py")
    command = [sys.executable, program, "--python", sys.executable, "--packages", str(PACKAGE.parent)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Brought by the package." in printed
    assert "hearth connect" not in printed
    assert is_bridge(write(tmp_path / launcher.NAME, printed))


# --- upgrades


def test_it_starts_the_bridge_after_python_was_upgraded_in_its_environment(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    python = environment(venv, "python3.8")
    script = write(tmp_path / launcher.NAME, launcher.text(str(python), str(venv / "lib/python3.8/site-packages")))
    assert is_bridge(script)
    shutil.rmtree(venv)
    environment(venv, VERSION)
    assert is_bridge(script)
    assert launcher.missing(str(script)) == ""


def test_it_prefers_the_package_of_its_own_python_to_one_that_an_upgrade_left(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    former = venv / "lib" / "python3.8" / "site-packages"
    python = environment(venv, "python3.8")
    environment(venv, VERSION)
    (former / "hearth").unlink()
    (former / "hearth" / "bridge").mkdir(parents=True)  # of a former version, and broken
    assert is_bridge(write(tmp_path / launcher.NAME, launcher.text(str(python), str(former))))


def test_what_is_gone_is_said_and_found_and_written_again(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    python = environment(venv, VERSION)
    packages = venv / "lib" / VERSION / "site-packages"
    script = write(Path(launcher.own_path()), launcher.text(str(python), str(packages)))
    (packages / "hearth").unlink()
    done = run(script)
    assert done.returncode == 1
    assert b"hearth doctor --fix" in done.stderr
    assert launcher.missing(str(script)) == str(packages / "hearth" / "bridge")
    python.unlink()
    assert launcher.missing(str(script)) == str(python)
    assert checkup._missing([str(script), "--server", "x"]) == str(python)
    launcher.prepared(write=True)
    assert launcher.missing(str(script)) == ""
    assert is_bridge(script)
