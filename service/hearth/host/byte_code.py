"""Compiler of the package's byte code, for the interpreter that a service manager is going to start."""

import subprocess

from hearth.errors import HearthError

# Compiling a few dozen files takes a second; a cold home folder on the network has needed ten.
_COMPILE_LIMIT_SECONDS = 120
_NOT_FOUND, _NOT_WRITABLE = 2, 1
_COMPILE_CODE = f"""
import importlib.util, sys
try:
    found = importlib.util.find_spec("hearth.daemon")
except ImportError:
    found = None
if found is None:
    sys.exit({_NOT_FOUND})
import compileall, hearth, os
from importlib.metadata import distribution
# A package manager's files are its own, and came with their byte code.
if (distribution("mcp-hearth").read_text("INSTALLER") or "").strip() == "dpkg":
    sys.exit(0)
sys.exit(0 if compileall.compile_dir(os.path.dirname(hearth.__file__), quiet=2) else {_NOT_WRITABLE})
"""


def compile_package(python: str) -> bool:
    """Write byte code beside the package, for a fast start of the bridge; return False if the folder is not writable.

    Raises HearthError when the interpreter, isolated as service managers start it, does not find the package.
    """
    try:
        done = subprocess.run(
            [python, "-I", "-c", _COMPILE_CODE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMPILE_LIMIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise HearthError(f"the interpreter {python} cannot be run: {exc}") from exc
    if done.returncode == _NOT_FOUND:
        raise HearthError(
            f"`{python} -I` does not find Hearth, and it would be started that way. An installation by"
            " `pip install --user` is not enough: use `uv tool install`, `pipx install` or a venv"
        )
    return done.returncode == 0
