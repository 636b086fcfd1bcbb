"""Decisions of a policy: by a tool's name among many rules, and with paths or shell commands in the arguments."""

import json
import os
import subprocess
from collections.abc import Callable
from time import process_time_ns
from typing import NamedTuple

from client import ChainError
from measure import Action
from stage import Stage

from hearth.policy.decision import decide
from hearth.policy.loader import parse
from hearth.policy.model import Decision
from hearth.policy.template import TEAM

RULES = 500
TOOLS = 100
# Policies of one sample of first decisions; each has every tool once.
POLICIES = 5
DECISIONS = 2000
# Files that there are of each name: what agents work on exists.
FILES = 50


class Kind(NamedTuple):
    """Kind of calls that are usual: `form` has `{}` where one differs from the next, so that none is decided twice."""

    form: str
    outcome: str
    tool: str = "Bash"


KINDS = {
    "`git push`": Kind("git push origin feature/x{}", "allow"),
    "`git add && git commit && git push`": Kind(
        "git add src/a{}.py && git commit -m 'Change {}' && git push -u origin feature/x{}", "allow"
    ),
    "a test": Kind("pytest -q tests/test_a{}.py", "allow"),
    "six commands in one line": Kind(
        "git status --short && git add src/a{}.py src/deep/b{}.py && pytest -q tests/test_a{}.py"
        " && git commit -m 'Change {}' && git push origin feature/x{} && git status",
        "allow",
    ),
    "six commands that no grant covers": Kind(
        "cd src && npm ci && npm run build{} && cp dist/a{}.js public/a.js && git add public/a.js && git commit -m x{}",
        "ask",
    ),
    "a script with paths": Kind("python3 scripts/run{}.py --out build/o{}.json", "ask"),
    "a command that cannot be split": Kind('git commit -m "$(date) {}"', "ask"),
    "reading a file": Kind("src/deep/b{}.py", "allow", "Read"),
    "reading outside": Kind("../other/{}", "ask", "Read"),
    "writing a file": Kind("src/a{}.py", "allow", "Write"),
    "writing through a link": Kind("link/a{}.py", "allow", "Write"),
}
CONTENT = "import os  # see src/a.py and docs/page.md\n" * 90


def by_name() -> dict[str, Action]:
    """Microseconds of CPU for a decision by name alone, over 100 tools and a policy of 500 rules that match others.

    Half of the rules are about the same server. "first" is the first decision about each tool under a policy that was
    just read.
    """
    names = [f"server{number}__tool_*" if number % 2 else f"other__special_{number}" for number in range(RULES)]
    rules = "".join(f'[[rules]]\ntool = "{name}"\ndecide = "ask"\n' for name in names)
    text = f'default_role = "dev"\n[roles.dev]\ntools = ["**"]\n{rules}'.encode()
    policy = parse("/policy.toml", text)
    arguments = b'{"path": "src/a.py", "content": "x"}'

    def again(number: int) -> Decision:
        return decide(policy, "dev", "other", f"tool_{number % TOOLS}", arguments, "/work")

    def first() -> float:
        passed = 0
        for _ in range(POLICIES):
            new = parse("/policy.toml", text)
            begin = process_time_ns()
            outcomes = {
                decide(new, "dev", "other", f"tool_{number}", arguments, "/work").outcome for number in range(TOOLS)
            }
            passed += process_time_ns() - begin
            check(outcomes, "allow")
        return passed / POLICIES / TOOLS / 1e3

    return {"first by name": first, "by name": timed(again, "allow")}


def with_arguments(stage: Stage) -> dict[str, Action]:
    """Microseconds of CPU for a decision about each kind of call, in a repository."""
    folder = os.path.join(stage.folder, "decisions", "project")
    for name in ("src/deep", "tests", ".git"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    for number in range(FILES):
        for name in ("src/a{}.py", "src/deep/b{}.py", "tests/test_a{}.py"):
            with open(os.path.join(folder, name.format(number)), "w"):
                pass
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "remote", "add", "origin", "https://example.org/x.git"], check=True)
    os.symlink("src", os.path.join(folder, "link"))
    policy = parse(os.path.join(folder, "policy.toml"), TEAM.encode())

    def action(kind: Kind) -> Action:
        calls = [arguments(kind, number) for number in range(FILES)]
        return timed(lambda number: decide(policy, "dev", None, kind.tool, calls[number % FILES], folder), kind.outcome)

    return {name: action(kind) for name, kind in KINDS.items()}


def arguments(kind: Kind, number: int) -> bytes:
    """The arguments of one call, as a client's hook passes them."""
    text = kind.form.replace("{}", str(number))
    if kind.tool == "Bash":
        return json.dumps({"command": text}).encode()
    return json.dumps({"file_path": text} | ({"content": CONTENT} if kind.tool == "Write" else {})).encode()


def decision_actions(stage: Stage) -> dict[str, Action]:
    """All of them."""
    return {**by_name(), **with_arguments(stage)}


def timed(one: Callable[[int], Decision], outcome: str) -> Action:
    """The mean of many, each of which must have that outcome."""

    def run() -> float:
        seen = set()
        begin = process_time_ns()
        for number in range(DECISIONS):
            seen.add(one(number).outcome)
        passed = process_time_ns() - begin
        check(seen, outcome)
        return passed / DECISIONS / 1e3

    return run


def check(seen: set[str], outcome: str) -> None:
    """Raise ChainError for decisions of another outcome: a fast refusal is no fast permission."""
    if seen != {outcome}:
        raise ChainError(f"decisions are {sorted(seen)}, and not {outcome}")
