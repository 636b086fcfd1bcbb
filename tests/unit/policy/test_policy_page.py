"""docs/policy.md: its examples are valid, its tables say what is decided, and its settings are those of the schema."""

import json
import re
from pathlib import Path

import pytest

from hearth.policy.captures import KINDS
from hearth.policy.decision import decide
from hearth.policy.loader import parse
from hearth.policy.schema import AUDIT_KEYS, HOOK_KEYS, ROLE_KEYS, SETTINGS, STOP_CHECK_KEYS

PAGE = (Path(__file__).parents[3] / "docs" / "policy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
# An example with a table of calls behind it.
EXAMPLES = re.findall(
    r"^```toml\n([^`]*?)^```\n\n\| call by `(\w+)` \|[^\n]*\n\| --- [^\n]*\n(.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL
)
OWN_TOOLS = {"Bash": "command", "Read": "file_path", "Write": "file_path", "Edit": "file_path"}


def calls() -> list[tuple[str, str, str, str]]:
    """Return policy, role, call and decision of every row."""
    found = []
    for policy, role, rows in EXAMPLES:
        for row in rows.splitlines():
            cells = re.split(r"(?<!\\)\|", row.strip("|"))
            found.append((policy, role, cells[0].replace("\\|", "|").strip(), cells[1].strip()))
    return found


def keys_under(heading: str) -> set[str]:
    """Return the names in the first column of the tables in a section."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([a-z_.]+)`", row)}


APPROVALS = (Path(__file__).parents[3] / "docs" / "approvals.md").read_text(encoding="utf-8")


def test_the_worked_example_of_approvals_is_asked_by_the_line_that_the_page_names() -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```", APPROVALS, re.MULTILINE | re.DOTALL)
    policy = parse("/c/policy.toml", text.encode())
    found = decide(policy, "dev", "github", "merge_pull_request", b'{"number": 7}', None)
    assert f"ask the {found.level}: {found.reason}\n  {found.source}: decide" in APPROVALS
    settings = dict(re.findall(r"^\| `(\w+)` \| (\d+) s \|", APPROVALS, re.MULTILINE))
    assert {name: float(value) for name, value in settings.items()} == {
        name: getattr(policy, name) for name in ("approval_wait", "lead_timeout", "approval_timeout", "hook_wait")
    }


def test_the_page_has_examples() -> None:
    assert len(BLOCKS) >= 6
    assert len(EXAMPLES) == 3
    assert len(calls()) >= 25


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_example_is_valid(block: str) -> None:
    text = block
    if "default_role" not in text:
        text = 'default_role = "dev"\n' + text + ("" if "[roles.dev]" in text else "[roles.dev]\n")
    assert parse("/x/policy.toml", text.encode())


@pytest.mark.parametrize(("policy", "role", "call", "decision"), calls(), ids=lambda value: str(value)[:50])
def test_the_tables_say_what_is_decided(policy: str, role: str, call: str, decision: str, project: Path) -> None:
    tool, _, rest = call.replace("`", "").partition(" ")
    server, _, name = tool.rpartition("__")
    arguments = {OWN_TOOLS[tool]: rest} if tool in OWN_TOOLS else {}
    found = decide(
        parse(str(project / "policy.toml"), policy.encode()),
        role,
        server or None,
        name,
        json.dumps(arguments).encode(),
        str(project),
    )
    assert f"{found.outcome} {found.level}".strip() == decision, found


def test_every_setting_key_and_kind_is_explained() -> None:
    tables = {f"hooks.{key}" for key in HOOK_KEYS} | {f"audit.{key}" for key in AUDIT_KEYS}
    assert keys_under("Settings") >= {*SETTINGS, *tables, *STOP_CHECK_KEYS}
    assert keys_under("Roles") >= set(ROLE_KEYS)
    assert keys_under("Permissions") >= set(KINDS)
