"""The built package, and a later version of it that is made by packing its files anew."""

import re
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
NAME = "mcp-hearth"
PREFIX = f"/usr/lib/{NAME}"
PYTHON = f"{PREFIX}/bin/python"
# Packing takes seconds; a machine with two busy cores has needed half a minute.
PACK_LIMIT_SECONDS = 300


def find() -> Path | None:
    """The package in dist/, the newest if there are several."""
    found = sorted(REPOSITORY.glob(f"dist/{NAME}_*.deb"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def run(*command: str | Path) -> str:
    """Run a command that must succeed; what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PACK_LIMIT_SECONDS, check=False)
    assert done.returncode == 0, f"{command} exited with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def field(package: Path, name: str) -> str:
    """A field of its control file."""
    return run("dpkg-deb", "--field", package, name).strip()


def unpack(package: Path, folder: Path) -> None:
    """Its files, and its control files in DEBIAN."""
    run("dpkg-deb", "--raw-extract", package, folder)


def later(package: Path, version: str, folder: Path) -> Path:
    """The same package as `version`: Hearth itself says so, too, when it is asked."""
    root = folder / version
    unpack(package, root)
    _replace(root / "DEBIAN" / "control", r"^Version: .*$", f"Version: {version}")
    source = next(root.glob(f"{PREFIX[1:]}/lib/python3.*/site-packages/hearth/__init__.py"))
    _replace(source, r"^__version__ = .*$", f'__version__ = "{version}"')
    # Byte code never looks at its source there.
    run(
        "/usr/bin/python3", "-I", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash",
        "-s", root, source,
    )  # fmt: skip
    # Quick: nobody downloads it.
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", root, folder)
    return next(folder.glob(f"*_{version}_*.deb"))


def _replace(path: Path, pattern: str, line: str) -> None:
    text, count = re.subn(pattern, line, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert count == 1, path
    path.write_text(text, encoding="utf-8")
