"""The Windows that the tests run on: a prefix of Wine's below `.wine`, with a Windows Python in it.

Standard library only, and for Linux: it is what runs the Windows Python.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = ROOT / ".wine"
PREFIX = PLACE / "prefix"
PYTHON = PLACE / "python" / "python.exe"
SITE_PACKAGES = PLACE / "python" / "Lib" / "site-packages"
# Debian's; its `wine` would look for the 32-bit one first, and complain.
WINE = Path("/usr/lib/wine/wine64")
SERVER = Path("/usr/lib/wine/wineserver")
# Ending every process of a prefix is a matter of moments; whoever cannot be ended is not waited for.
SERVER_SECONDS = 60


def environment() -> dict[str, str]:
    """What Wine and the Windows Python get: the tests' own, nothing said by Wine, no .NET and no browser to install."""
    settings = {"WINEPREFIX": str(PREFIX), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree=;mshtml="}
    return {**os.environ, **settings}


def start(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a Windows program. Its output comes through a pipe: with a file, the Windows Python dies at once."""
    return subprocess.Popen(
        [str(WINE), *command],
        env=environment(),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def windows_path(path: Path) -> str:
    """How Windows programs call it: Wine shows them the whole file system as drive Z."""
    return "Z:" + str(path).replace("/", "\\")


def wait_for_quiet() -> None:
    """Wait until no program of this prefix runs any longer, the service manager included."""
    subprocess.run([str(SERVER), "-w"], env=environment(), timeout=SERVER_SECONDS, check=False)


def end() -> None:
    """End every program of this prefix, and of no other."""
    subprocess.run([str(SERVER), "-k"], env=environment(), timeout=SERVER_SECONDS, check=False)
    wait_for_quiet()
