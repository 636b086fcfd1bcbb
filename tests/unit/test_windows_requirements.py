"""What the tests on Windows are run with is what Hearth says that it needs there."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
WINDOWS = {"sys_platform": "win32", "os_name": "nt", "platform_system": "Windows", "python_version": "3.11"}


def needed() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = map(Requirement, project["dependencies"])
    return [each for each in found if each.marker is None or each.marker.evaluate({**WINDOWS})]


def installed() -> dict[str, str]:
    lines = (ROOT / "tests" / "windows" / "requirements.txt").read_text("utf-8").splitlines()
    pins = (line.split()[0].split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pins}


def test_the_windows_python_has_every_dependency_in_a_version_that_will_do() -> None:
    have = installed()
    wrong = [str(each) for each in needed() if not each.specifier.contains(have.get(canonicalize_name(each.name), "0"))]
    assert wrong == []


def test_every_file_for_the_windows_python_is_known_by_its_hash() -> None:
    for name in ("requirements.txt", "python.txt"):
        lines = (ROOT / "tests" / "windows" / name).read_text("utf-8").splitlines()
        assert [line for line in lines if not line.startswith("#") and "--hash=sha256:" not in line] == []
