"""The chart, the code and the documentation name the same checks and the same mending."""

import ast
from collections.abc import Iterator
from pathlib import Path

from hearth.doctor.checks import CHECKS, FIX_SUMMARIES, GROUPS
from hearth.doctor.fixes import FIXES

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "service" / "hearth"
MODULES = [*sorted((PACKAGE / "doctor").glob("*.py")), PACKAGE / "control_client" / "launchd_agent.py"]


GROUP_NAMES = {group.name for group in GROUPS} | {"doctor"}


def named() -> Iterator[str]:
    """Every text of the code that reads like a check: GROUP.NAME. The chart's own keys do not count."""
    for path in MODULES:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        keys = {key for node in nodes if isinstance(node, ast.Dict) for key in node.keys}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in keys:
                group, dot, name = node.value.partition(".")
                if dot and group in GROUP_NAMES and name.isidentifier():
                    yield node.value


def test_every_check_of_the_code_is_on_the_chart_and_the_other_way_round() -> None:
    assert set(named()) == set(CHECKS)


def test_every_deed_is_done_by_somebody_and_said_in_words() -> None:
    assert set(FIX_SUMMARIES) == set(FIXES)
    assert {check.fix for check in CHECKS.values() if check.fix} == set(FIXES)


def test_the_documentation_has_the_chart() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    rows = [
        f"| `{name}` | {check.means} | {FIX_SUMMARIES[check.fix] if check.fix else ''} |".replace("|  |", "| |")
        for name, check in CHECKS.items()
    ]
    assert [line for line in page.splitlines() if line.startswith("| `")] == rows
