"""The private tree of the Debian package: a link to an interpreter and site-packages, as `python3 -m venv` makes them.

    python3 packaging/deb/tree.py create TREE INTERPRETER
    python3 packaging/deb/tree.py clean TREE

`create` makes it empty, for pip to fill; `clean` takes out what is of use only where pip made it. Runs on the
distribution's Python, without Hearth.
"""

import os
import shutil
import sys
from pathlib import Path

# No `command` and no `version`, as the venv module writes them: they would tell of the machine that built it.
CONFIG = "home = {home}\ninclude-system-site-packages = false\n"
# Of a distribution's record: who asked for it and where it came from is the package manager's to know, not pip's.
# Without a RECORD pip refuses to change it.
LEFT_OUT = ("RECORD", "REQUESTED", "direct_url.json")
INSTALLER = "dpkg\n"
# systemd-python has no wheel; the package python3-systemd has it, compiled for the distribution's Python. Seen from
# /usr/lib/mcp-hearth/lib/python3.N/site-packages: one package of the distribution, and nothing else of its packages.
SYSTEMD_PYTHON = "../../../../python3/dist-packages/systemd"


def create(tree: Path, interpreter: str) -> None:
    """An environment without a package in it."""
    (tree / "bin").mkdir(parents=True)
    (tree / "bin" / "python").symlink_to(interpreter)
    (tree / "pyvenv.cfg").write_text(CONFIG.format(home=os.path.dirname(interpreter)), encoding="utf-8")
    minor = os.path.basename(interpreter)
    (tree / "lib" / minor / "site-packages").mkdir(parents=True)
    # Clients' configs know the bridge by this name (hearth/host/lasting_paths.py): the next Debian has another
    # minor version.
    (tree / "lib" / "python3").symlink_to(minor)


def clean(tree: Path) -> None:
    """Leave what runs: no commands but the interpreter, no traces of pip and of this machine."""
    for path in (tree / "bin").iterdir():
        if path.name != "python":
            path.unlink()
    for record in tree.glob("lib/*/site-packages/*.dist-info"):
        for name in LEFT_OUT:
            (record / name).unlink(missing_ok=True)
        (record / "INSTALLER").write_text(INSTALLER, encoding="utf-8")
    for folder in [*tree.rglob("__pycache__"), *tree.glob("share"), *tree.glob("include")]:
        shutil.rmtree(folder)
    _no_sources(tree)
    _no_commands(tree)
    for packages in tree.glob("lib/python3.*/site-packages"):
        (packages / "systemd").symlink_to(SYSTEMD_PYTHON)


def _no_sources(tree: Path) -> None:
    # Cython's sources lie beside what was compiled of them; nothing reads them.
    for path in sorted(tree.rglob("*"), reverse=True):
        if path.suffix in {".c", ".h", ".pyx", ".pxd", ".pxi"} and path.is_file():
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _no_commands(tree: Path) -> None:
    # Modules that are also scripts are none here: neither by their mode nor by an interpreter that Debian has not.
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o644)
            if path.suffix == ".py" and (source := path.read_bytes()).startswith(b"#!"):
                # The line stays, empty: tracebacks count.
                path.write_bytes(b"\n" + source.partition(b"\n")[2])


def main() -> None:
    """The entry point."""
    deed, tree, *rest = sys.argv[1:]
    {"create": create, "clean": clean}[deed](Path(tree), *rest)


if __name__ == "__main__":
    main()
