"""The stand-in for launchd's part of libSystem, compiled once for all tests that ask for it."""

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from support.requirements import needs_program

SOURCE = Path(__file__).with_name("stand_in.c")


@cache
def _compiled(compiler: str) -> str:
    folder = tempfile.mkdtemp(prefix="hearth-launchd-", dir="/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = f"{folder}/stand_in.so"
    subprocess.run(
        [compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, str(SOURCE), "-ldl"],
        check=True,
        timeout=60,
    )
    return library


def stand_in() -> str:
    """The path of the library; the test is skipped without a compiler, and fails without one in CI."""
    return _compiled(needs_program("cc"))
