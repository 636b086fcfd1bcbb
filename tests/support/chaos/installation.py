"""Hearth installed by pip into a venv of its own, to be removed and installed again under whoever runs from it.

The wheel is zipped here: a build would download its tools. The dependencies are links to those of the tests, because
pip must not see the tests' own installation of Hearth.
"""

import importlib.util
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from support.chaos.home import REPOSITORY
from support.kernel import BOUND_SECONDS

NAME = "mcp_hearth"
_DEPENDENCIES = ("click", "filelock", "msgspec", "platformdirs", "uvloop")
_WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def make_wheel(folder: Path, version: str) -> Path:
    """A wheel of the source as it is, which says that it is of that version."""
    package = REPOSITORY / "service" / "hearth"
    contents = {f"hearth/{path.relative_to(package)}": path.read_text() for path in package.rglob("*.py")}
    contents["hearth/__init__.py"] = re.sub(
        r'__version__ = ".*"', f'__version__ = "{version}"', contents["hearth/__init__.py"]
    )
    about = f"{NAME}-{version}.dist-info"
    contents[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: mcp-hearth\nVersion: {version}\n"
    contents[f"{about}/WHEEL"] = _WHEEL
    contents[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in [*contents, f"{about}/RECORD"])
    wheel = folder / f"{NAME}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
    return wheel


class Installation:
    """One venv."""

    def __init__(self, folder: Path) -> None:
        _run(sys.executable, "-m", "venv", "--without-pip", str(folder))
        self.python = folder / "bin" / "python"
        packages = next(folder.glob("lib/python3*/site-packages"))
        self.package = packages / "hearth"
        for name in _DEPENDENCIES:
            found = importlib.util.find_spec(name)
            assert found and found.submodule_search_locations
            (packages / name).symlink_to(found.submodule_search_locations[0])

    @property
    def bridge(self) -> list[str]:
        """How a client's config starts the bridge."""
        return [str(self.python), "-I", "-S", str(self.package / "bridge" / "main.py")]

    def install(self, wheel: Path) -> None:
        """Install the package."""
        self._pip("install", "--no-deps", "--no-index", "--no-compile", str(wheel))

    def remove(self) -> None:
        """Delete the package, as the first half of an upgrade does."""
        self._pip("uninstall", "--yes", "mcp-hearth")
        assert not self.package.exists()

    def _pip(self, *words: str) -> None:
        _run(sys.executable, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check",
             "--python", str(self.python), *words)  # fmt: skip


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * BOUND_SECONDS, check=False)
    assert done.returncode == 0, f"{command} exited with {done.returncode}: {done.stdout}{done.stderr}"
