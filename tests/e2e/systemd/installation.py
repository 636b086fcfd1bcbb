"""Hearth as a user has it: a wheel in a venv, one per Python, in a folder that every user can read.

Everything is made outside, before the boot: inside there is no network. The folder also holds the MCP servers
of the tests and node, because the checkout and root's home need not be readable in there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
SERVERS = Path(__file__).resolve().parents[1] / "fixtures"
OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 13)
BUILD_LIMIT_SECONDS = 300


class Installation:
    """One venv with Hearth in it."""

    def __init__(self, folder: Path, base: str) -> None:
        self.base = base
        self.root = folder
        self.python = str(folder / "bin" / "python")
        self.hearth = str(folder / "bin" / "hearth")

    @property
    def package(self) -> Path:
        """The folder of the package `hearth`."""
        return next(self.root.glob("lib/python3*/site-packages/hearth"))

    @property
    def bridge(self) -> list[str]:
        """How a client's config starts the bridge."""
        return [self.python, "-I", "-S", str(self.package / "bridge" / "main.py")]


def version_of(python: str) -> tuple[int, ...]:
    """The version of an interpreter; empty for a file that is none."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(map(int, done.stdout.split()))


def system_python() -> str:
    """The distribution's Python, or the one that runs the tests where that is too old."""
    usual = "/usr/bin/python3"
    return usual if version_of(usual) >= OLDEST_PYTHON else os.path.realpath(sys.executable)


def newest_python() -> str | None:
    """A python3.13, if there is one on the PATH or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    name = "python{}.{}".format(*NEWEST_PYTHON)
    # pyenv's first: its shims on the PATH answer for whatever is switched on.
    candidates = [*map(str, pyenv.glob(f"versions/*/bin/{name}")), shutil.which(name)]
    return next((python for python in candidates if python and version_of(python) == NEWEST_PYTHON), None)


def make_folder() -> Path:
    """A fresh folder that every user can read."""
    folder = Path(tempfile.mkdtemp(prefix="hearth-test-", dir="/opt"))
    folder.chmod(0o755)
    return folder


def fill(folder: Path, pythons: dict[str, str]) -> dict[str, Installation]:
    """Build the wheel once and install it for each Python; put servers and node beside them."""
    shutil.copytree(SERVERS, folder / "servers")
    node = shutil.which("node")
    if node:
        shutil.copy(os.path.realpath(node), folder / "node")
    _pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(REPOSITORY))
    wheel = next(folder.glob("*.whl"))
    installations = {name: Installation(folder / name, base) for name, base in pythons.items()}
    for installation in installations.values():
        # The venv module without pip needs no package beyond Python itself, and is quick.
        _run(installation.base, "-m", "venv", "--without-pip", str(installation.root))
        _pip("--python", installation.python, "install", str(wheel))
    _run("chmod", "-R", "go+rX", str(folder))
    return installations


def _pip(*arguments: str) -> None:
    _run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_LIMIT_SECONDS, check=False)
    assert done.returncode == 0, f"{command} exited with {done.returncode}: {done.stdout}{done.stderr}"
