"""Decisions of a policy: by a tool's name among many rules, and with paths or shell commands in the arguments."""

import json
import os
import subprocess
from collections.abc import Callable
from time import process_time_ns

from client import ChainError
from measure import Action
from stage import Stage

from hearth.policy.decision import decide
from hearth.policy.loader import parse
from hearth.policy.model import Decision
from hearth.policy.template import TEAM

RULES = 500
DECISIONS = 2000
# Each decided in turn: neither a command nor a path is decided twice in a row.
COMMANDS = [
    "git push origin feature/x{}",
    "git add src/a{}.py && git commit -m 'Change {}' && git push -u origin feature/x{}",
    "pytest -q tests/test_a{}.py",
    "git push --force origin feature/x{}",
    "cat src/a{}.py | grep x",
    'git commit -m "$(date) {}"',
]
PATHS = ["src/a{}.py", "src/deep/er/still/b{}.py", "../other/{}", "link/a{}.py"]


def by_name() -> Action:
    """Microseconds of CPU for a decision by name alone, over 100 tools and a policy of 500 rules that match others."""
    rules = "".join(f'[[rules]]\ntool = "server{number}__tool_*"\ndecide = "ask"\n' for number in range(RULES))
    policy = parse("/policy.toml", f'default_role = "dev"\n[roles.dev]\ntools = ["**"]\n{rules}'.encode())
    arguments = b'{"path": "src/a.py", "content": "x"}'

    def one(number: int) -> Decision:
        return decide(policy, "dev", "other", f"tool_{number % 100}", arguments, "/work")

    return _timed(one, {"allow"})


def with_arguments(stage: Stage) -> dict[str, Action]:
    """Microseconds of CPU for a decision about a command, and about a path, in a repository."""
    folder = os.path.join(stage.folder, "decisions", "project")
    for name in ("src/deep/er/still", "tests", ".git"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "remote", "add", "origin", "https://example.org/x.git"], check=True)
    os.symlink("src", os.path.join(folder, "link"))
    policy = parse(os.path.join(folder, "policy.toml"), TEAM.encode())

    def command(number: int) -> Decision:
        text = COMMANDS[number % len(COMMANDS)].replace("{}", str(number))
        return decide(policy, "dev", None, "Bash", json.dumps({"command": text}).encode(), folder)

    def path(number: int) -> Decision:
        text = PATHS[number % len(PATHS)].replace("{}", str(number))
        return decide(policy, "dev", None, "Read", json.dumps({"file_path": text}).encode(), folder)

    return {"command": _timed(command, {"allow", "ask"}), "path": _timed(path, {"allow", "ask"})}


def decision_actions(stage: Stage) -> dict[str, Action]:
    """All of them."""
    return {"name": by_name(), **with_arguments(stage)}


def _timed(one: Callable[[int], Decision], outcomes: set[str]) -> Action:
    def run() -> float:
        seen = set()
        begin = process_time_ns()
        for number in range(DECISIONS):
            seen.add(one(number).outcome)
        passed = process_time_ns() - begin
        if seen != outcomes:
            raise ChainError(f"decisions are {sorted(seen)}, and not {sorted(outcomes)}")
        return passed / DECISIONS / 1e3

    return run
