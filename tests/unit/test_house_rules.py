"""House rules of CONTRIBUTING.md that a program can check: language, sizes and names in service/hearth.

The lists beside this file name the modules and folders that do not keep to a rule yet. They may only get shorter: an
entry that keeps to the rule fails the test until it is removed.
"""

import ast
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from support import plain_english

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "service" / "hearth"
LISTS = Path(__file__).with_name("house_rules")

MODULE_LINES_LIMIT = 400
FOLDER_MODULES_LIMIT = 25


@cache
def modules() -> dict[str, str]:
    """Return the source of every module, by its path below the package."""
    return {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


def exempt(rule: str) -> set[str]:
    """Return the entries that are exempt from a rule, for now."""
    path = LISTS / f"{rule}.txt"
    return set(path.read_text(encoding="utf-8").split()) if path.exists() else set()


def hold(rule: str, broken: dict[str, object]) -> None:
    """Fail for what breaks a rule without being exempt, and for exemptions that are no longer needed."""
    listed = exempt(rule)
    assert {name: why for name, why in broken.items() if name not in listed} == {}
    assert listed - broken.keys() == set(), f"remove these from {LISTS.name}/{rule}.txt"


def not_imperative() -> dict[str, list[str]]:
    """Return what ruff says of the mood of docstrings, by module."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--isolated", "--select", "D401"]
    command += ["--output-format", "concise", str(PACKAGE)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PACKAGE)
    assert shown.returncode in (0, 1), shown.stderr
    found: dict[str, list[str]] = defaultdict(list)
    for line in shown.stdout.splitlines():
        path, _, rest = line.partition(":")
        if "D401" in rest:
            found[str((PACKAGE / path).relative_to(PACKAGE))].append(rest)
    return found


def test_docstrings_comments_and_log_lines_are_plain_english() -> None:
    moods = not_imperative()
    found = {name: [*plain_english.check(source), *moods.get(name, ())] for name, source in modules().items()}
    hold("plain_english", {name: violations[:3] for name, violations in found.items() if violations})


def test_modules_are_not_too_long() -> None:
    lengths = {name: source.count("\n") for name, source in modules().items()}
    hold("long_modules", {name: length for name, length in lengths.items() if length > MODULE_LINES_LIMIT})


def test_folders_are_not_too_full() -> None:
    folders: dict[str, int] = defaultdict(int)
    for name in modules():
        folders[str(Path(name).parent)] += 1
    hold("full_folders", {name: count for name, count in folders.items() if count > FOLDER_MODULES_LIMIT})


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for name, source in modules().items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(name)
    hold("class_names", {name: sorted(found) for name, found in places.items() if len(found) > 1})


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ('"""What is written to."""', "opening"),
        ("# It is done.\nx = 1", "opening"),
        ("# Good.\n# Somebody waits for it.\nx = 1", "opening"),
        ('def f():\n    """The value."""', "imperative"),
        ('def f():\n    """Return it anew."""', "phrase 'anew'"),
        ('log.info("nobody waits for %s", 1)', "opening"),
        ('"""Reader of lines. They are bytes."""', "opening"),
    ],
)
def test_the_checker_finds_what_it_is_for(source: str, rule: str) -> None:
    assert [violation.rule for violation in plain_english.check(source)] == [rule]


@pytest.mark.parametrize(
    "source",
    [
        '"""Reader of lines: "who reads" is a quotation, and so is `what`."""',
        "# A question is never delivered to a session that did not cause it.\nx = 1",
        'class A:\n    """Idle instances of one server; `reap()` stops one permanently."""',
        'class A:\n    @property\n    def size(self):\n        """The number of bytes."""',
        'log.info("server started name=%s pid=%d", "a", 1)',
    ],
)
def test_the_checker_passes_plain_sentences(source: str) -> None:
    assert plain_english.check(source) == []
