"""Test modules in folders without `__init__.py` share one space of names, in which pytest takes each only once."""

from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
# Collected by itself, by a Windows Python.
WINDOWS = TESTS / "windows"


def module_name(path: Path) -> str:
    """The name under which pytest imports it."""
    parts = [path.stem]
    for folder in path.parents:
        if not (folder / "__init__.py").exists():
            break
        parts.insert(0, folder.name)
    return ".".join(parts)


def test_no_two_test_modules_have_one_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in TESTS.rglob("test_*.py"):
        if path.parent != WINDOWS:
            found[module_name(path)].append(str(path.relative_to(TESTS)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
