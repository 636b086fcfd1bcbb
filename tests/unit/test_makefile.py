"""Which packages `make` installs for which purpose, as `make --dry-run` tells it."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Not wanted by whoever only looks at the demo.
DEVELOPMENT = {"mypy", "ruff", "pytest", "hypothesis", "coverage", "build"}

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def planned(goal: str, venv: Path) -> str:
    """The commands that make would run for a goal, with that environment."""
    command = ["make", "--dry-run", "--no-print-directory", f"VENV={venv}", goal]
    # Of a make that runs these tests, nothing is to be inherited.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_demo_installs_what_running_needs_and_shows_pip_s_progress(tmp_path: Path) -> None:
    said = planned("demo", tmp_path / "venv")
    assert re.findall(r"\.\[(\w+)\]", said) == ["demo"]
    assert "--quiet" not in said
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {re.split(r"\W", each)[0] for each in extras["demo"]} & DEVELOPMENT == set()


def test_the_second_demo_installs_nothing(tmp_path: Path) -> None:
    (tmp_path / ".runs").touch()
    assert "pip" not in planned("demo", tmp_path)


@pytest.mark.parametrize("before", [(), (".runs",)])
def test_the_tests_install_theirs_whether_the_demo_ran_before_or_not(tmp_path: Path, before: tuple[str, ...]) -> None:
    for stamp in before:
        (tmp_path / stamp).touch()
    said = planned("test", tmp_path)
    assert re.findall(r"\.\[(\w+)\]", said) == ["test"]
    assert said.index("venv") < said.index("[test]") < said.index("-m pytest")


def test_after_the_tests_the_demo_installs_nothing(tmp_path: Path) -> None:
    said = planned("test", tmp_path)
    for path in re.findall(r"^touch (.+)$", said, re.MULTILINE)[-1].split():
        Path(path).touch()
    assert "pip" not in planned("demo", tmp_path)
